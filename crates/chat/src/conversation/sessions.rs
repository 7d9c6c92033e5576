//! Opens, lists, loads and resumes sessions.

use acp_wire::printable::one_line;
use serde_json::{Value, json};

use super::updates::agent_commands;
use super::{Conversation, Pending, Phase};
use crate::commands::shorten;
use crate::mcp_server;
pub(super) use client::Opening;
use client::settings;

/// How many sessions are listed.
const MAX_LISTED: usize = 50;
/// The maximum length of a title in the list of sessions.
const MAX_TITLE: usize = 80;

impl Conversation {
    pub(super) fn can_load(&self) -> bool {
        match self.version {
            2.. => self.greeting["capabilities"]["session"].is_object(),
            _ => self.greeting["agentCapabilities"]["loadSession"] == true,
        }
    }

    pub(super) fn can_resume(&self) -> bool {
        match self.version {
            2.. => self.greeting["capabilities"]["session"].is_object(),
            _ => self.greeting["agentCapabilities"]["sessionCapabilities"]["resume"].is_object(),
        }
    }

    pub(super) fn can_list(&self) -> bool {
        match self.version {
            2.. => self.greeting["capabilities"]["session"].is_object(),
            _ => self.greeting["agentCapabilities"]["sessionCapabilities"]["list"].is_object(),
        }
    }

    /// Opens a session. The current session stays open until the answer.
    pub(super) fn open(&mut self, opening: Opening) {
        // The other way is used if the agent has only that one.
        let opening = match opening {
            Opening::Load(id) if !self.can_load() && self.can_resume() => Opening::Resume(id),
            Opening::Resume(id) if !self.can_resume() && self.can_load() => Opening::Load(id),
            opening => opening,
        };
        if opening != Opening::New && !self.can_load() && !self.can_resume() {
            return self.open_failed("The agent cannot load or resume sessions.");
        }
        let servers: Vec<Value> = self
            .options
            .mcp_servers
            .iter()
            .map(|server| mcp_server::for_version(server, self.version))
            .collect();
        let mut params = json!({ "cwd": self.options.folder, "mcpServers": servers });
        let method = match &opening {
            Opening::New => "session/new",
            Opening::Load(id) => {
                params["sessionId"] = id.as_str().into();
                if self.version >= 2 {
                    params["replayFrom"] = json!({ "type": "start" });
                }
                if self.version >= 2 { "session/resume" } else { "session/load" }
            }
            Opening::Resume(id) => {
                params["sessionId"] = id.as_str().into();
                "session/resume"
            }
        };
        self.early_updates.clear();
        self.tool_calls.clear();
        self.request(method, &params, Pending::Open(opening));
        self.enter(Phase::Starting);
    }

