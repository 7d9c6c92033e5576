//! The position of a session in the recording. A lane is a session, or a request that belongs to no session.

use std::collections::BTreeMap;

use acp_proxy::Json;
use acp_wire::{ErrorKind, code};
use serde_json::{Value, json};

use super::got::{Got, is_idle};
use super::key::{key, reduce, short_hash};
use super::names::Names;
use super::player::PROMPT;
use super::recording::{Entry, Recording};

/// The answer to a request: a result, or an error object.
pub(super) type Answer = Result<Json, Json>;

/// A message of the editor's side.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Request {
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of the agent, by the number of the request.
    Answer {
        number: u32,
        method: String,
        answer: Result<Value, Value>,
    },
}

/// The requests that load a session, which the agent knows from before.
const LOADS: [&str; 2] = ["session/load", "session/resume"];

/// The position of a session in the recording.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// The key of the last message of the editor's side.
    pub(super) at: String,
    pub(super) names: Names,
    /// How many requests the editor's side has sent.
    pub(super) requests: u32,
    /// How many requests the agent has sent.
    pub(super) asked: u32,
    /// How many messages of the editor's side there were.
    pub(super) length: usize,
    /// Whether what the agent sends now is recorded.
    is_recorded: bool,
    /// What the live agent has done since the session was last idle. It is recorded when the session is idle again.
    draft: Option<Box<Draft>>,
    /// The requests that the live agent has not answered. True for prompts.
    open: BTreeMap<u32, bool>,
    /// Whether a turn of the live agent runs, in ACP version 2.
    is_running: bool,
    /// Whether the editor has cancelled the turn.
    is_cancelled: bool,
}

/// A turn that is not complete.
#[derive(Debug, Clone)]
struct Draft {
    /// The lane before the turn.
    before: Lane,
    entries: Vec<(String, Entry)>,
    bytes: usize,
    /// Whether the turn is not recorded, because it did not reach its end.
    is_void: bool,
}

/// The session id that a message of ACP names.
pub(super) fn session_of(params: &Value) -> Option<&str> {
    params.get("sessionId").and_then(Value::as_str)
}

impl Lane {
    /// A lane at the beginning of the recording.
    pub(super) fn new(root: &str, names: Names) -> Lane {
        let at = root.to_owned();
        Lane {
            at,
            names,
            requests: 0,
            asked: 0,
            length: 0,
            is_recorded: false,
            draft: None,
            open: BTreeMap::new(),
            is_running: false,
            is_cancelled: false,
        }
    }

    /// The lane of a session that was forked from this one.
    pub(super) fn fork(&self) -> Lane {
        Lane {
            names: self.names.clone(),
            requests: self.requests,
            asked: self.asked,
            length: self.length,
            ..Lane::new(&self.at, Names::default())
        }
    }

    /// The message as it stands in the recording. Learns the ids in it.
    fn encode(&mut self, sent: &Sent) -> Value {
        match sent {
            Sent::Request { method, params } => {
                let cwd = params.get("cwd").and_then(Value::as_str);
                cwd.into_iter().for_each(|cwd| self.names.set_cwd(cwd));
                self.names.learn_servers(params);
                let loaded = session_of(params)
                    .filter(|id| LOADS.contains(&method.as_str()) && !self.names.knows(id));
                let mut encoded = reduce(self.names.encode(params));
                if cwd.is_some() && encoded.is_object() {
                    encoded["cwd"] = json!("$CWD");
                }
                match loaded {
                    // Each session of the agent has its own history.
                    Some(id) => {
                        json!({ "request": method, "session": short_hash(id), "params": encoded })
                    }
                    None => json!({ "request": method, "params": encoded }),
                }
            }
            Sent::Notification { method, params } => {
                let params = reduce(self.names.encode(params));
                json!({ "notification": method, "params": params })
            }
            Sent::Answer { number, method, answer } => {
                let (name, value) = match answer {
                    Ok(result) => ("result", self.names.encode(result)),
                    Err(error) => {
                        let error = self.names.encode(error);
                        ("error", json!({ "code": error["code"], "message": error["message"] }))
                    }
                };
                json!({ "answer": number, "method": method, name: reduce(value) })
            }
        }
    }

    /// The lane after this message, and the message as it stands in the recording.
    pub(super) fn after(&self, sent: &Sent) -> (Lane, Value) {
        let mut next = self.clone();
        let encoded = next.encode(sent);
        next.advance(&self.at, sent, &encoded);
        (next, encoded)
    }

    fn advance(&mut self, after: &str, sent: &Sent, encoded: &Value) {
        self.at = key(after, encoded);
        self.requests += u32::from(matches!(sent, Sent::Request { .. }));
        self.length += 1;
    }

    /// Records a message of the editor's side.
    pub(super) fn record_sent(&mut self, sent: &Sent, recording: &mut Recording) {
        if self.draft.is_none() {
            let before = self.clone();
            let draft = Draft { before, entries: Vec::new(), bytes: 0, is_void: false };
            self.draft = Some(Box::new(draft));
        }
        let encoded = self.encode(sent);
        let after = std::mem::take(&mut self.at);
        self.advance(&after, sent, &encoded);
        let entry = Entry::new(&after, &encoded);
        let bytes = entry.length();
        self.is_recorded = true;
        if let Some(draft) = &mut self.draft
            && draft.reserve(bytes, recording)
        {
            draft.entries.push((self.at.clone(), entry));
        }
        match sent {
            Sent::Request { method, .. } => {
                self.open.insert(self.requests, method == PROMPT);
            }
            Sent::Notification { .. } => self.is_cancelled = true,
            Sent::Answer { .. } => {}
        }
        self.settle(recording);
    }

