//! The modes, options and slash commands of a session, and the login.

use serde_json::{Value, json};

use super::client::Client;

/// The mode in which the agent asks before it edits a file or runs a command.
pub(super) const ASK: &str = "ask";
/// The mode in which it does not ask.
pub(super) const AUTO: &str = "auto";

const MODES: [(&str, &str, &str); 2] = [
    (ASK, "Ask", "Asks before it edits a file or runs a command"),
    (AUTO, "Automatic", "Edits files and runs commands without asking"),
];

const MODELS: [(&str, &str, &str); 2] =
    [("small", "Small", "Writes as usual"), ("loud", "Loud", "Writes in capitals")];

const COMMANDS: [(&str, &str, Option<&str>); 8] = [
    ("help", "List what the demo agent can do", None),
    ("plan", "Make a plan and follow it", Some("what the plan is for")),
    ("story", "Tell a long story", None),
    ("show", "Show samples of updates", Some("all, or names of updates")),
    ("edit", "Edit files", Some("files, and a line to add")),
    ("read", "Read a file", Some("a file")),
    ("run", "Run a command", Some("a command")),
    ("tools", "List the tools of the MCP servers", None),
];

/// The id of the login method.
pub(super) const LOGIN: &str = "demo-login";

/// The options of a session.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) mode: &'static str,
    pub(super) model: &'static str,
    /// Whether the agent shows its thoughts.
    pub(super) thoughts: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { mode: ASK, model: MODELS[0].0, thoughts: true }
    }
}

impl Options {
    pub(super) fn is_loud(&self) -> bool {
        self.model == "loud"
    }

    /// Sets the mode. Returns whether there is such a mode.
    pub(super) fn set_mode(&mut self, id: &str) -> bool {
        let found = MODES.iter().find(|mode| mode.0 == id);
        found.inspect(|mode| self.mode = mode.0).is_some()
    }

    /// Sets an option. Returns whether there is such an option with such a value.
    pub(super) fn set(&mut self, option: &str, value: &Value) -> bool {
        match (option, value) {
            ("mode", Value::String(id)) => self.set_mode(id),
            ("model", Value::String(id)) => {
                let found = MODELS.iter().find(|model| model.0 == id);
                found.inspect(|model| self.model = model.0).is_some()
            }
            ("thoughts", Value::Bool(on)) => {
                self.thoughts = *on;
                true
            }
            _ => false,
        }
    }

    /// The state of the modes, for the answer to `session/new` in version 1.
    pub(super) fn modes(&self) -> Value {
        let modes = MODES.map(
            |(id, name, description)| json!({ "id": id, "name": name, "description": description }),
        );
        json!({ "currentModeId": self.mode, "availableModes": modes })
    }

    /// The options, as the client's version has them.
    pub(super) fn config(&self, client: &Client) -> Value {
        let select = |id: &str, name: &str, current: &str, values: &[(&str, &str, &str)]| {
            let values: Vec<Value> = values
                .iter()
                .map(|(value, name, about)| {
                    json!({ "value": value, "name": name, "description": about })
                })
                .collect();
            json!({
                "id": id, "name": name, "category": id, "type": "select",
                "currentValue": current, "options": values,
            })
        };
        let mut options = vec![
            select("mode", "Mode", self.mode, &MODES),
            select("model", "Model", self.model, &MODELS),
        ];
        if client.switches {
            options.push(json!({
                "id": "thoughts", "name": "Thoughts", "description": "Show the agent's thoughts",
                "category": "thought_level", "type": "boolean", "currentValue": self.thoughts,
            }));
        }
        if client.is_v2() {
            for option in options.iter_mut().filter_map(Value::as_object_mut) {
                let id = option.remove("id").unwrap_or_default();
                option.insert("configId".into(), id);
            }
        }
        options.into()
    }
}

/// The slash commands, as an update of version 1.
pub(super) fn commands_update() -> Value {
    let commands = COMMANDS.map(|(name, description, hint)| {
        let mut command = json!({ "name": name, "description": description });
        if let Some(hint) = hint {
            command["input"] = json!({ "hint": hint });
        }
        command
    });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
}

/// The login methods that `initialize` lists.
pub(super) fn login_methods(client: &Client) -> Value {
    let (name, about) = ("Demo login", "Succeeds at once. The demo agent needs no account");
    match client.is_v2() {
        true => {
            json!([{ "type": "agent", "methodId": LOGIN, "name": name, "description": about }])
        }
        false => json!([{ "id": LOGIN, "name": name, "description": about }]),
    }
}
