//! The updates of a session.

use serde_json::Value;
use web::protocol::{Activity, Entry};
use web::surface::now;

use client::settings::{self, Kind};

use super::session::Growing;
use super::sessions::{Opening, shorten_title};
use super::{Editor, Pending};
use crate::content;

/// The most updates that are kept before the id of their session is known.
const MAX_EARLY: usize = 1000;
/// The most tool calls of a turn that are shown.
const MAX_CALLS: usize = 1000;
/// The most images and resources of one message.
const MAX_BLOCKS: usize = 100;

impl Editor {
    pub(super) fn on_update(&mut self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        if self.sessions.contains_key(session) {
            self.on_session_update(session, &params["update"]);
            return;
        }
        // Some agents send updates before the answer that contains the id.
        let opens = |it: &(Pending, _)| matches!(it.0, Pending::Open(Opening::New));
        if self.pending.values().any(opens) && self.early_updates.len() < MAX_EARLY {
            self.early_updates.push((session.to_owned(), params["update"].clone()));
        }
    }

    pub(super) fn on_session_update(&mut self, id: &str, update: &Value) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let counter = &mut self.counter;
        let mut next_id = |kind: &str| {
            *counter += 1;
            format!("{kind}:{counter}")
        };
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
                let content = &update["content"];
                let growing = match kind {
                    "agent_message_chunk" => Growing::Agent,
                    "agent_thought_chunk" => Growing::Thought,
                    _ => Growing::User,
                };
                // Some agents repeat the prompt that they got.
                let repeats = growing == Growing::User && session.activity != Activity::Loading;
                match content["text"].as_str() {
                    _ if repeats => {}
                    Some(text) => {
                        session.begin_repeated_turn(growing);
                        session.grow(growing, text, || next_id("m"));
                    }
                    None if growing == Growing::User => {
                        session.begin_repeated_turn(growing);
                        session.attach(&content::name(content), || next_id("m"));
                    }
                    None if growing == Growing::Agent => {
                        if session.open_message().is_none() {
                            session.grow(growing, "", || next_id("m"));
                        }
                        let id = session.open_message().unwrap_or_default().to_owned();
                        if let Some(Entry::Agent { text, open, time, mut blocks }) =
                            session.get(&id)
                            && blocks.len() < MAX_BLOCKS
                        {
                            blocks.push(content::block(content));
                            session.put(&id, Entry::Agent { text, open, time, blocks });
                            session.end_text();
                        }
                    }
                    None => {}
                }
            }
            "tool_call" | "tool_call_update" => {
                session.tool_calls.update(update);
                let Some(call_id) = update["toolCallId"].as_str() else { return };
                let entry = format!("tool:{}:{call_id}", session.turn);
                let call = session.tool_calls.complete(update);
                if session.get(&entry).is_none() {
                    session.end_text();
                }
                if session.tool_times.len() >= MAX_CALLS
                    && !session.tool_times.contains_key(call_id)
                {
                    return;
                }
                let began = *session.tool_times.entry(call_id.to_owned()).or_insert_with(now);
                let ended = matches!(call["status"].as_str(), Some("completed" | "failed"));
                let before = match session.get(&entry) {
                    Some(Entry::Tool(tool)) => tool.ms,
                    _ => None,
                };
                let ms = before.or(ended.then(|| now().saturating_sub(began)));
                let tool = content::tool(&call, self.surface.project(), began, ms);
                if ended {
                    for diff in &tool.diffs {
                        self.surface
                            .file_written(&self.surface.project().folder().join(&diff.path));
                    }
                }
                session.put(&entry, Entry::Tool(tool));
            }
            "plan" => {
                let steps = content::steps(&update["entries"]);
                session.put(&format!("plan:{}", session.turn), Entry::Plan { steps });
            }
            "available_commands_update" => {
                session.commands = content::commands(&update["availableCommands"]);
                session.show_settings();
            }
            "current_mode_update" => {
                let mode = session.settings.iter_mut().find(|it| it.category == "mode");
                mode.into_iter().for_each(|it| it.current = update["currentModeId"].clone());
                session.show_settings();
            }
            "config_option_update" => self.set_options(id, &update["configOptions"]),
            "usage_update" => {
                session.usage = content::usage(update);
                session.show_settings();
            }
            "session_info_update" => {
                if let Some(title) = update["title"].as_str().map(shorten_title) {
                    session.shown.title = title;
                    session.show_in_list();
                }
            }
            _ => {}
        }
    }

    /// Replaces the options of a session.
    pub(super) fn set_options(&mut self, id: &str, options: &Value) {
        let Some(session) = self.sessions.get_mut(id).filter(|_| options.is_array()) else {
            return;
        };
        session.settings.retain(|it| it.kind != Kind::Option);
        let options = settings::options(options);
        session.settings.retain(|old| options.iter().all(|it| it.category != old.category));
        session.settings.splice(..0, options);
        session.show_settings();
    }
}
