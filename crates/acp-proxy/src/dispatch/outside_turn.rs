//! Messages outside of a turn: keeps track of the turns of each session, and performs what waits for their end.

use acp_proxy_core::{Id, IncomingRequest, Json, Outbox, Outcome, Side};
use acp_wire::acp::{self, session_of_call};
use acp_wire::code;

use super::Dispatcher;
use crate::context::Context;
use crate::turn;

impl Dispatcher {
    /// A request has arrived. Returns it, unless it is a prompt that has to wait for a turn of the component.
    pub(super) fn admit(&self, from: Side, request: IncomingRequest) -> Option<IncomingRequest> {
        let call = &request.call;
        if from != Side::Editor {
            return Some(request);
        }
        if call.is(acp::INITIALIZE) {
            self.shared.activity.on_initialize(call);
            self.shared.remember_capabilities(call.params.as_ref());
        }
        let session = session_of_call(call).filter(|_| call.is(acp::PROMPT));
        let Some(session) = session else { return Some(request) };
        let (request, texts) = self.shared.activity.admit(&session, request);
        let editor = Context::new(self.shared.clone()).editor();
        for text in texts {
            // A text can always be written as JSON.
            drop(editor.say(&session, text));
        }
        request
    }

    /// A prompt of the editor was answered.
    pub(super) fn on_prompt_answered(&self, id: &Id, outcome: &Outcome) {
        let is_accepted = match outcome {
            Outcome::Result(result) => self.shared.is_v2() && result.member("stopReason").is_none(),
            Outcome::Error(_) => false,
        };
        self.end_prompt(id, is_accepted);
    }

    /// A prompt of the editor is over, or it was accepted and the turn continues.
    pub(super) fn end_prompt(&self, id: &Id, is_accepted: bool) {
        if let Some(session) = self.shared.activity.on_answer(id, is_accepted) {
            self.settle(&session);
        }
    }

    /// Performs what waits until the session is idle.
    pub(super) fn settle(&self, session: &str) {
        let editor = Context::new(self.shared.clone()).editor();
        for text in self.shared.activity.settle(session, &self.shared) {
            drop(editor.say(session, text));
        }
    }

    /// A turn of the component is over: the prompts that have waited go on.
    pub(super) fn end_own_turn(&mut self, session: &str, out: &mut Outbox<'_>) {
        let held = self.shared.activity.take_held(session);
        self.shared.activity.end_own_turn(session);
        for request in held {
            acp_proxy_core::Proxy::on_request(self, Side::Editor, request, out);
        }
        self.settle(session);
    }

    /// The editor cancels the turn of a session. Prompts that wait for a turn of the component end with it.
    pub(super) fn cancel_held(&self, session: &str, out: &mut Outbox<'_>) {
        let held = self.shared.activity.take_held(session);
        held.into_iter().for_each(|request| self.answer_cancelled(request, session, out));
    }

    /// Ends a prompt that the agent has not received.
    pub(super) fn answer_cancelled(
        &self,
        request: IncomingRequest,
        session: &str,
        out: &mut Outbox<'_>,
    ) {
        let cancelled = Json::trusted(r#"{"stopReason":"cancelled"}"#);
        match self.shared.is_v2() {
            true => {
                self.accept_without_agent(request, session, out);
                self.notify(Side::Editor, turn::idle(session, &Ok(cancelled)), out);
            }
            false => out.answer(request, Outcome::Result(cancelled)),
        }
    }

    /// The editor cancels a prompt that waits for a turn of the component. Returns whether there is one.
    pub(super) fn cancel_held_prompt(&self, id: &Id, out: &mut Outbox<'_>) -> bool {
        let Some(request) = self.shared.activity.take_held_prompt(id) else { return false };
        out.answer(request, Outcome::error(code::CANCELLED, "the request was cancelled"));
        true
    }
}
