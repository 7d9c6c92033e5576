//! All messages that were sent, and the rules for what may be received.
//!
//! A message keeps its serial number when it is forwarded. So the log can check at each place whether a participant has
//! sent this message with this content, and whether it arrives once and in order. At the ends of the chain it checks
//! that no message has overtaken another.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::config::CONFIG;
use acp_wire::{Json, Message, Outcome, Side};

use crate::outbox::{
    PANEL, SHOW_PANEL, Serial, USE_PANEL, is_mcp, key, number, payload_of, serial, sets_up, text,
};

/// A process of a participant. Place 0 is the editor, then the proxies follow, and the last place is the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    pub place: usize,
    pub number: u32,
}

/// A message that was sent.
#[derive(Debug)]
struct Sent {
    by: ProcessId,
    /// The number of the message among all messages.
    stamp: usize,
    payload: Json,
}

/// A request that is not answered.
#[derive(Debug)]
struct OpenRequest {
    serial: Option<Serial>,
    method: String,
    cancelled: bool,
}

/// The conductor changes these requests, and answers them for components.
fn is_config(message: &Message) -> bool {
    is_call(message, CONFIG)
}

fn is_call(message: &Message, method: &str) -> bool {
    matches!(message, Message::Request { call, .. } | Message::Notification(call) if call.is(method))
}

/// The payload without the id of a panel, which is different at each place.
fn without_panel(message: &Message, payload: &Json) -> Json {
    match is_call(message, SHOW_PANEL) || is_call(message, USE_PANEL) {
        true => payload.with_at(&["id"], None),
        false => payload.clone(),
    }
}

pub type Check = Result<(), String>;

/// The log of all messages.
#[derive(Debug)]
pub struct MessageLog {
    /// The place of the agent.
    agent_place: usize,
    stamp: usize,
    /// By serial: the original message, and each time that it was forwarded.
    sent: BTreeMap<Serial, Vec<Sent>>,
    open: BTreeMap<(ProcessId, String), OpenRequest>,
    received: BTreeSet<(usize, Serial)>,
    /// The set-up requests that a process has received. Another process may receive them again.
    received_setups: BTreeSet<(ProcessId, Serial)>,
    /// The last message that a place has received from a process.
    last: BTreeMap<(ProcessId, usize), usize>,
    /// The last message of the agent that the editor has received.
    last_from_agent: BTreeMap<ProcessId, usize>,
    /// The panels whose owner has not got the event of the editor, by the serial number of the message that has shown them.
    unused_panels: BTreeSet<Serial>,
    /// Whether any failure has happened. Then the conductor may send errors and other messages itself.
    pub had_failures: bool,
    /// Whether the chain has got another configuration. Then the conductor may write the answer that sets up a session at a
    /// component that joins the chain.
    was_reloaded: bool,
    /// Whether the conductor may answer cancelled prompts on behalf of a component.
    pub may_cancel_prompts: bool,
    /// Whether the chain is ending. Then updates do not wait behind barriers, and may overtake others.
    pub ending: bool,
    /// The size and the number of all messages.
    pub bytes: usize,
    pub count: usize,
}

impl MessageLog {
    pub fn new(far: usize) -> MessageLog {
        MessageLog {
            agent_place: far,
            stamp: 0,
            sent: BTreeMap::new(),
            open: BTreeMap::new(),
            received: BTreeSet::new(),
            received_setups: BTreeSet::new(),
            last: BTreeMap::new(),
            last_from_agent: BTreeMap::new(),
            unused_panels: BTreeSet::new(),
            had_failures: false,
            was_reloaded: false,
            may_cancel_prompts: false,
            ending: false,
            bytes: 0,
            count: 0,
        }
    }

    /// The chain gets another configuration. What a component that is restarted has not handled ends with it.
    pub fn record_reload(&mut self) {
        self.was_reloaded = true;
        self.unused_panels.clear();
    }

