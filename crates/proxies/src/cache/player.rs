//! Replays a session: decides what the agent of the recording does next. It does no I/O.
//!
//! Messages of the editor's side may arrive in another order than in the recording: an answer is kept until the
//! recording has it next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_proxy::Json;
use serde_json::{Value, json};

use super::got::{Got, is_idle};
use super::lane::{Answer, Lane, Sent};
use super::not_recorded;
use super::recording::Recording;

/// The replay of one session, or of a request that belongs to no session. `R` replies to a request of the editor.
#[derive(Debug)]
pub(super) struct Player<R> {
    pub(super) lane: Lane,
    /// What the agent does before it needs another message.
    queue: VecDeque<Box<str>>,
    /// Messages that the recording does not have next.
    pending: VecDeque<(Sent, Option<R>)>,
    /// The requests of the editor that are not answered, by number.
    open: BTreeMap<u32, (String, R)>,
    /// The requests of the agent that the editor has not answered, by number.
    asked: BTreeSet<u32>,
    /// The requests of the agent that it has withdrawn. Their answers mean nothing.
    withdrawn: BTreeSet<u32>,
    /// Whether a turn runs in ACP version 2: its prompt is accepted and the session is not idle.
    is_running: bool,
    /// Whether the running turn was cancelled, as in the recording.
    is_cancelled: bool,
    /// Why the session cannot be replayed any further.
    diverged: Option<String>,
    /// Whether an agent answers what the recording does not.
    is_auto: bool,
    turn: Option<Turn>,
    /// What was said so far.
    pub(super) transcript: String,
    /// The requests so far that configure the session, such as `session/set_mode`.
    pub(super) settings: Vec<(String, Value)>,
}

/// A turn that is being replayed: what is needed to begin it again with an agent.
#[derive(Debug)]
struct Turn {
    before: Lane,
    prompt: Sent,
    /// The length of the transcript before it.
    transcript: usize,
}

/// What happens next in a replay. Parameters are JSON texts.
#[derive(Debug)]
pub(super) enum Step<R> {
    /// The agent sends a notification.
    Notify { method: String, params: Option<String> },
    /// The agent sends a request.
    Ask { number: u32, method: String, params: Option<String> },
    /// The agent withdraws its request.
    Withdraw { number: u32 },
    /// The agent answers a request of the editor.
    Reply { to: R, method: String, answer: Answer },
    /// This request of the editor is not recorded.
    Missing { method: String, params: Value, to: R, why: String },
    /// A message of the editor's side is needed. `has_limit`: if it does not come soon, it will not come.
    Wait { has_limit: bool },
}

/// A turn that cannot be replayed to its end.
#[derive(Debug)]
pub(super) struct Failure<R> {
    /// The requests that are not answered, with their methods.
    pub(super) open: Vec<(String, R)>,
    /// Whether a turn of ACP version 2 runs.
    pub(super) is_running: bool,
    pub(super) why: String,
}

pub(super) const CANCEL: &str = "session/cancel";
pub(super) const PROMPT: &str = "session/prompt";

impl<R> Player<R> {
    pub(super) fn new(lane: Lane, is_auto: bool) -> Player<R> {
        Player {
            lane,
            is_auto,
            queue: VecDeque::new(),
            pending: VecDeque::new(),
            open: BTreeMap::new(),
            asked: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            is_running: false,
            is_cancelled: false,
            diverged: None,
            turn: None,
            transcript: String::new(),
            settings: Vec::new(),
        }
    }

    /// A copy of this session at this position, for a session that was forked from it.
    pub(super) fn fork(&self) -> Player<R> {
        Player {
            transcript: self.transcript.clone(),
            settings: self.settings.clone(),
            ..Player::new(self.lane.clone(), self.is_auto)
        }
    }

    /// A message of the editor's side has arrived.
    pub(super) fn receive(&mut self, sent: Sent, reply: Option<R>) {
        match &sent {
            Sent::Answer { number, .. } if self.withdrawn.contains(number) => return,
            Sent::Answer { number, .. } => drop(self.asked.remove(number)),
            // A second cancellation of a turn means nothing.
            Sent::Notification { .. } if self.is_cancelled => return,
            _ => {}
        }
        self.pending.push_back((sent, reply));
    }

    /// Whether a turn runs.
    fn is_busy(&self) -> bool {
        self.is_running || self.open.values().any(|(method, _)| method == PROMPT)
    }

    /// The next step. `new_session` makes the id of a session.
    pub(super) fn next(
        &mut self,
        recording: &Recording,
        new_session: &mut dyn FnMut() -> String,
    ) -> Step<R> {
        loop {
            if let Some(got) = self.queue.pop_front() {
                let got = Got::parse(&got).ok();
                if let Some(step) = got.and_then(|got| self.perform(got, new_session)) {
                    return step;
                }
                continue;
            }
            if self.consume(recording) {
                continue;
            }
            if let Some(step) = self.take_unrecorded_cancel() {
                return step;
            }
            let is_open = !self.open.is_empty() || self.is_running;
            if self.diverged.is_some() && is_open {
                // The turn fails before the next request.
                return Step::Wait { has_limit: false };
            }
            let request = self.pending.iter().position(|(_, reply)| reply.is_some());
            let waits_for_editor = !self.asked.is_empty() && self.diverged.is_none();
            let Some(index) = request.filter(|_| !waits_for_editor) else {
                let has_limit = request.is_some() || self.asked.is_empty() && is_open;
                return Step::Wait { has_limit };
            };
            if let Some(step) = self.missing(index, recording) {
                return step;
            }
        }
    }

