//! Samples of all updates of ACP version 1 and 2.

use std::path::Path;

use serde_json::{Value, json};

use super::client::Client;
use super::options::{self, Options};
use super::texts::MARKDOWN;
use super::version;

/// The names of the samples, in the order in which `show all` shows them.
pub(super) const NAMES: [&str; 22] = [
    "message",
    "thought",
    "markdown",
    "image",
    "audio",
    "link",
    "resource",
    "user",
    "tool_call",
    "plan",
    "commands",
    "mode",
    "config",
    "usage",
    "info",
    "notice",
    "compaction",
    "plan_update",
    "subagent",
    "session_message",
    "state",
    "terminal",
];

/// Other names of the samples: the kinds of their updates, and usual words.
const OTHER_NAMES: [(&str, &str); 31] = [
    ("agent_message_chunk", "message"),
    ("agent_message", "message"),
    ("text", "message"),
    ("agent_thought_chunk", "thought"),
    ("agent_thought", "thought"),
    ("thoughts", "thought"),
    ("images", "image"),
    ("resource_link", "link"),
    ("links", "link"),
    ("user_message_chunk", "user"),
    ("user_message", "user"),
    ("tool_calls", "tool_call"),
    ("tool_call_update", "tool_call"),
    ("tool_call_content_chunk", "tool_call"),
    ("diff", "tool_call"),
    ("available_commands_update", "commands"),
    ("current_mode_update", "mode"),
    ("modes", "mode"),
    ("config_option_update", "config"),
    ("usage_update", "usage"),
    ("session_info_update", "info"),
    ("notices", "notice"),
    ("compaction_update", "compaction"),
    ("compaction_summary_chunk", "compaction"),
    ("plan_removed", "plan_update"),
    ("subagent_update", "subagent"),
    ("subagents", "subagent"),
    ("session_message_chunk", "session_message"),
    ("state_update", "state"),
    ("terminal_update", "terminal"),
    ("terminal_output_chunk", "terminal"),
];

/// A picture of 8 by 8 pixels, as PNG.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAHElEQVR42mMwTjsDR+92G8MRAxUlkDnIiqgoAQCz4GghPOjIZAAAAABJRU5ErkJggg==";

/// A sound of two milliseconds, as WAV.
const SOUND: &str =
    "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YRAAAACAyIA4gMiAOIDIgDiAyIA4";

/// The sample with this name.
pub(super) fn find(word: &str) -> Option<&'static str> {
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == word).map(|(_, name)| *name);
    NAMES.into_iter().find(|name| *name == word).or(other)
}

/// Why a sample cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotShown {
    /// The client has not announced that it accepts these updates.
    NotAnnounced,
    /// The version of ACP has no such update.
    OtherVersion,
}

/// What the samples refer to.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a Options,
    pub(super) session: &'a str,
    /// The directory of the session.
    pub(super) directory: &'a Path,
    /// A prefix of ids, different for each turn.
    pub(super) prefix: &'a str,
}