    pub(super) fn on_opened(&mut self, opening: Opening, outcome: Result<Value, Value>) {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => {
                let description = self.describe(&error, opening.method());
                if description.login && self.options.interactive {
                    return self.ask_for_login(&description);
                }
                return self.open_failed(&description.to_string());
            }
        };
        let id = match &opening {
            Opening::New => answer["sessionId"].as_str().unwrap_or_default(),
            Opening::Load(id) | Opening::Resume(id) => id,
        };
        if id.is_empty() {
            let why = self.wrong_answer(
                "answered session/new without a sessionId, which must be a text",
                "use another version of the agent, and report this to its authors",
            );
            return self.open_failed(&why);
        }
        let first = self.session.is_empty();
        self.session = id.to_owned();
        self.answers = 0;
        self.usage.clear();
        if opening == Opening::New {
            self.agent_commands.clear();
        }
        if answer["availableCommands"].is_array() {
            self.agent_commands = agent_commands(&answer["availableCommands"]);
        }
        self.settings = settings::of_session(&answer);
        self.phase = Phase::Idle;
        self.view.lock().session(&json!({
            "sessionId": self.session,
            "protocolVersion": self.version,
            "cwd": self.options.folder,
            "agent": self.agent_info(),
        }));
        match (first, &opening) {
            (true, _) if self.options.interactive => self.welcome(),
            (false, Opening::New) => self.view.lock().note("A new session."),
            (_, Opening::Load(_)) => self.view.lock().note("The session is loaded."),
            (_, Opening::Resume(_)) => self.view.lock().note("The session is resumed."),
            (true, Opening::New) => {}
        }
        for (session, update) in std::mem::take(&mut self.early_updates) {
            if session == self.session {
                self.show_update(&update, false);
            }
        }
        self.show_facts();
        self.show_activity();
    }

    /// A failure to open the first session ends the chat. Otherwise the current session continues.
    fn open_failed(&mut self, why: &str) {
        match self.session.is_empty() && self.phase != Phase::LoggedOut {
            true => self.end = Some(Err(why.to_owned())),
            false => {
                self.show_error(why);
                let phase = if self.session.is_empty() { Phase::LoggedOut } else { Phase::Idle };
                self.enter(phase);
            }
        }
    }

    fn agent_info(&self) -> Value {
        match &self.greeting["info"] {
            Value::Null => self.greeting["agentInfo"].clone(),
            info => info.clone(),
        }
    }

    fn welcome(&self) {
        let (agent, proxies) = match self.options.chain.split_last() {
            Some((agent, proxies)) => (agent.as_str(), proxies.join(", then ")),
            None => ("", String::new()),
        };
        let info = self.agent_info();
        let title = info["title"].as_str().or(info["name"].as_str()).unwrap_or_default();
        let version = info["version"].as_str().unwrap_or_default();
        let about = one_line(format!("{title} {version}").trim());
        let about = match about.is_empty() || title == agent {
            true => String::new(),
            false => format!(" ({about})"),
        };
        let through = if proxies.is_empty() { proxies } else { format!(" through {proxies}") };
        self.view.lock().note(&format!(
            "You are talking to {agent}{about}{through}.\nEnter a prompt, or /help. Ctrl-C interrupts an answer, Ctrl-D leaves."
        ));
    }

    /// Requests the list of sessions.
    pub(super) fn list_sessions(&mut self) {
        let params = json!({ "cwd": self.options.folder });
        self.request("session/list", &params, Pending::List { sessions: Vec::new() });
        self.show_activity();
    }

    pub(super) fn on_list(&mut self, mut sessions: Vec<Value>, outcome: Result<Value, Value>) {
        match outcome {
            Err(error) => {
                let description = self.describe(&error, "session/list");
                self.show_error(&description.to_string());
            }
            Ok(answer) => {
                let page = answer["sessions"].as_array().cloned().unwrap_or_default();
                let cursor = answer["nextCursor"].as_str().filter(|_| !page.is_empty());
                sessions.extend(page);
                if let Some(cursor) = cursor
                    && sessions.len() < MAX_LISTED
                {
                    let params = json!({ "cwd": self.options.folder, "cursor": cursor });
                    return self.request("session/list", &params, Pending::List { sessions });
                }
                self.show_sessions(&sessions[..sessions.len().min(MAX_LISTED)]);
            }
        }
        self.show_activity();
    }

    fn show_sessions(&mut self, sessions: &[Value]) {
        let id = |it: &Value| it["sessionId"].as_str().unwrap_or_default().to_owned();
        self.listed = sessions.iter().map(id).collect();
        let rows: Vec<String> = (1..)
            .zip(sessions)
            .map(|(number, it)| session_row(number, it, &self.session))
            .collect();
        let text = match rows.is_empty() {
            true => "There are no sessions in this folder.".to_owned(),
            false => format!(
                "Sessions:\n{}\nOpen one with /load N (with its messages) or /resume N.",
                rows.join("\n")
            ),
        };
        self.view.lock().note(&text);
    }

    /// The id of a session: an id, or a number of the last list.
    pub(super) fn session_id(&self, text: &str) -> String {
        let number = text.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
        let listed = number.and_then(|it| self.listed.get(it));
        listed.cloned().unwrap_or_else(|| text.to_owned())
    }
}

fn session_row(number: usize, session: &Value, current: &str) -> String {
    let text = |name: &str| one_line(session[name].as_str().unwrap_or_default());
    let id = text("sessionId");
    let mark = if id == current { "*" } else { " " };
    let title = match text("title") {
        title if title.is_empty() => "(no title)".to_owned(),
        title => shorten(&title, MAX_TITLE),
    };
    let updated = text("updatedAt").chars().take(16).collect::<String>().replace('T', " ");
    [format!("{mark} {number}"), title, updated, id]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join("  ")
}