    /// Records a message that a process sends.
    pub fn record_sent(&mut self, by: ProcessId, message: &Message) -> Check {
        self.stamp += 1;
        self.bytes += message.size();
        self.count += 1;
        let payload = payload_of(message);
        let serial = payload.and_then(serial);
        if let (Some(serial), Some(payload)) = (serial, payload) {
            if is_call(message, SHOW_PANEL) && !self.sent.contains_key(&serial) {
                self.unused_panels.insert(serial);
            }
            let sent = Sent { by, stamp: self.stamp, payload: without_panel(message, payload) };
            self.sent.entry(serial).or_default().push(sent);
        }
        match message {
            Message::Request { id, call } => {
                let method = call.method.name().into_owned();
                let request = OpenRequest { serial, method, cancelled: false };
                match self.open.insert((by, key(id)), request) {
                    Some(_) => Err(format!("{by:?} uses the id {id} twice (an error of the test)")),
                    None => Ok(()),
                }
            }
            Message::Notification(call) if call.is("$/cancel_request") => {
                let id = call.params.as_ref().and_then(|it| it.member("requestId"));
                let id = id.map(|id| id.as_str().to_owned()).unwrap_or_default();
                if let Some(request) = self.open.get_mut(&(by, id)) {
                    request.cancelled = true;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a message that a process receives.
    pub fn check_received(
        &mut self,
        receiver: ProcessId,
        toward: Side,
        message: &Message,
    ) -> Check {
        if let Some(payload) = payload_of(message) {
            self.check_panel(receiver, message, payload)?;
        }
        let payload = payload_of(message).map(|payload| without_panel(message, payload));
        let payload = payload.as_ref();
        let serial = payload.and_then(serial);
        match message {
            Message::Request { id, call } => {
                let method = call.method.name();
                let is_replay = id.text().is_some_and(|id| id.starts_with("r:"));
                match (serial, payload) {
                    _ if is_mcp(&method) || is_config(message) => Ok(()),
                    (Some(serial), Some(payload))
                        if sets_up(&method) || &*method == "initialize" =>
                    {
                        // Each process gets it once.
                        match self.received_setups.insert((receiver, serial)) {
                            true if is_replay => Ok(()),
                            true => {
                                self.find(receiver, Some(toward), serial, payload, false).map(drop)
                            }
                            false => Err(format!("{receiver:?} receives {method} {serial} twice")),
                        }
                    }
                    (Some(serial), Some(payload)) => {
                        self.check_received_once(receiver, Some(toward), serial, payload, true)
                    }
                    _ if &*method == "_conductor/barrier" => Ok(()),
                    // The conductor closes orphaned sessions.
                    _ if &*method == "session/close" && self.had_failures => Ok(()),
                    _ => Err(format!(
                        "{receiver:?} gets a request that no participant has sent: {call:?}"
                    )),
                }
            }
            Message::Notification(call) => {
                let method = call.method.name();
                let exact = &*method != "$/cancel_request";
                match (serial, payload) {
                    (Some(serial), Some(payload)) => {
                        self.check_received_once(receiver, Some(toward), serial, payload, exact)
                    }
                    _ if is_mcp(&method) || self.is_from_conductor(&method, payload) => Ok(()),
                    _ => Err(format!(
                        "{receiver:?} gets a notification that no participant has sent: {call:?}"
                    )),
                }
            }
            Message::Response { id, outcome, .. } => self.check_answer(receiver, &key(id), outcome),
        }
    }

    /// Checks the id of a panel: only the editor and the owner of the panel get it without a mark.
    fn check_panel(&mut self, receiver: ProcessId, message: &Message, payload: &Json) -> Check {
        let is_plain = text(payload, &["id"]).as_deref() == Some(PANEL);
        if is_call(message, SHOW_PANEL) && is_plain && receiver.place > 0 {
            return Err(format!("{receiver:?} gets a panel without its owner: {payload:?}"));
        }
        if !is_call(message, USE_PANEL) {
            return Ok(());
        }
        let of = number(payload, "of").unwrap_or_default();
        let owner = self.sent.get(&of).and_then(|sent| sent.first()).map(|sent| sent.by.place);
        if is_plain != (owner == Some(receiver.place)) {
            return Err(format!(
                "{receiver:?} gets an event for a panel of {owner:?}: {payload:?}"
            ));
        }
        if is_plain {
            self.unused_panels.remove(&of);
        }
        Ok(())
    }

    /// Describes a panel whose owner has not got the event, if there were no failures.
    pub fn unused_panel(&self) -> Option<String> {
        let panel = self.unused_panels.first().filter(|_| !self.had_failures)?;
        Some(format!("the owner of the panel {panel} never gets its event"))
    }

    /// Whether the conductor may send this itself.
    fn is_from_conductor(&self, method: &str, payload: Option<&Json>) -> bool {
        let is_notice =
            || payload.is_some_and(|it| it.at(&["update", "_meta", "conductor"]).is_some());
        self.had_failures
            && match method {
                "session/cancel" | "$/cancel_request" => true,
                "session/update" => is_notice(),
                _ => false,
            }
    }

    fn check_answer(&mut self, receiver: ProcessId, id: &str, outcome: &Outcome) -> Check {
        let Some(request) = self.open.remove(&(receiver, id.to_owned())) else {
            return Err(format!("{receiver:?} gets an unexpected answer {id}: {outcome:?}"));
        };
        let (Outcome::Result(payload) | Outcome::Error(payload)) = outcome;
        let OpenRequest { serial: expected, method, cancelled } = request;
        if is_mcp(&method) || method == "_conductor/barrier" || method == CONFIG {
            return Ok(());
        }
        let Some(serial) = serial(payload) else {
            let is_cancelled = text(payload, &["stopReason"]).as_deref() == Some("cancelled");
            return match outcome {
                Outcome::Error(_) if self.had_failures => Ok(()),
                Outcome::Result(_)
                    if is_cancelled && self.may_cancel_prompts && method == "session/prompt" =>
                {
                    Ok(())
                }
                Outcome::Error(_) if cancelled => Ok(()),
                // The conductor answers `session/close` for a lost session.
                Outcome::Result(_) if self.had_failures && method == "session/close" => Ok(()),
                Outcome::Result(_) if self.was_reloaded && sets_up(&method) => Ok(()),
                _ => Err(format!(
                    "{receiver:?} gets an answer to {method} that no participant has sent: {payload:?}"
                )),
            };
        };
        if let Some(to) = number(payload, "to")
            && Some(to) != expected
        {
            return Err(format!(
                "{receiver:?} waits for the answer to {expected:?} ({method}) and gets the answer to {to}"
            ));
        }
        // Each proxy may change the answers to these requests.
        match method == "initialize" || sets_up(&method) {
            true => Ok(()),
            false => self.check_received_once(receiver, None, serial, payload, true),
        }
    }

    fn check_received_once(
        &mut self,
        receiver: ProcessId,
        toward: Option<Side>,
        serial: Serial,
        payload: &Json,
        exact: bool,
    ) -> Check {
        let (by, stamp) = self.find(receiver, toward, serial, payload, exact)?;
        if !self.received.insert((receiver.place, serial)) {
            return Err(format!("{receiver:?} receives {serial} twice: {payload:?}"));
        }
        // A cancellation is routed past components that have failed meanwhile.
        if !exact {
            return Ok(());
        }
        if let Some(last) = self.last.insert((by, receiver.place), stamp)
            && last > stamp
            && !self.ending
        {
            return Err(format!(
                "{receiver:?} receives {serial} of {by:?} out of order: {payload:?}"
            ));
        }
        if receiver.place == 0
            && let Some(first) = self.sent[&serial].first()
            && first.by.place == self.agent_place
            && let Some(last) = self.last_from_agent.insert(first.by, first.stamp)
            && last > first.stamp
            && !self.ending
        {
            return Err(format!(
                "a later message of the agent has overtaken {serial}: {payload:?}"
            ));
        }
        Ok(())
    }

    /// Finds the nearest process that has sent this message.
    fn find(
        &self,
        receiver: ProcessId,
        toward: Option<Side>,
        serial: Serial,
        payload: &Json,
        exact: bool,
    ) -> Result<(ProcessId, usize), String> {
        let near = |sent: &&Sent| match toward {
            Some(Side::Agent) => sent.by.place < receiver.place,
            Some(Side::Editor) => sent.by.place > receiver.place,
            None => sent.by.place != receiver.place,
        };
        let all = self.sent.get(&serial).into_iter().flatten().filter(near);
        let nearest = all.min_by_key(|sent| sent.by.place.abs_diff(receiver.place));
        match nearest {
            None => Err(format!(
                "{receiver:?} receives {serial}, which no participant on that side has sent"
            )),
            Some(sent) if exact && sent.payload.as_bytes() != payload.as_bytes() => Err(format!(
                "{serial} of {:?} has changed on its way to {receiver:?}: from {:?} to {payload:?}",
                sent.by, sent.payload
            )),
            Some(sent) => Ok((sent.by, sent.stamp)),
        }
    }

    /// Describes an unanswered request of a running process.
    pub fn unanswered(&self, is_running: impl Fn(ProcessId) -> bool) -> Option<String> {
        self.unanswered_except(is_running, &[])
    }

    /// The same, without the requests with these ids.
    pub fn unanswered_except(
        &self,
        is_running: impl Fn(ProcessId) -> bool,
        except: &[String],
    ) -> Option<String> {
        let mut open = self
            .open
            .iter()
            .filter(|((receiver, id), _)| is_running(*receiver) && !except.contains(id));
        let ((receiver, id), request) = open.next()?;
        Some(format!(
            "{receiver:?} never gets an answer to {} {id} ({:?})",
            request.method, request.serial
        ))
    }
}
