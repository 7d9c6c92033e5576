//! Prompts of ACP version 2: their answers are not the end of the turn.

use acp_proxy_core::{Id, IncomingRequest, Json, Outbox, Outcome, RequestKey, Side};
use acp_wire::acp::{self, SessionId, session_of_call};

use super::{Dispatcher, OnAnswer};
use crate::error::Result;
use crate::oneshot::Sender;
use crate::turn::{self, HandledPrompt};

impl Dispatcher {
    /// A handler has sent a prompt to the agent and waits for the end of the turn.
    pub(super) fn begin_turn(
        &mut self,
        session: SessionId,
        key: RequestKey,
        parent: Option<&Id>,
        is_extra: bool,
        reply: Sender<Result<Json>>,
    ) -> OnAnswer {
        let prompt = parent.and_then(|parent| self.prompts.get_mut(parent));
        let prompt = prompt.filter(|it| it.session == session);
        let is_first = prompt.is_some_and(|it| !std::mem::replace(&mut it.is_sent, true));
        self.turns.on_sent(&session, key, is_first, reply);
        OnAnswer::AcceptPrompt { session, is_extra }
    }

    /// The agent has accepted a prompt. Accepts the editor's prompt, unless the accepted one is an extra prompt.
    pub(super) fn accept(
        &mut self,
        parent: &Id,
        is_extra: bool,
        answer: &Json,
        out: &mut Outbox<'_>,
    ) {
        let Some(prompt) = self.prompts.get_mut(parent) else { return };
        if is_extra {
            prompt.extra_answer = Some(answer.detached());
        } else if let Some(request) = prompt.request.take() {
            out.answer(request, Outcome::Result(answer.clone()));
        }
    }

    /// The handler of a prompt has returned. Sends the editor what it still needs: the acceptance of the prompt, and
    /// the end of the turn.
    pub(super) fn finish_turn(&mut self, id: &Id, result: Result<Json>, out: &mut Outbox<'_>) {
        self.shared.cancellations.borrow_mut().remove(id);
        let Some(prompt) = self.prompts.remove(id) else { return };
        let HandledPrompt { session, request, is_sent, extra_answer } = prompt;
        if !self.prompts.values().any(|it| it.session == session) {
            self.shared.message_ids.borrow_mut().remove(&session);
        }
        let is_refused = match (&result, &request) {
            (Err(why), None) => {
                // The text may quote the conversation, so only the editor gets it.
                let code = why.code().unwrap_or_default();
                let line =
                    format!("a turn failed after its prompt was accepted, with error {code}");
                self.shared.log(&line);
                false
            }
            (Err(_), Some(_)) => true,
            (Ok(_), _) => false,
        };
        match (request, &result) {
            (Some(request), Err(why)) => out.answer(request, why.clone().into_outcome()),
            (Some(request), Ok(_)) => match extra_answer {
                Some(answer) => out.answer(request, Outcome::Result(answer)),
                None => self.accept_without_agent(request, &session, out),
            },
            (None, _) => {}
        }
        let (held, needs_end) = match is_sent {
            true => self.turns.on_handler_end(&session),
            false => (Vec::new(), !is_refused),
        };
        for call in turn::with_end(held, &result) {
            self.notify(Side::Editor, call, out);
        }
        if needs_end && !is_refused {
            self.notify(Side::Editor, turn::idle(&session, &result), out);
        }
        self.end_prompt(id, false);
    }

    /// Accepts a prompt that no agent has accepted, and adds it to the conversation.
    pub(super) fn accept_without_agent(
        &self,
        request: IncomingRequest,
        session: &str,
        out: &mut Outbox<'_>,
    ) {
        let id = self.shared.new_id();
        self.notify(Side::Editor, turn::user_message(&request, session, &id), out);
        let answer = Json::object([("messageId", Some(Json::string(&id)))]);
        out.answer(request, Outcome::Result(answer));
    }

    /// Keeps a prompt of ACP version 2, whose answer is not the end of the turn. Returns any other request.
    pub(super) fn keep_prompt(
        &mut self,
        from: Side,
        request: IncomingRequest,
        out: &mut Outbox<'_>,
    ) -> Option<IncomingRequest> {
        let is_turn =
            self.shared.reads_turns() && from == Side::Editor && request.call.is(acp::PROMPT);
        let session = session_of_call(&request.call).filter(|_| is_turn);
        let Some(session) = session else { return Some(request) };
        let id = request.id().detached();
        let message_id = self.shared.new_id();
        let mut prompt = HandledPrompt {
            session: session.clone(),
            request: None,
            is_sent: false,
            extra_answer: None,
        };
        match self.shared.is_agent {
            // An agent accepts the prompt at once.
            true => {
                self.accept_without_agent(request, &session, out);
                self.notify(Side::Editor, turn::running(&session), out);
            }
            false => prompt.request = Some(request),
        }
        self.shared.message_ids.borrow_mut().insert(session, message_id);
        self.prompts.insert(id, prompt);
        None
    }
}
