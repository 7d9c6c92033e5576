//! What the agent has reported in a turn, in both versions of ACP: texts, tool calls, plans and terminals.
//!
//! A view passes each update to [`Transcript::update`], and shows the [`Piece`]s that it returns. Running tool calls and
//! plans change until the turn ends: a terminal redraws them, and plain text shows their end.
//!
//! - [`content`]: the blocks of a message
//! - [`tool_call`]: a tool call and its output
//! - [`diff`]: changes of files
//! - [`plan`]: the steps of a plan

pub mod content;
pub mod diff;
pub mod plan;
pub mod tool_call;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde_json::{Map, Value};

use crate::recent::{Recent, size_of};
use content::describe;

/// The maximum number of tool calls, terminals and messages that are remembered.
const MAX_REMEMBERED: usize = 500;

/// The maximum length of a terminal's output that is kept. The end is kept.
const MAX_OUTPUT: usize = 256 * 1024;

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// The answer of the agent.
    Answer,
    /// A thought of the agent.
    Thought,
    /// A prompt of a session that is loaded.
    User,
}

/// Something to show.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A part of a text. Parts of the same kind belong together until [`Piece::EndOfText`].
    Text(TextKind, String),
    /// A message ends.
    EndOfText,
    /// A tool call has ended, or its output has changed after its end.
    ToolCall(Value),
    /// A remark for the user.
    Notice {
        /// Whether it is about an error.
        is_error: bool,
        /// Its text.
        text: String,
    },
}

/// The output of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalOutput {
    /// The command, if known.
    pub command: String,
    /// The output so far.
    pub output: String,
    /// How the command ended.
    pub exit: Option<String>,
}

/// What the agent has reported.
#[derive(Debug)]
pub struct Transcript {
    /// The folder of the session. Paths in it are shown without it.
    folder: String,
    /// The tool calls that have not ended, in order.
    running: Vec<Value>,
    /// The tool calls that have ended, by id.
    ended: Recent<String, Value>,
    /// The plans, by id.
    plans: Vec<(String, Value)>,
    terminals: BTreeMap<String, TerminalOutput>,
    /// The ids of messages whose text was streamed.
    streamed: VecDeque<String>,
    /// The kind and id of the message that is arriving.
    open: Option<(TextKind, Option<String>)>,
    /// The title of the session.
    title: Option<String>,
}

impl Default for Transcript {
    fn default() -> Transcript {
        Transcript {
            folder: String::new(),
            running: Vec::new(),
            ended: Recent::new(MAX_REMEMBERED),
            plans: Vec::new(),
            terminals: BTreeMap::new(),
            streamed: VecDeque::new(),
            open: None,
            title: None,
        }
    }
}

impl Transcript {
    /// A transcript of a session in this folder.
    pub fn new(folder: &Path) -> Transcript {
        let folder = folder.to_str().unwrap_or_default().trim_end_matches(['/', '\\']);
        Transcript { folder: folder.to_owned(), ..Transcript::default() }
    }

    /// A tool call in which the paths of files in the folder of the session are relative.
    pub fn with_relative_paths(&self, call: &Value) -> Value {
        let mut call = call.clone();
        for name in ["locations", "content"] {
            if let Some(value) = call.get_mut(name).filter(|_| !self.folder.is_empty()) {
                make_relative(value, &self.folder);
            }
        }
        call
    }