    /// Goes on with a message that the recording has next. Returns whether there is one.
    fn consume(&mut self, recording: &Recording) -> bool {
        if self.diverged.is_some() {
            return false;
        }
        for index in 0..self.pending.len() {
            let (sent, _) = &self.pending[index];
            if is_cancel(sent) && !self.is_busy() {
                continue;
            }
            let Some(next) = self.position_after(sent, recording) else {
                self.note_divergence(index, recording);
                continue;
            };
            let Some(entry) = recording.entry(&next.at) else { continue };
            self.queue = entry.got.iter().cloned().collect();
            let before = std::mem::replace(&mut self.lane, next);
            let Some((sent, reply)) = self.pending.remove(index) else { return false };
            self.is_cancelled |= is_cancel(&sent);
            self.keep(&sent, before);
            if let (Sent::Request { method, .. }, Some(reply)) = (sent, reply) {
                self.open.insert(self.lane.requests, (method, reply));
            }
            return true;
        }
        false
    }

    /// The lane after a message, if the recording has it next. A session that is loaded may have another id than in
    /// the recording, if only one was loaded there. An agent would know its sessions by their ids.
    fn position_after(&self, sent: &Sent, recording: &Recording) -> Option<Lane> {
        let (mut next, encoded) = self.lane.after(sent);
        let is_request = matches!(sent, Sent::Request { .. });
        if self.is_auto {
            let is_recorded = match is_request {
                true => recording.answers(&next.at),
                false => recording.entry(&next.at).is_some(),
            };
            return is_recorded.then_some(next);
        }
        if recording.entry(&next.at).is_none() {
            next.at = recording.only_session(&self.lane.at, &encoded)?;
        }
        Some(next)
    }

    /// Keeps what a live agent would need to continue this session.
    fn keep(&mut self, sent: &Sent, before: Lane) {
        let Sent::Request { method, params } = sent else { return };
        match method.as_str() {
            PROMPT => {
                let transcript = self.transcript.len();
                self.turn = Some(Turn { before, prompt: sent.clone(), transcript });
                self.is_cancelled = false;
                let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                let text = texts.collect::<Vec<_>>().join("\n");
                self.transcript.push_str(&format!("\n\nUser: {text}\n\nAgent: "));
            }
            "session/new" | "session/load" | "session/resume" | "session/fork" => {}
            _ => self.settings.push((method.clone(), params.clone())),
        }
    }

    /// If the recording has another answer to the same request, the session cannot be replayed any further.
    fn note_divergence(&mut self, index: usize, recording: &Recording) {
        let (Sent::Answer { number, method, .. }, _) = &self.pending[index] else { return };
        let number = *number;
        let recorded = recording.children(&self.lane.at);
        let mut recorded =
            recorded.filter(|entry| entry.sent()["answer"] == json!(number)).peekable();
        if recorded.peek().is_some() {
            let sent = self.lane.after(&self.pending[index].0).1;
            let why = not_recorded::other_answer(method, &sent, recorded);
            self.diverged = Some(why);
        }
    }

    /// A cancellation that the recording does not have: ends the turn as any agent does.
    fn take_unrecorded_cancel(&mut self) -> Option<Step<R>> {
        let index = self.pending.iter().position(|(sent, _)| is_cancel(sent))?;
        if self.is_busy() && !self.asked.is_empty() {
            // The editor answers the requests of the agent first.
            return None;
        }
        let (sent, _) = self.pending.remove(index)?;
        self.cancel(&sent)
    }

