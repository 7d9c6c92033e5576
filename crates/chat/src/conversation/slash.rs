//! Performs the slash commands.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::sessions::Opening;
use super::{Conversation, Pending, Phase};
use crate::commands::{self, Line, Own};
use crate::view::SlashCommand;
use client::settings::{Kind, Setting};

impl Conversation {
    /// The commands of the chat and of the agent.
    pub(super) fn all_commands(&self) -> Vec<SlashCommand> {
        let mut all = commands::own(|own| self.is_available(own));
        all.extend(self.agent_commands.iter().cloned());
        all
    }

    /// Whether the agent supports what the command does.
    fn is_available(&self, own: Own) -> bool {
        match own {
            Own::Sessions => self.can_list(),
            Own::Load => self.can_load(),
            Own::Resume => self.can_resume() || self.can_load(),
            Own::Mode => self.setting("mode").is_some(),
            Own::Model => self.setting("model").is_some(),
            Own::Config => self.settings.iter().any(|it| it.kind == Kind::Option),
            Own::Login => self.can_login(),
            Own::Logout => self.can_logout(),
            Own::Wire => self.options.interactive || self.options.wire.load(Ordering::Relaxed),
            Own::Help | Own::Exit | Own::New | Own::Cwd | Own::Unfold => true,
        }
    }

    /// The setting of a category. A config option replaces the older forms.
    pub(super) fn setting(&self, category: &str) -> Option<&Setting> {
        self.settings.iter().find(|it| it.category == category)
    }

    /// Performs a command that does not wait until the agent is idle. Returns whether the line was one.
    pub(super) fn perform_at_once(&mut self, line: &str) -> bool {
        let Line::Command { name, argument } = commands::parse(line) else {
            return self.phase == Phase::LoggedOut && self.prompt_without_session(line);
        };
        let own =
            Own::find(&name).filter(|own| own.is_immediate() || self.phase == Phase::LoggedOut);
        match own {
            // In the order of the input, if there is no person.
            Some(_) if !self.options.interactive && !self.is_idle() => false,
            Some(_) => {
                self.command(line, &name, &argument);
                true
            }
            None => false,
        }
    }

    /// A prompt without a session: tries to open one, and sends the prompt then.
    fn prompt_without_session(&mut self, line: &str) -> bool {
        self.queue.push_back(line.to_owned());
        self.show_queue();
        if self.pending.is_empty() {
            self.open(Opening::New);
        }
        true
    }

    /// Performs a command of the chat or of the agent.
    pub(super) fn command(&mut self, line: &str, name: &str, argument: &str) {
        let of_agent = self.agent_commands.iter().any(|it| it.name == name);
        match Own::find(name) {
            Some(own) if self.is_available(own) || !of_agent => self.own_command(own, argument),
            _ if of_agent && self.has_session() => self.prompt(line.trim()),
            _ => self.unknown_command(name),
        }
    }

    fn unknown_command(&mut self, name: &str) {
        let commands = self.all_commands();
        let suggestion = commands::suggest(name, commands.iter().map(|it| it.name.as_str()));
        let suggestion = suggestion.map(|it| format!(" Did you mean /{it}?")).unwrap_or_default();
        self.show_error(&format!(
            "There is no command /{name}.{suggestion} /help lists the commands. Begin with a space to send the line as it is."
        ));
    }

