//! Logs in and out.

use std::path::PathBuf;

use client::error::{Description, Login, LoginHow, logins};
use serde_json::{Value, json};

use super::sessions::Opening;
use super::{Conversation, Pending, Phase};

/// A login that is a program in the terminal.
#[derive(Debug)]
pub(crate) struct TerminalLogin {
    /// The name of the login.
    pub(crate) name: String,
    /// The command line, for a shell.
    pub(crate) command: String,
    /// Environment variables in addition to ours.
    pub(crate) environment: Vec<(String, String)>,
    /// The working directory, if it is not ours.
    pub(crate) folder: Option<PathBuf>,
}

impl Conversation {
    /// Handles the end of a login in the terminal. `None` if the view cannot hand the terminal over.
    pub(crate) fn on_terminal_login(
        &mut self,
        login: &TerminalLogin,
        ended: Option<Result<(), String>>,
    ) {
        match ended {
            Some(Ok(())) => self.on_login(&login.name, Ok(Value::Null)),
            Some(Err(why)) => {
                self.show_error(&format!("The login failed: {why}."));
                self.show_activity();
            }
            None => self.view.lock().note(&format!(
                "To log in, run this command in another terminal:\n  {}\nThen enter /new.",
                login.command
            )),
        }
    }

    fn logins(&self) -> Vec<Login> {
        logins(&self.greeting, &self.options.agent_command)
    }

    pub(super) fn can_login(&self) -> bool {
        !self.logins().is_empty()
    }

    pub(super) fn can_logout(&self) -> bool {
        match self.version {
            2.. => self.can_login(),
            _ => self.greeting["agentCapabilities"]["auth"]["logout"].is_object(),
        }
    }

    /// Explains that the agent needs a login, and how to log in.
    pub(super) fn ask_for_login(&mut self, description: &Description) {
        self.phase = match self.session.is_empty() {
            true => Phase::LoggedOut,
            false => Phase::Idle,
        };
        let mut text = description.summary.clone();
        description.details.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        self.view.lock().error(&text);
        match self.can_login() {
            true => self.list_logins(),
            false => {
                let remedy = description.remedy.join("\n");
                let text = format!("{remedy}\nThen enter /new to try again.");
                self.view.lock().note(&text);
            }
        }
        self.discard_queue();
        self.show_activity();
    }

    /// Lists the ways to log in.
    fn list_logins(&self) {
        let row = |(number, login): (usize, &Login)| {
            let about = match (&login.how, login.description.as_str()) {
                (LoginHow::Terminal(_), "") => "runs in a terminal",
                (LoginHow::Environment { .. }, "") => "needs an environment variable",
                (_, description) => description,
            };
            let about = if about.is_empty() { String::new() } else { format!("  {about}") };
            format!("  {number} {}{about}", login.name)
        };
        let rows: Vec<String> = (1..).zip(&self.logins()).map(row).collect();
        let text = format!("Ways to log in:\n{}\nLog in with /login N.", rows.join("\n"));
        self.view.lock().note(&text);
    }

    /// `/login`: logs in with a method, given by number, id or name.
    pub(super) fn login(&mut self, wanted: &str) {
        let methods = self.logins();
        let wanted = wanted.trim().to_lowercase();
        let number = wanted.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
        let named = |it: &&Login| {
            it.id.to_lowercase() == wanted || it.name.to_lowercase().starts_with(&wanted)
        };
        let login = match (wanted.is_empty(), methods.as_slice()) {
            (_, []) => return self.view.lock().note("The agent offers no way to log in."),
            (true, [login]) => Some(login),
            (true, _) => return self.list_logins(),
            (false, methods) => {
                number.and_then(|it| methods.get(it)).or_else(|| methods.iter().find(named))
            }
        };
        let Some(login) = login else {
            self.show_error("The agent offers no such way to log in.");
            return self.list_logins();
        };
        match &login.how {
            LoginHow::Authenticate => self.authenticate(login),
            LoginHow::Terminal(command) => {
                self.terminal_login = Some(TerminalLogin {
                    name: login.name.clone(),
                    command: command.clone(),
                    environment: self.options.agent_environment.clone(),
                    folder: self.options.agent_folder.clone(),
                });
            }
            LoginHow::Environment { .. } => {
                let text = format!("{}.\nThen start this chat again.", login.remedy());
                self.view.lock().note(&text);
            }
        }
    }

    fn authenticate(&mut self, login: &Login) {
        let method = if self.version >= 2 { "auth/login" } else { "authenticate" };
        let name = login.name.clone();
        self.view.lock().note(&format!("Logging in: {name}. Ctrl-C cancels."));
        self.request(method, &json!({ "methodId": login.id }), Pending::Login { name });
        self.show_activity();
    }

    pub(super) fn on_login(&mut self, name: &str, outcome: Result<Value, Value>) {
        match outcome {
            Ok(_) => {
                self.view.lock().note(&format!("Logged in: {name}."));
                if self.session.is_empty() {
                    return self.open(Opening::New);
                }
            }
            Err(error) => {
                let mut description = self.describe(&error, "authenticate");
                description.remedy.clear();
                self.show_error(&description.to_string());
            }
        }
        self.show_activity();
    }

    pub(super) fn logout(&mut self) {
        let method = if self.version >= 2 { "auth/logout" } else { "logout" };
        self.request(method, &json!({}), Pending::Logout);
        self.show_activity();
    }

    pub(super) fn on_logout(&mut self, outcome: Result<Value, Value>) {
        match outcome {
            Ok(_) => self.view.lock().note("Logged out."),
            Err(error) => {
                let description = self.describe(&error, "logout");
                self.show_error(&description.to_string());
            }
        }
        self.show_activity();
    }
}