impl Setting<'_> {
    /// The updates of a sample, in the version of the client.
    pub(super) fn sample(&self, name: &str) -> Result<Vec<Value>, NotShown> {
        let announced = match name {
            "notice" => self.client.notices,
            "compaction" => self.client.compactions,
            "plan_update" => self.client.plans,
            "subagent" | "session_message" => self.client.subagents,
            _ => true,
        };
        if !announced {
            return Err(NotShown::NotAnnounced);
        }
        let updates = self.updates(name).into_iter();
        let message = format!("{}-{name}", self.prefix);
        let mut updates: Vec<Value> =
            updates.filter_map(|update| version::update(self.client, update, &message)).collect();
        if self.client.is_v2() {
            if name == "tool_call" {
                // One of the calls shows this terminal.
                updates.splice(0..0, self.v2_updates("terminal"));
            }
            updates.extend(self.v2_updates(name));
        }
        if updates.is_empty() { Err(NotShown::OtherVersion) } else { Ok(updates) }
    }

    fn path(&self, name: &str) -> Value {
        json!(self.directory.join(name))
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.directory.join(name).display())
    }

    /// The updates that both versions have, in version 1.
    fn updates(&self, name: &str) -> Vec<Value> {
        let message = |content: Value| {
            vec![json!({ "sessionUpdate": "agent_message_chunk", "content": content })]
        };
        match name {
            "message" => message(text("A message of the agent.")),
            "thought" => vec![json!({
                "sessionUpdate": "agent_thought_chunk",
                "content": text("A thought of the agent."),
            })],
            "markdown" => message(text(MARKDOWN)),
            "image" => message(picture()),
            "audio" => message(json!({ "type": "audio", "mimeType": "audio/wav", "data": SOUND })),
            "link" => message(self.link()),
            "resource" => message(json!({ "type": "resource", "resource": {
                "uri": self.uri("notes.txt"), "mimeType": "text/plain", "text": "A resource.\n",
            } })),
            "user" => vec![json!({
                "sessionUpdate": "user_message_chunk",
                "content": text("A message of the user, as in a session that is loaded."),
            })],
            "tool_call" => self.tool_calls(),
            "plan" => (0..=PLAN.len()).map(plan).collect(),
            "commands" => vec![options::commands_update()],
            "mode" => vec![json!({
                "sessionUpdate": "current_mode_update", "currentModeId": self.options.mode,
            })],
            "config" => vec![json!({
                "sessionUpdate": "config_option_update",
                "configOptions": self.options.config(self.client),
            })],
            "usage" => vec![json!({
                "sessionUpdate": "usage_update", "used": 2048, "size": 8192,
                "cost": { "amount": 0.01, "currency": "EUR" },
            })],
            "info" => vec![json!({
                "sessionUpdate": "session_info_update", "title": "A session with the demo agent",
                "updatedAt": "2026-01-01T12:00:00Z",
            })],
            "notice" => ["info", "warning", "error"].map(notice).into(),
            "compaction" => self.compaction(),
            "plan_update" => self.plans(),
            "subagent" => self.subagent(),
            "session_message" => self.session_message(),
            _ => Vec::new(),
        }
    }

    fn link(&self) -> Value {
        json!({
            "type": "resource_link", "uri": self.uri("README.md"), "name": "README.md",
            "title": "The README", "mimeType": "text/markdown", "size": 1024,
        })
    }

    /// Tool calls of all kinds, in all states, with all kinds of content.
    fn tool_calls(&self) -> Vec<Value> {
        let mut updates = Vec::new();
        let mut add = |kind: &str, title: &str, states: &[&str], details: Value| {
            let id = format!("{}-{kind}", self.prefix);
            updates.push(json!({
                "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind,
                "status": "pending",
            }));
            for (at, state) in (1..).zip(states) {
                let mut update = json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": id, "status": state,
                });
                if at == states.len()
                    && let (Some(update), Value::Object(details)) =
                        (update.as_object_mut(), &details)
                {
                    update.extend(details.clone());
                }
                updates.push(update);
            }
        };
        let file = self.path("README.md");
        let done = &["in_progress", "completed"][..];
        let contents = |blocks: &[Value]| -> Value {
            blocks.iter().map(|it| json!({ "type": "content", "content": it })).collect()
        };
        add(
            "read",
            "Read README.md",
            done,
            json!({
                "locations": [{ "path": file, "line": 1 }],
                "rawInput": { "path": "README.md" }, "rawOutput": { "lines": 2 },
                "content": contents(&[text("# Conductor\n\nProxies for agents.")]),
            }),
        );
        let diff = json!({
            "type": "diff", "path": self.path("notes.txt"),
            "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\nfour\n",
        });
        add(
            "edit",
            "Edit notes.txt",
            done,
            json!({
                "locations": [{ "path": self.path("notes.txt"), "line": 2 }], "content": [diff],
            }),
        );
        add(
            "delete",
            "Delete old.txt",
            &["in_progress", "failed"],
            json!({
                "locations": [{ "path": self.path("old.txt") }],
                "content": contents(&[text("The file is protected.")]),
            }),
        );
        add(
            "move",
            "Rename a.txt to b.txt",
            done,
            json!({
                "locations": [{ "path": self.path("a.txt") }, { "path": self.path("b.txt") }],
            }),
        );
        add(
            "search",
            "Search for TODO",
            done,
            json!({
                "content": contents(&[text("src/main.rs:3\nsrc/lib.rs:14\nsrc/lib.rs:15"), self.link()]),
            }),
        );
        let terminal = json!([{ "type": "terminal", "terminalId": self.terminal() }]);
        let output = contents(&[text("compiling\ndone")]);
        let has_terminal = self.client.is_v2() || self.client.has_terminals;
        add(
            "execute",
            "make",
            done,
            json!({
                "rawInput": { "command": "make" },
                "content": if has_terminal { terminal } else { output },
            }),
        );
        add("think", "Think about it", done, json!({ "content": contents(&[text("Hm.")]) }));
        add("fetch", "Fetch a picture", done, json!({ "content": contents(&[picture()]) }));
        add("switch_mode", "Switch to the mode Ask", done, json!({}));
        add("other", "Something else", done, json!({}));
        updates
    }

    fn terminal(&self) -> String {
        format!("{}-terminal", self.prefix)
    }

    fn compaction(&self) -> Vec<Value> {
        let id = format!("{}-compaction", self.prefix);
        let update = |status: &str| json!({ "sessionUpdate": "compaction_update", "compactionId": id, "status": status });
        let chunk = json!({
            "sessionUpdate": "compaction_summary_chunk", "compactionId": id,
            "content": text("We have talked about the demo agent."),
        });
        vec![update("in_progress"), chunk, update("completed")]
    }

    fn plans(&self) -> Vec<Value> {
        let update = |plan: Value| json!({ "sessionUpdate": "plan_update", "plan": plan });
        let id = |name: &str| format!("{}-{name}", self.prefix);
        let entries = plan(1)["entries"].take();
        vec![
            update(json!({ "type": "items", "planId": id("items"), "entries": entries })),
            update(json!({
                "type": "markdown", "planId": id("markdown"), "content": "1. Read\n2. Write\n",
            })),
            update(json!({ "type": "file", "planId": id("file"), "uri": self.uri("PLAN.md") })),
            json!({ "sessionUpdate": "plan_removed", "planId": id("file") }),
        ]
    }

    fn subagent(&self) -> Vec<Value> {
        let update = |state: Value| {
            json!({
                "sessionUpdate": "subagent_update", "sessionId": self.child(),
                "title": "A subagent", "description": "Does a part of the work",
                "cwd": self.directory, "state": state,
            })
        };
        vec![
            update(json!({ "state": "running" })),
            update(json!({ "state": "idle", "stopReason": "end_turn" })),
        ]
    }

    fn child(&self) -> String {
        format!("{}-{}-child", self.session, self.prefix)
    }

    fn session_message(&self) -> Vec<Value> {
        let id = format!("{}-session-message", self.prefix);
        vec![
            json!({
                "sessionUpdate": "session_message", "messageId": id,
                "senderSessionId": self.session, "recipientSessionId": self.child(),
                "content": [text("A message to a subagent. ")],
            }),
            json!({
                "sessionUpdate": "session_message_chunk", "messageId": id,
                "content": text("The rest of this message."),
            }),
        ]
    }

    /// The updates that only version 2 has.
    fn v2_updates(&self, name: &str) -> Vec<Value> {
        let message = |kind: &str, content: &str| {
            json!({
                "sessionUpdate": kind, "messageId": format!("{}-{kind}", self.prefix),
                "content": [text(content)],
            })
        };
        match name {
            "message" => vec![message("agent_message", "A whole message of the agent.")],
            "thought" => vec![message("agent_thought", "A whole thought of the agent.")],
            "user" => vec![message("user_message", "A whole message of the user.")],
            "tool_call" => self.v2_tool_calls(),
            "state" => ["requires_action", "running"]
                .map(|state| json!({ "sessionUpdate": "state_update", "state": state }))
                .into(),
            "terminal" => {
                let update = |details: Value| {
                    let mut update = json!({
                        "sessionUpdate": "terminal_update", "terminalId": self.terminal(),
                    });
                    if let (Some(update), Value::Object(details)) =
                        (update.as_object_mut(), details)
                    {
                        update.extend(details);
                    }
                    update
                };
                // The data is Base64 of "compiling" and "done", each with a line break.
                let chunk = |data: &str| json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": self.terminal(), "data": data });
                vec![
                    update(json!({ "command": "make", "cwd": self.directory })),
                    chunk("Y29tcGlsaW5nCg=="),
                    chunk("ZG9uZQo="),
                    update(json!({ "exitStatus": { "exitCode": 0 } })),
                ]
            }
            _ => Vec::new(),
        }
    }

    /// A tool call whose content is streamed, and one in the states that version 1 does not have.
    fn v2_tool_calls(&self) -> Vec<Value> {
        let id = |name: &str| format!("{}-{name}", self.prefix);
        let update = |id: &str, status: &str| json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status });
        let mut streamed = update(&id("streamed"), "in_progress");
        streamed["title"] = json!("Count");
        let mut paused = update(&id("paused"), "paused");
        paused["title"] = json!("Wait");
        let chunk = |content: &str| {
            json!({
                "sessionUpdate": "tool_call_content_chunk", "toolCallId": id("streamed"),
                "content": { "type": "content", "content": text(content) },
            })
        };
        vec![
            streamed,
            chunk("one, "),
            chunk("two"),
            update(&id("streamed"), "completed"),
            paused,
            update(&id("paused"), "cancelled"),
        ]
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn picture() -> Value {
    json!({ "type": "image", "mimeType": "image/png", "data": PICTURE })
}

fn notice(severity: &str) -> Value {
    json!({
        "sessionUpdate": "notice", "severity": severity,
        "title": format!("A notice with the severity {severity}"),
        "description": "It is not part of the conversation.",
    })
}

/// The steps of the plan, with their priorities.
const PLAN: [(&str, &str); 3] =
    [("Read what you want", "high"), ("Pretend to do it", "medium"), ("Tell you about it", "low")];

/// A plan in which this number of steps is done.
pub(super) fn plan(done: usize) -> Value {
    let entry = |(number, (step, priority)): (usize, &(&str, &str))| {
        let status = match number.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        json!({ "content": step, "priority": priority, "status": status })
    };
    let entries: Vec<Value> = PLAN.iter().enumerate().map(entry).collect();
    json!({ "sessionUpdate": "plan", "entries": entries })
}

/// The number of steps of the plan.
pub(super) const PLAN_STEPS: usize = PLAN.len();
