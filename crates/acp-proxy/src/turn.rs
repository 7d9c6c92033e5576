//! Turns in ACP version 2.
//!
//! In version 1, the answer to `session/prompt` ends the turn. In version 2 the answer only accepts the prompt, and
//! the turn ends with a `session/update` that reports the state `idle`. For handlers both versions are the same:
//! `next.run(prompt)` returns when the turn is over.
//!
//! While a handler works on a prompt, `idle` updates of the session are held back. So an extra turn before the
//! user's turn does not look like the end to the editor, and text that a handler sends after the agent's turn still
//! belongs to the turn.

use std::collections::BTreeMap;

use acp_proxy_core::{Call, IncomingRequest, Json, RequestKey};
use acp_wire::acp::SessionId;

use crate::error::{Error, Result};
use crate::oneshot::Sender;

/// How many idle updates of a session are held. Each has the whole state, so the last ones are enough.
const MAX_HELD: usize = 8;

/// The turns of each session in which handlers work on prompts.
#[derive(Default)]
pub(crate) struct Turns(BTreeMap<String, SessionTurns>);

#[derive(Default)]
struct SessionTurns {
    /// The prompts that were sent to the agent and whose turn is not over.
    prompts: Vec<SentPrompt>,
    /// How many handlers have sent a prompt and not returned yet.
    handlers: usize,
    /// The idle updates that wait for these handlers.
    held: Vec<Call>,
    /// Whether the last state that the agent has reported is not `idle`.
    is_busy: bool,
}

/// A prompt that was sent to the agent.
struct SentPrompt {
    key: RequestKey,
    /// The answer that accepts the prompt.
    accepted: Option<Json>,
    /// Whether the agent has reported a busy state since the prompt was sent.
    has_worked: bool,
    /// The idle update that came before the prompt was accepted.
    end: Option<Json>,
    reply: Sender<Result<Json>>,
}

/// A prompt of the editor whose handler is running.
pub(crate) struct HandledPrompt {
    pub(crate) session: SessionId,
    /// The request, until it is answered.
    pub(crate) request: Option<IncomingRequest>,
    /// Whether the handler has sent a prompt to the agent.
    pub(crate) is_sent: bool,
    /// The agent's last answer to an extra prompt of the handler.
    pub(crate) extra_answer: Option<Json>,
}

/// The session, whether it is idle, and the update, of a `session/update` that reports a state.
pub(crate) fn state(call: &Call) -> Option<(String, bool, Json)> {
    let params = call.params.as_ref()?;
    let update = params.member("update")?;
    let is = |json: Option<Json>, word: &str| {
        json.as_ref().and_then(Json::text).is_some_and(|it| it == word)
    };
    if !is(update.member("sessionUpdate"), "state_update") {
        return None;
    }
    let session = params.member("sessionId")?.text()?.into_owned();
    Some((session, is(update.member("state"), "idle"), update))
}

/// The answer to a prompt at the end of its turn: the one that has accepted the prompt, with the stop reason of the idle
/// update. It fits the types of version 1 and 2.
fn end_of_turn(idle: &Json, accepted: &Json) -> Result<Json> {
    let reason = idle.member("stopReason").filter(Json::is_string);
    if reason.as_ref().and_then(Json::text).as_deref() == Some("error") {
        let unknown = || Error::internal("the agent has ended its turn with an error");
        let error = idle.member("error").filter(Json::is_object);
        return Err(error.map_or_else(unknown, |it| Error::from_json(it.detached())));
    }
    let reason = reason.unwrap_or_else(|| Json::string("end_turn"));
    let accepted = if accepted.is_object() { accepted.clone() } else { Json::EMPTY_OBJECT };
    Ok(accepted.with_at(&["stopReason"], Some(&reason)))
}

impl Turns {
    /// A prompt is sent to the agent. `is_first` for the first prompt of a handler.
    pub(crate) fn on_sent(
        &mut self,
        session: &str,
        key: RequestKey,
        is_first: bool,
        reply: Sender<Result<Json>>,
    ) {
        let session = self.0.entry(session.to_owned()).or_default();
        session.handlers += usize::from(is_first);
        let prompt = SentPrompt { key, accepted: None, has_worked: false, end: None, reply };
        session.prompts.push(prompt);
    }

    /// The agent has answered a prompt.
    pub(crate) fn on_answer(&mut self, name: &str, key: RequestKey, answer: Result<Json>) {
        let Some(session) = self.0.get_mut(name) else { return };
        let Some(index) = session.prompts.iter().position(|it| it.key == key) else { return };
        let prompt = &mut session.prompts[index];
        let end = match answer {
            Err(error) => Some(Err(error)),
            // The agent ends its turns as in version 1.
            Ok(answer) if answer.member("stopReason").is_some() => Some(Ok(answer)),
            Ok(answer) => {
                let end = prompt.end.as_ref().map(|idle| end_of_turn(idle, &answer));
                prompt.accepted = Some(answer);
                end
            }
        };
        if let Some(end) = end {
            session.prompts.remove(index).reply.send(end);
        }
        self.remove_unused(name);
    }