    fn own_command(&mut self, own: Own, argument: &str) {
        let missing = |what: &str| format!("The agent offers no {what}.");
        match own {
            Own::Help => {
                let text = commands::help(&self.all_commands());
                self.view.lock().note(&text);
            }
            Own::Exit => self.leave(),
            Own::New => self.open(Opening::New),
            Own::Sessions if !self.can_list() => {
                self.show_error(&missing("list of sessions"));
            }
            Own::Sessions => self.list_sessions(),
            Own::Load | Own::Resume if argument.is_empty() && self.can_list() => {
                self.list_sessions()
            }
            Own::Load | Own::Resume if argument.is_empty() => {
                self.show_error("Name the session: /load ID or /resume ID.");
            }
            Own::Load => self.open(Opening::Load(self.session_id(argument))),
            Own::Resume => self.open(Opening::Resume(self.session_id(argument))),
            Own::Mode => self.change_setting("mode", "modes", argument),
            Own::Model => self.change_setting("model", "models", argument),
            Own::Config => self.configure(argument),
            Own::Login => self.login(argument),
            Own::Logout if !self.can_logout() => self.show_error(&missing("way to log out")),
            Own::Logout => self.logout(),
            Own::Cwd => {
                let folder = self.options.folder.display().to_string();
                self.view.lock().note(&folder);
            }
            Own::Unfold => self.view.lock().unfold(argument.parse().ok()),
            Own::Wire => self.show_wire(argument),
        }
    }

    /// `/wire`: shows the messages between the components, or stops that.
    fn show_wire(&mut self, argument: &str) {
        let shown = match argument {
            "on" => true,
            "off" => false,
            "" => !self.options.wire.load(Ordering::Relaxed),
            _ => return self.show_error("Enter /wire on or /wire off."),
        };
        self.options.wire.store(shown, Ordering::Relaxed);
        self.view.lock().note(match shown {
            true => "The messages between the components are shown. /wire off stops that.",
            false => "The messages between the components are not shown.",
        });
    }

    fn change_setting(&mut self, category: &str, plural: &str, argument: &str) {
        match self.setting(category).cloned() {
            None => self.show_error(&format!("The agent offers no {plural}.")),
            Some(setting) => self.set(&setting, &format!("/{category} N"), argument),
        }
    }

    /// `/config`: lists the options, or changes one.
    fn configure(&mut self, argument: &str) {
        let (wanted, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let wanted = wanted.to_lowercase();
        let setting = self
            .settings
            .iter()
            .find(|it| it.id.to_lowercase() == wanted || it.name.to_lowercase() == wanted);
        match setting.cloned() {
            Some(setting) => self.set(&setting, &format!("/config {} N", setting.id), value),
            None if self.settings.is_empty() => self.show_error("The agent offers no options."),
            None => {
                if !wanted.is_empty() {
                    self.show_error("The agent offers no such option.");
                }
                let row = |it: &Setting| format!("  {}: {}", it.id, it.current_name());
                let rows: Vec<String> = self.settings.iter().map(row).collect();
                let text = format!(
                    "Options:\n{}\nShow the values of one with /config OPTION.",
                    rows.join("\n")
                );
                self.view.lock().note(&text);
            }
        }
    }

    /// Changes a setting, or lists its values.
    fn set(&mut self, setting: &Setting, usage: &str, argument: &str) {
        if argument.is_empty() {
            let text = format!("{}:\n{}\nChange it with {usage}.", setting.name, setting.list());
            return self.view.lock().note(&text);
        }
        let Some(value) = setting.find(argument).map(|it| it.value.clone()) else {
            self.show_error(&format!("There is no such {}.\n{}", setting.name, setting.list()));
            return;
        };
        let (method, params) = setting.request(&self.session, &value, self.version);
        self.request(method, &params, Pending::Set { setting: Box::new(setting.clone()), value });
    }

    pub(super) fn on_set(
        &mut self,
        setting: &Setting,
        value: &Value,
        outcome: Result<Value, Value>,
    ) {
        match outcome {
            Err(error) => {
                let description = self.describe(&error, "");
                self.show_error(&description.to_string());
            }
            Ok(answer) => {
                let changed = self
                    .settings
                    .iter_mut()
                    .find(|it| it.kind == setting.kind && it.id == setting.id);
                changed.into_iter().for_each(|it| it.current = value.clone());
                self.set_options(&answer["configOptions"]);
                let changed = self.settings.iter().find(|it| it.id == setting.id);
                let name = changed.map(Setting::current_name).unwrap_or_default();
                self.view.lock().note(&format!("{}: {name}", setting.name));
            }
        }
    }
}
