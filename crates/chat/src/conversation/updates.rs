//! The updates of the session.

use acp_wire::printable::one_line;
use serde_json::Value;

use super::{Conversation, Opening, Pending, Phase};
use crate::view::SlashCommand;
use client::settings::{self, Kind};

/// The maximum number of updates that are kept before the id of their session is known.
const MAX_EARLY: usize = 1000;
/// The maximum number of commands of the agent.
const MAX_COMMANDS: usize = 1000;

impl Conversation {
    pub(super) fn on_update(&mut self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let update = &params["update"];
        match self.opening() {
            Some(Opening::Load(id)) if id == session => self.show_update(update, true),
            Some(Opening::Resume(id)) if id == session => self.show_update(update, true),
            _ if session == self.session && !session.is_empty() => self.show_update(update, false),
            // Some agents send updates before the answer that contains the id.
            Some(Opening::New) if self.early_updates.len() < MAX_EARLY => {
                self.early_updates.push((session.to_owned(), update.clone()));
            }
            _ => {}
        }
    }

    /// The session that is being opened.
    fn opening(&self) -> Option<&Opening> {
        self.pending.values().find_map(|it| match it {
            Pending::Open(opening) => Some(opening),
            _ => None,
        })
    }

    pub(super) fn show_update(&mut self, update: &Value, replayed: bool) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let mut changes_facts = true;
        match kind {
            "tool_call" | "tool_call_update" | "tool_call_content_chunk" => {
                self.tool_calls.update(update);
                self.show_terminals();
                changes_facts = false;
            }
            "available_commands_update" => {
                self.agent_commands = agent_commands(&update["availableCommands"]);
            }
            "current_mode_update" => {
                let mode = self.settings.iter_mut().find(|it| it.category == "mode");
                mode.into_iter().for_each(|it| it.current = update["currentModeId"].clone());
            }
            "config_option_update" => self.set_options(&update["configOptions"]),
            "usage_update" => self.usage = usage(update),
            _ => changes_facts = false,
        }
        self.view.lock().update(update, replayed);
        if kind == "state_update" && !replayed {
            self.on_state_update(update);
        }
        if changes_facts {
            self.show_facts();
        }
    }

    /// Replaces the config options.
    pub(super) fn set_options(&mut self, options: &Value) {
        if options.is_array() {
            self.settings.retain(|it| it.kind != Kind::Option);
            let options = settings::options(options);
            self.settings.retain(|old| options.iter().all(|it| it.category != old.category));
            self.settings.splice(..0, options);
        }
    }

    /// Shows the commands and the facts about the session, if they have changed.
    pub(super) fn show_facts(&mut self) {
        let commands = self.all_commands();
        let fact = |category: &str| {
            self.setting(category).map(|it| format!("{category} {}", it.current_short_name()))
        };
        let mut facts: Vec<String> = ["mode", "model"].into_iter().filter_map(fact).collect();
        facts.extend(Some(self.usage.clone()).filter(|it| !it.is_empty()));
        if commands != self.shown.0 {
            self.view.lock().commands(&commands);
        }
        if facts != self.shown.1 {
            self.view.lock().facts(&facts);
        }
        self.shown = (commands, facts);
    }

    /// Whether there is a session.
    pub(super) fn has_session(&self) -> bool {
        !self.session.is_empty() && self.phase != Phase::LoggedOut
    }
}

/// How much of the context is used. Empty if the numbers are not plausible.
fn usage(update: &Value) -> String {
    let (used, size) = (update["used"].as_f64(), update["size"].as_f64());
    let share = used.zip(size).map(|(used, size)| 100.0 * used / size);
    match share.filter(|it| (0.0..1000.0).contains(it)) {
        Some(share) => format!("context {share:.0} %"),
        None => String::new(),
    }
}

/// The commands of the agent, of ACP version 1 or 2.
pub(super) fn agent_commands(commands: &Value) -> Vec<SlashCommand> {
    let commands = commands.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default().trim());
    let command = |it: &Value| SlashCommand {
        name: text(&it["name"]).trim_start_matches('/').to_owned(),
        argument: match text(&it["input"]["hint"]) {
            hint if hint.is_empty() || hint.starts_with(['[', '<']) => hint,
            hint => format!("[{hint}]"),
        },
        description: text(&it["description"]),
        of_agent: true,
    };
    commands.iter().map(command).filter(|it| !it.name.is_empty()).take(MAX_COMMANDS).collect()
}