    /// The agent reports a state.
    pub(crate) fn on_state(&mut self, name: &str, is_idle: bool, update: &Json) {
        let Some(session) = self.0.get_mut(name) else { return };
        session.is_busy = !is_idle;
        if !is_idle {
            session.held.clear();
            session.prompts.iter_mut().for_each(|it| (it.has_worked, it.end) = (true, None));
            return;
        }
        // An idle update before the prompt is accepted belongs to an earlier turn, unless the agent was busy in between.
        for prompt in session.prompts.iter_mut().filter(|it| it.accepted.is_none() && it.has_worked)
        {
            prompt.end = Some(update.detached());
        }
        for prompt in session.prompts.extract_if(.., |it| it.accepted.is_some()) {
            let accepted = prompt.accepted.unwrap_or(Json::EMPTY_OBJECT);
            prompt.reply.send(end_of_turn(update, &accepted));
        }
        self.remove_unused(name);
    }

    /// Holds an idle update back if handlers work in its session. Returns it if not.
    pub(crate) fn hold(&mut self, name: &str, call: Call) -> Option<Call> {
        let session = self.0.get_mut(name).filter(|session| session.handlers > 0);
        let Some(session) = session else { return Some(call) };
        if session.held.len() == MAX_HELD {
            session.held.remove(0);
        }
        session.held.push(call.detached());
        None
    }

    /// The session is closed, which ends its turns.
    pub(crate) fn on_close(&mut self, name: &str) {
        let Some(session) = self.0.get_mut(name) else { return };
        for prompt in session.prompts.drain(..) {
            let cancelled = Json::trusted(r#"{"stopReason":"cancelled"}"#);
            prompt
                .reply
                .send(end_of_turn(&cancelled, &prompt.accepted.unwrap_or(Json::EMPTY_OBJECT)));
        }
        self.remove_unused(name);
    }

    /// A handler that has sent a prompt returns. Returns the idle updates that may go to the editor now, and whether
    /// the editor still needs an idle update.
    pub(crate) fn on_handler_end(&mut self, name: &str) -> (Vec<Call>, bool) {
        let Some(session) = self.0.get_mut(name) else { return (Vec::new(), true) };
        session.handlers = session.handlers.saturating_sub(1);
        if session.handlers > 0 {
            return (Vec::new(), false);
        }
        let held = std::mem::take(&mut session.held);
        let needs_end = held.is_empty() && !session.is_busy;
        self.remove_unused(name);
        (held, needs_end)
    }

    fn remove_unused(&mut self, name: &str) {
        let is_unused = |it: &SessionTurns| it.handlers == 0 && it.prompts.is_empty();
        if self.0.get(name).is_some_and(is_unused) {
            self.0.remove(name);
        }
    }
}

/// An idle update that ends a turn with the answer of its handler.
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

/// The update that reports that a turn runs.
pub(crate) fn running(session: &str) -> Call {
    let update = Json::object([
        ("sessionUpdate", Some(Json::string("state_update"))),
        ("state", Some(Json::string("running"))),
    ]);
    update_call(session, update)
}

/// The update that adds a prompt to the conversation.
pub(crate) fn user_message(prompt: &IncomingRequest, session: &str, id: &str) -> Call {
    let content = prompt.call.params.as_ref().and_then(|params| params.member("prompt"));
    let update = Json::object([
        ("sessionUpdate", Some(Json::string("user_message"))),
        ("messageId", Some(Json::string(id))),
        ("content", content),
    ]);
    update_call(session, update)
}

/// A `session/update`.
pub(crate) fn update_call(session: &str, update: Json) -> Call {
    let params = [("sessionId", Some(Json::string(session))), ("update", Some(update))];
    Call::new("session/update", Json::object(params))
}

/// The held updates. The last one ends the turn with the answer of the handler.
pub(crate) fn with_end(mut held: Vec<Call>, outcome: &Result<Json>) -> Vec<Call> {
    let Some(last) = held.last_mut() else { return held };
    let Some(params) = &last.params else { return held };
    let path = ["update", "stopReason"];
    let agent_reason = params.at(&path);
    let changed = match outcome {
        Ok(answer) => answer.member("stopReason").filter(|it| match &agent_reason {
            Some(reason) => it.text() != reason.text(),
            // The handler got this reason because the agent gave none.
            None => it.text().as_deref() != Some("end_turn"),
        }),
        // The agent's reason stays. The failure of the handler is logged.
        Err(_) => None,
    };
    if let Some(reason) = changed {
        last.params = Some(params.with_at(&path, Some(&reason)));
    }
    held
}
