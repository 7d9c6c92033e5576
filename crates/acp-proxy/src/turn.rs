//! Turns in ACP version 2.
//!
//! In version 1, the answer to `session/prompt` ends the turn. In version 2 that answer only says that the
//! prompt was accepted, and the turn ends with a `session/update` that reports the state `idle`. Handlers
//! see one turn in both: `next.run(prompt)` returns when the turn is over.
//!
//! While a handler works on a prompt, `idle` updates of that session are held back. So a turn of the proxy's
//! own before the user's does not look like the end to the editor, and what a handler says after the turn
//! still belongs to it.

use std::collections::BTreeMap;

use acp_proxy_core::{Call, IncomingRequest, Json, RequestKey};
use acp_wire::acp::SessionId;

use crate::error::{Error, Result};
use crate::signal::Giver;

/// How many idle updates of a session are held. Each is a snapshot, so the last ones are enough.
const MOST_HELD: usize = 8;

/// What happens in the sessions in which prompts are handled.
#[derive(Default)]
pub(crate) struct Turns(BTreeMap<String, Session>);

#[derive(Default)]
struct Session {
    /// Prompts that were sent to the agent and whose turn is not over.
    runs: Vec<Run>,
    /// How many handlers have sent a prompt and are not done.
    handlers: usize,
    /// Idle updates that wait for these handlers.
    held: Vec<Call>,
    /// The last state that the agent has reported is another one than idle.
    busy: bool,
}

/// A prompt that was sent to the agent.
struct Run {
    tag: RequestKey,
    /// The agent has accepted it.
    accepted: bool,
    /// The agent has reported work since it was sent.
    worked: bool,
    /// The idle update that came before the prompt was reported as accepted.
    ended: Option<Json>,
    reply: Giver<Result<Json>>,
}

/// A prompt of the editor that is being handled.
pub(crate) struct Prompted {
    pub session: SessionId,
    /// Until it is answered.
    pub request: Option<IncomingRequest>,
    /// A prompt was sent to the agent for it.
    pub sent: bool,
    /// The last answer of the agent to a prompt of the proxy's own.
    pub own: Option<Json>,
}

/// The state that a `session/update` reports, with its session and the update itself.
pub(crate) fn state(call: &Call) -> Option<(String, bool, Json)> {
    let params = call.params.as_ref()?;
    let update = params.member("update")?;
    let says = |json: Option<Json>, word: &str| {
        json.as_ref().and_then(Json::text).is_some_and(|it| it == word)
    };
    if !says(update.member("sessionUpdate"), "state_update") {
        return None;
    }
    let session = params.member("sessionId")?.text()?.into_owned();
    Some((session, says(update.member("state"), "idle"), update))
}

/// How a turn ended, as version 1 would have answered.
fn end(idle: &Json) -> Result<Json> {
    let reason = idle.member("stopReason").filter(Json::is_string);
    if reason.as_ref().and_then(Json::text).as_deref() == Some("error") {
        let unknown = || Error::internal("the agent has ended its turn with an error");
        let error = idle.member("error").filter(Json::is_object);
        return Err(error.map_or_else(unknown, |it| Error::from_json(it.detached())));
    }
    let reason = reason.unwrap_or_else(|| Json::string("end_turn"));
    Ok(Json::object([("stopReason", Some(reason))]))
}

impl Turns {
    /// A prompt is being sent to the agent; `handled` for the first one of a handler.
    pub fn sent(
        &mut self,
        session: &str,
        tag: RequestKey,
        handled: bool,
        reply: Giver<Result<Json>>,
    ) {
        let session = self.0.entry(session.to_owned()).or_default();
        session.handlers += usize::from(handled);
        let run = Run { tag, accepted: false, worked: false, ended: None, reply };
        session.runs.push(run);
    }

    /// The agent has answered a prompt.
    pub fn answered(&mut self, name: &str, tag: RequestKey, answer: Result<Json>) {
        let Some(session) = self.0.get_mut(name) else { return };
        let Some(index) = session.runs.iter().position(|run| run.tag == tag) else { return };
        session.runs[index].accepted = true;
        let over = match answer {
            Err(error) => Some(Err(error)),
            // The agent ends its turns as in version 1.
            Ok(answer) if answer.member("stopReason").is_some() => Some(Ok(answer)),
            Ok(_) => session.runs[index].ended.as_ref().map(end),
        };
        if let Some(over) = over {
            session.runs.remove(index).reply.give(over);
        }
        self.tidy(name);
    }