    /// Ends the turn. The session cannot be replayed any further, because the recorded turn has another end.
    pub(super) fn cancel(&mut self, sent: &Sent) -> Option<Step<R>> {
        if !self.is_busy() {
            return None;
        }
        self.queue.clear();
        self.turn = None;
        self.diverged = Some("the turn before was cancelled, but not in the recording".to_owned());
        if std::mem::take(&mut self.is_running) {
            let Sent::Notification { params, .. } = sent else { return None };
            let update = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled" });
            let params = json!({ "sessionId": params["sessionId"], "update": update });
            let (method, params) = ("session/update".to_owned(), Some(params.to_string()));
            return Some(Step::Notify { method, params });
        }
        let number = *self.open.iter().find(|(_, (method, _))| method == PROMPT)?.0;
        let (method, to) = self.open.remove(&number)?;
        Some(Step::Reply { to, method, answer: Ok(Json::trusted(r#"{"stopReason":"cancelled"}"#)) })
    }

    /// A pending request that is not recorded. Requests that end a session succeed without a recording.
    fn missing(&mut self, index: usize, recording: &Recording) -> Option<Step<R>> {
        let (sent, reply) = self.pending.remove(index)?;
        let (Sent::Request { method, params }, Some(to)) = (sent.clone(), reply) else {
            return None;
        };
        if ["session/close", "session/delete"].contains(&method.as_str()) {
            return Some(Step::Reply { to, method, answer: Ok(Json::EMPTY_OBJECT) });
        }
        let why = match &self.diverged {
            Some(why) => why.clone(),
            None => {
                let (_, encoded) = self.lane.after(&sent);
                not_recorded::missing(&encoded, &self.lane, recording)
            }
        };
        Some(Step::Missing { method, params, to, why })
    }

    /// No message has come that the recording needs: the session cannot be replayed any further.
    pub(super) fn give_up(&mut self, recording: &Recording) -> Option<Failure<R>> {
        let next = recording.children(&self.lane.at);
        self.diverged.get_or_insert_with(|| not_recorded::other_course(next));
        self.take_failure()
    }

    /// The open requests, if the session cannot be replayed any further.
    pub(super) fn take_failure(&mut self) -> Option<Failure<R>> {
        let why = self.diverged.clone()?;
        let is_running = std::mem::take(&mut self.is_running);
        let open: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        (is_running || !open.is_empty()).then_some(Failure { open, is_running, why })
    }

    /// Whether a request of the editor is not answered, or the agent has more to do.
    pub(super) fn is_active(&self) -> bool {
        !self.open.is_empty() || !self.queue.is_empty() || !self.pending.is_empty()
    }

    /// A cancellation has arrived in the middle of a turn. If the recording does not have it, the turn ends at once.
    pub(super) fn cancel_now(&mut self, sent: &Sent, recording: &Recording) -> Option<Step<R>> {
        if self.queue.is_empty() {
            return None;
        }
        if recording.entry(&self.lane.after(sent).0.at).is_some() {
            // If the recording has the turn with and without the cancellation, its rest is left out.
            let is_end = |got: &str| matches!(Got::parse(got), Ok(Got::Answer { .. }));
            if self.queue.iter().any(|got| is_end(got)) {
                self.queue.clear();
            }
            return None;
        }
        self.pending.pop_back();
        self.cancel(sent)
    }

    /// Goes back to the beginning of the turn, and returns its prompt.
    pub(super) fn rewind(&mut self) -> Option<Sent> {
        let turn = self.turn.take()?;
        self.lane = turn.before;
        self.transcript.truncate(turn.transcript);
        self.queue.clear();
        self.asked.clear();
        self.diverged = None;
        Some(turn.prompt)
    }

    /// The messages that wait, for a live agent. It has not asked what the agent of the recording has.
    pub(super) fn take_pending(&mut self) -> VecDeque<(Sent, Option<R>)> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|(sent, _)| !matches!(sent, Sent::Answer { .. }));
        pending
    }

    /// Performs what the agent of the recording does.
    fn perform(&mut self, got: Got, new_session: &mut dyn FnMut() -> String) -> Option<Step<R>> {
        let names = &mut self.lane.names;
        match got {
            Got::Notification { method, params } => {
                let params = params.map(|it| names.decode_json(&it, new_session));
                params.iter().for_each(|it| self.note_update(it));
                Some(Step::Notify { method, params })
            }
            Got::Request { number, method, params } => {
                let params = params.map(|it| names.decode_json(&it, new_session));
                self.lane.asked = number;
                self.asked.insert(number);
                Some(Step::Ask { number, method, params })
            }
            Got::Withdrawn { number } => {
                self.asked.remove(&number);
                self.withdrawn.insert(number);
                let is_answer =
                    |sent: &Sent| matches!(sent, Sent::Answer { number: it, .. } if *it == number);
                self.pending.retain(|(sent, _)| !is_answer(sent));
                Some(Step::Withdraw { number })
            }
            Got::Answer { number, answer } => {
                let mut decode = |it: String| Json::trusted(names.decode_json(&it, new_session));
                let answer = answer.map(&mut decode).map_err(&mut decode);
                let (method, to) = self.open.remove(&number)?;
                if method == PROMPT {
                    let is_accepted = |it: &Json| it.member("stopReason").is_none();
                    self.is_running |= answer.as_ref().is_ok_and(is_accepted);
                    self.turn = self.turn.take().filter(|_| self.is_running);
                }
                Some(Step::Reply { to, method, answer })
            }
        }
    }

    fn note_update(&mut self, params: &str) {
        if let Some(is_idle) = is_idle(params) {
            self.is_running = !is_idle;
            self.turn = self.turn.take().filter(|_| !is_idle);
        }
        if params.contains("agent_message_chunk") {
            let params: Value = serde_json::from_str(params).unwrap_or_default();
            let update = &params["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                self.transcript.push_str(update["content"]["text"].as_str().unwrap_or_default());
            }
        }
    }
}

fn is_cancel(sent: &Sent) -> bool {
    matches!(sent, Sent::Notification { method, .. } if method == CANCEL)
}