    /// Adds an update of the agent. Unknown kinds of updates are ignored.
    pub fn update(&mut self, update: &Value, replayed: bool) -> Vec<Piece> {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => self.chunk(TextKind::Answer, update),
            "agent_thought_chunk" => self.chunk(TextKind::Thought, update),
            // The prompts of this chat are shown when they are sent.
            "user_message_chunk" if replayed => self.chunk(TextKind::User, update),
            "agent_message" => self.message(TextKind::Answer, update),
            "agent_thought" => self.message(TextKind::Thought, update),
            "user_message" if replayed => self.message(TextKind::User, update),
            "tool_call" | "tool_call_update" => self.tool_call(update),
            "tool_call_content_chunk" => self.tool_call_content(update),
            "terminal_update" => self.terminal_update(update),
            "terminal_output_chunk" => {
                let output = base64(update["data"].as_str().unwrap_or_default());
                self.append_output(id_of(update, "terminalId"), &output);
                Vec::new()
            }
            "plan" => self.plan(String::new(), update),
            "plan_update" => self.plan(id_of(&update["plan"], "planId"), &update["plan"]),
            "plan_removed" => {
                let id = id_of(update, "planId");
                self.plans.retain(|(it, _)| *it != id);
                Vec::new()
            }
            "notice" => self.notice(update),
            "compaction_update" => self.compaction(update),
            "session_info_update" => {
                if let Some(title) = update.get("title") {
                    self.title = title.as_str().map(acp_wire::printable::one_line);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The tool calls that are running.
    pub fn running(&self) -> &[Value] {
        &self.running
    }

    /// The current plans.
    pub fn plans(&self) -> impl Iterator<Item = &Value> {
        self.plans.iter().map(|(_, plan)| plan)
    }

    /// The terminals, by id.
    pub fn terminals(&self) -> &BTreeMap<String, TerminalOutput> {
        &self.terminals
    }

    /// The title of the session, as the agent has reported it.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref().filter(|title| !title.trim().is_empty())
    }

    /// Ends a turn. Returns the tool calls that have not ended, and the last state of the plans.
    pub fn end_turn(&mut self) -> (Vec<Value>, Vec<Value>) {
        self.open = None;
        let plans = std::mem::take(&mut self.plans);
        (std::mem::take(&mut self.running), plans.into_iter().map(|(_, plan)| plan).collect())
    }

    /// Sets the output of a terminal that the client runs.
    pub fn set_terminal(&mut self, id: &str, output: &str, exit: Option<&str>) {
        let terminal = self.terminal(id.to_owned());
        terminal.output = tail(output, MAX_OUTPUT).to_owned();
        terminal.exit = exit.map(str::to_owned);
    }

    /// A part of a message.
    fn chunk(&mut self, kind: TextKind, update: &Value) -> Vec<Piece> {
        let id = update["messageId"].as_str().map(str::to_owned);
        let mut pieces = self.open_text(kind, id);
        let content = &update["content"];
        match content["text"].as_str().filter(|_| content["type"] == "text") {
            Some(text) => pieces.push(Piece::Text(kind, clean(text))),
            None => {
                pieces.push(Piece::EndOfText);
                pieces.push(Piece::Text(kind, describe(content)));
                pieces.push(Piece::EndOfText);
            }
        }
        pieces
    }

    /// A whole message, unless its text was streamed already.
    fn message(&mut self, kind: TextKind, update: &Value) -> Vec<Piece> {
        let id = update["messageId"].as_str().map(str::to_owned);
        if id.as_ref().is_some_and(|id| self.streamed.contains(id)) {
            return Vec::new();
        }
        let blocks = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        if blocks.is_empty() {
            return Vec::new();
        }
        let mut pieces = self.open_text(kind, id);
        for block in blocks {
            pieces.push(Piece::Text(kind, content::text_of(block)));
            pieces.push(Piece::EndOfText);
        }
        self.open = None;
        pieces
    }

    /// Ends the message before this one.
    fn open_text(&mut self, kind: TextKind, id: Option<String>) -> Vec<Piece> {
        let before = self.open.replace((kind, id.clone()));
        if let Some(id) = &id
            && !self.streamed.contains(id)
        {
            if self.streamed.len() >= MAX_REMEMBERED {
                self.streamed.pop_front();
            }
            self.streamed.push_back(id.clone());
        }
        match before {
            Some(before) if before != (kind, id) => vec![Piece::EndOfText],
            _ => Vec::new(),
        }
    }

    fn tool_call(&mut self, update: &Value) -> Vec<Piece> {
        let id = id_of(update, "toolCallId");
        let running = self.running.iter().position(|call| id_of(call, "toolCallId") == id);
        let before = match running {
            Some(at) => Some(self.running[at].clone()),
            None => self.ended.remove(&id),
        };
        let call = merged(before.clone(), &self.with_relative_paths(update));
        let ends = tool_call::has_ended(&call);
        let mut pieces = Vec::new();
        if before.is_none() || ends {
            // A tool call is shown after the text before it.
            self.open = None;
            pieces.push(Piece::EndOfText);
        }
        match running {
            Some(at) if ends => {
                self.running.remove(at);
            }
            Some(at) => self.running[at] = call.clone(),
            None if ends => {}
            None => {
                if self.running.len() >= MAX_REMEMBERED {
                    self.running.remove(0);
                }
                self.running.push(call.clone());
            }
        }
        if ends {
            let shown = before.filter(tool_call::has_ended);
            if shown.is_none_or(|before| tool_call::shows_more(&before, &call)) {
                pieces.push(Piece::ToolCall(call.clone()));
            }
            let size = size_of(&call);
            self.ended.push(id, call, size);
        }
        pieces
    }

    /// A further content of a tool call, in ACP version 2.
    fn tool_call_content(&mut self, update: &Value) -> Vec<Piece> {
        let id = id_of(update, "toolCallId");
        let further = self.with_relative_paths(update)["content"].clone();
        let call = self.running.iter_mut().find(|call| id_of(call, "toolCallId") == id);
        if let Some(Value::Object(call)) = call {
            let content = call.entry("content").or_insert(Value::Null);
            match content {
                Value::Array(content) if content.len() < MAX_REMEMBERED => content.push(further),
                Value::Array(_) => {}
                other => *other = Value::Array(vec![further]),
            }
        }
        Vec::new()
    }

    fn terminal_update(&mut self, update: &Value) -> Vec<Piece> {
        let terminal = self.terminal(id_of(update, "terminalId"));
        if let Some(command) = update["command"].as_str() {
            terminal.command = clean(command);
        }
        if let Some(data) = update["output"]["data"].as_str() {
            terminal.output = tail(&base64(data), MAX_OUTPUT).to_owned();
        }
        let status = &update["exitStatus"];
        if status.is_object() {
            terminal.exit = Some(match (status["exitCode"].as_i64(), status["signal"].as_str()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("ended by signal {}", clean(signal)),
                (None, None) => "ended".to_owned(),
            });
        }
        Vec::new()
    }

    fn terminal(&mut self, id: String) -> &mut TerminalOutput {
        if self.terminals.len() >= MAX_REMEMBERED && !self.terminals.contains_key(&id) {
            self.terminals.pop_first();
        }
        self.terminals.entry(id).or_default()
    }

    fn append_output(&mut self, id: String, output: &str) {
        let terminal = self.terminal(id);
        terminal.output.push_str(output);
        if terminal.output.len() > 2 * MAX_OUTPUT {
            terminal.output = tail(&terminal.output, MAX_OUTPUT).to_owned();
        }
    }

    fn plan(&mut self, id: String, plan: &Value) -> Vec<Piece> {
        match self.plans.iter().position(|(it, _)| *it == id) {
            Some(at) => self.plans[at].1 = plan.clone(),
            None if self.plans.len() < MAX_REMEMBERED => self.plans.push((id, plan.clone())),
            None => {}
        }
        Vec::new()
    }

    fn notice(&mut self, update: &Value) -> Vec<Piece> {
        let mut text = clean(update["title"].as_str().unwrap_or_default());
        if let Some(description) = update["description"].as_str().filter(|it| !it.is_empty()) {
            text = format!("{text}\n{}", clean(description));
        }
        let is_error = update["severity"] == "error";
        let text = match update["severity"].as_str() {
            Some("warning") => format!("warning: {text}"),
            _ => text,
        };
        self.open = None;
        vec![Piece::EndOfText, Piece::Notice { is_error, text }]
    }

    fn compaction(&mut self, update: &Value) -> Vec<Piece> {
        let text = match update["status"].as_str() {
            Some("completed") => "the agent has compacted its context".to_owned(),
            Some("failed") => {
                let why = update["error"].as_str().map(|it| format!(": {}", clean(it)));
                format!("the agent could not compact its context{}", why.unwrap_or_default())
            }
            _ => return Vec::new(),
        };
        self.open = None;
        vec![Piece::EndOfText, Piece::Notice { is_error: false, text }]
    }
}

/// What to tell the user about the end of a turn. Nothing if the agent has finished, or if an error was shown already.
pub fn end_note(stop_reason: Option<&str>) -> Option<String> {
    match stop_reason {
        Some("end_turn" | "error") => None,
        Some("cancelled") => Some("(cancelled)".to_owned()),
        Some(other) => {
            let reason = acp_wire::printable::one_line(other).replace('_', " ");
            Some(format!("(ended: {reason})"))
        }
        None => Some("(ended)".to_owned()),
    }
}

/// Makes the paths in a list of locations or contents relative to a folder.
fn make_relative(value: &mut Value, folder: &str) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|it| make_relative(it, folder)),
        Value::Object(members) => {
            for name in ["path", "oldPath"] {
                if let Some(Value::String(path)) = members.get_mut(name)
                    && let Some(rest) = path.strip_prefix(folder)
                    && let Some(rest) = rest.strip_prefix(['/', '\\']).filter(|it| !it.is_empty())
                {
                    *path = rest.to_owned();
                }
            }
            if let Some(changes) = members.get_mut("changes") {
                make_relative(changes, folder);
            }
        }
        _ => {}
    }
}

/// A call with the members of an update. A member that is `null` stays as it was.
fn merged(before: Option<Value>, update: &Value) -> Value {
    let mut call = match before {
        Some(Value::Object(call)) => call,
        _ => Map::new(),
    };
    for (name, value) in update.as_object().into_iter().flatten() {
        if !value.is_null() || !call.contains_key(name) {
            call.insert(name.clone(), value.clone());
        }
    }
    Value::Object(call)
}

fn id_of(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

fn clean(text: &str) -> String {
    acp_wire::printable::plain(text).into_owned()
}

/// The end of a text.
fn tail(text: &str, length: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(length))..]
}

/// Decodes Base64. Ignores characters that do not belong to it.
fn base64(data: &str) -> String {
    let mut bytes = Vec::with_capacity(data.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for it in data.bytes() {
        let value = match it {
            b'A'..=b'Z' => it - b'A',
            b'a'..=b'z' => it - b'a' + 26,
            b'0'..=b'9' => it - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