    /// The agent reports a state.
    pub fn reported(&mut self, name: &str, idle: bool, update: &Json) {
        let Some(session) = self.0.get_mut(name) else { return };
        session.busy = !idle;
        if !idle {
            session.held.clear();
            session.runs.iter_mut().for_each(|run| (run.worked, run.ended) = (true, None));
            return;
        }
        // An idle update before the prompt was accepted, without work in between, is of an earlier turn.
        for run in session.runs.iter_mut().filter(|run| !run.accepted && run.worked) {
            run.ended = Some(update.detached());
        }
        for run in session.runs.extract_if(.., |run| run.accepted) {
            run.reply.give(end(update));
        }
        self.tidy(name);
    }

    /// Holds an idle update back if handlers are at work in its session. Gives it back if not.
    pub fn hold(&mut self, name: &str, call: Call) -> Option<Call> {
        let session = self.0.get_mut(name).filter(|session| session.handlers > 0);
        let Some(session) = session else { return Some(call) };
        if session.held.len() == MOST_HELD {
            session.held.remove(0);
        }
        session.held.push(call.detached());
        None
    }

    /// The session is being closed: its turns end.
    pub fn closed(&mut self, name: &str) {
        let Some(session) = self.0.get_mut(name) else { return };
        for run in session.runs.drain(..) {
            run.reply.give(Ok(Json::trusted(r#"{"stopReason":"cancelled"}"#)));
        }
        self.tidy(name);
    }

    /// A handler is done that had sent a prompt. Gives the idle updates that may go to the editor now, and
    /// whether there is a turn whose end the editor has not been told.
    pub fn done(&mut self, name: &str) -> (Vec<Call>, bool) {
        let Some(session) = self.0.get_mut(name) else { return (Vec::new(), true) };
        session.handlers = session.handlers.saturating_sub(1);
        if session.handlers > 0 {
            return (Vec::new(), false);
        }
        let held = std::mem::take(&mut session.held);
        let untold = held.is_empty() && !session.busy;
        self.tidy(name);
        (held, untold)
    }

    fn tidy(&mut self, name: &str) {
        let unused = |it: &Session| it.handlers == 0 && it.runs.is_empty();
        if self.0.get(name).is_some_and(unused) {
            self.0.remove(name);
        }
    }
}

/// An idle update that ends a turn as its handler says.
pub(crate) fn idle(session: &str, outcome: &Result<Json>) -> Call {
    let (reason, error) = match outcome {
        Ok(answer) => (answer.member("stopReason").filter(Json::is_string), None),
        Err(error) => (Some(Json::string("error")), Some(error.json().clone())),
    };
    let update = Json::object([
        ("sessionUpdate", Some(Json::string("state_update"))),
        ("state", Some(Json::string("idle"))),
        ("stopReason", Some(reason.unwrap_or_else(|| Json::string("end_turn")))),
        ("error", error),
    ]);
    update_call(session, update)
}

pub(crate) fn running(session: &str) -> Call {
    let update = Json::object([
        ("sessionUpdate", Some(Json::string("state_update"))),
        ("state", Some(Json::string("running"))),
    ]);
    update_call(session, update)
}

/// Tells the editor that its prompt is part of the conversation.
pub(crate) fn user_message(prompted: &IncomingRequest, session: &str, id: &str) -> Call {
    let content = prompted.call.params.as_ref().and_then(|params| params.member("prompt"));
    let update = Json::object([
        ("sessionUpdate", Some(Json::string("user_message"))),
        ("messageId", Some(Json::string(id))),
        ("content", content),
    ]);
    update_call(session, update)
}

pub(crate) fn update_call(session: &str, update: Json) -> Call {
    let params = [("sessionId", Some(Json::string(session))), ("update", Some(update))];
    Call::new("session/update", Json::object(params))
}

/// The held updates, the last of which ends the turn as its handler says.
pub(crate) fn with_end(mut held: Vec<Call>, outcome: &Result<Json>) -> Vec<Call> {
    let Some(last) = held.last_mut() else { return held };
    let Some(params) = &last.params else { return held };
    let path = ["update", "stopReason"];
    let said = params.at(&path);
    let changed = match outcome {
        Ok(answer) => answer.member("stopReason").filter(|it| match &said {
            Some(said) => it.text() != said.text(),
            // The handler was given this where the agent gave no reason.
            None => it.text().as_deref() != Some("end_turn"),
        }),
        // The agent's own reason is not replaced by a failure of the handler, which is logged.
        Err(_) => None,
    };
    if let Some(reason) = changed {
        last.params = Some(params.with_at(&path, Some(&reason)));
    }
    held
}