    /// Records a notification of the agent.
    pub(super) fn record_notification(
        &mut self,
        method: &str,
        params: Option<&Json>,
        recording: &mut Recording,
    ) {
        let params = params.map(Json::as_str);
        if let Some(is_idle) = params.and_then(is_idle) {
            self.is_running = !is_idle;
        }
        if self.records() {
            let params = params.map(|it| self.names.encode_json(it));
            self.record(&Got::Notification { method: method.to_owned(), params }, recording);
        }
        self.settle(recording);
    }

    /// Records a request of the agent. Returns its number.
    pub(super) fn record_request(
        &mut self,
        method: &str,
        params: Option<&Json>,
        recording: &mut Recording,
    ) -> u32 {
        self.asked = self.asked.saturating_add(1);
        let (number, method) = (self.asked, method.to_owned());
        if self.records() {
            let params = params.map(|it| self.names.encode_json(it.as_str()));
            self.record(&Got::Request { number, method, params }, recording);
        }
        number
    }

    /// Records that the agent no longer needs the answer to its request.
    pub(super) fn record_withdrawal(&mut self, number: u32, recording: &mut Recording) {
        self.record(&Got::Withdrawn { number }, recording);
    }

    /// Records the agent's answer to the request with this number. An error that the conductor made, because the agent
    /// did not answer, is not recorded, nor is the turn that it ends.
    pub(super) fn record_answer(
        &mut self,
        number: u32,
        answer: &Answer,
        recording: &mut Recording,
    ) {
        let is_prompt = self.open.remove(&number).unwrap_or_default();
        let is_accepted = |result: &Json| result.member("stopReason").is_none();
        self.is_running |= is_prompt && answer.as_ref().is_ok_and(is_accepted);
        if answer.as_ref().is_err_and(is_own_error)
            && let Some(draft) = &mut self.draft
        {
            draft.is_void = true;
        }
        if self.records() {
            let mut encode = |it: &Json| self.names.encode_json(it.as_str());
            let answer = answer.as_ref().map(&mut encode).map_err(&mut encode);
            self.record(&Got::Answer { number, answer }, recording);
        }
        self.settle(recording);
    }

    /// Whether a turn or another request of the live agent runs.
    pub(super) fn is_busy(&self) -> bool {
        self.is_running || !self.open.is_empty()
    }

    /// Whether the editor can cancel a turn now.
    pub(super) fn is_in_turn(&self) -> bool {
        !self.is_cancelled && (self.is_running || self.open.values().any(|is_prompt| *is_prompt))
    }

    /// Whether what the agent sends now is recorded. Otherwise no ids are learned from it.
    fn records(&self) -> bool {
        self.is_recorded && self.draft.as_ref().is_none_or(|draft| !draft.is_void)
    }

    fn record(&mut self, got: &Got, recording: &mut Recording) {
        match &mut self.draft {
            _ if !self.is_recorded => {}
            None => recording.append(&self.at, got),
            Some(draft) => {
                let text = got.text();
                if draft.reserve(text.len(), recording)
                    && let Some((_, entry)) = draft.entries.last_mut()
                {
                    entry.got.push(text.into());
                }
            }
        }
    }

    /// The session has ended. A turn that is not complete is not recorded.
    pub(super) fn discard(self, recording: &mut Recording) {
        recording.release(self.draft.map_or(0, |draft| draft.bytes));
    }

    /// If no turn runs any more, the last one is recorded. If it did not reach its end, the lane is where it was before,
    /// as if the turn had not been.
    fn settle(&mut self, recording: &mut Recording) {
        if self.is_busy() {
            return;
        }
        self.is_cancelled = false;
        let Some(draft) = self.draft.take() else { return };
        recording.release(draft.bytes);
        match draft.is_void {
            true => *self = Lane { is_recorded: false, ..draft.before },
            false => self.is_recorded = recording.commit(draft.entries),
        }
    }
}

impl Draft {
    /// Makes room for a part of the turn. Without room, the turn is not recorded.
    fn reserve(&mut self, bytes: usize, recording: &mut Recording) -> bool {
        if !self.is_void && recording.reserve(bytes + LINE) {
            self.bytes += bytes + LINE;
            return true;
        }
        self.is_void = true;
        self.entries.clear();
        false
    }
}

/// The bytes that a line of the file has beside its message.
const LINE: usize = 16;

/// Whether this error was made by the conductor and not by the agent, or answers a request that the editor has withdrawn.
fn is_own_error(error: &Json) -> bool {
    let kind = error.at(&["data", "code"]);
    let kind = kind.as_ref().and_then(Json::text).and_then(|it| ErrorKind::from_code(&it));
    kind.is_some() || error.member("code").and_then(|it| it.integer()) == Some(code::CANCELLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_of_a_request_does_not_overflow() {
        let mut lane = Lane::new("acp-1", Names::default());
        lane.asked = u32::MAX;
        let mut recording = Recording::default();
        assert_eq!(lane.record_request("fs/read_text_file", None, &mut recording), u32::MAX);
    }
}
