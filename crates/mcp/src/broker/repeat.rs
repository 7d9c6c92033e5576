//! Retries and time limits of requests to a provider.
//!
//! Some old SDKs (sacp 10) lose the answer to a request that arrives right behind
//! `notifications/initialized`. So a request that may be asked twice is asked again when its provider
//! stays silent, and the first answer counts. If no answer comes at all, the consumer gets an error
//! that names the provider. All other requests, such as `tools/call`, are sent once and have no limit.
//!
//! `initialize` is sent once on each connection: MCP servers (rmcp) exit when they get a second one.
//! It is asked again on a new connection; see [`spare`](super::spare).

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::{Diagnostic, Level, Seat, Time};

use super::question::{Question, Then};
use super::questions::{Repeat, What};
use super::talk::*;
use super::{Broker, Cx, Step};
use crate::form::{Answer, Target};
use crate::stateless::{DISCOVER, INITIALIZE, PING};

/// How long a provider may stay silent altogether, in milliseconds. MCP clients of most agents wait
/// 30 s; their users should see our error, which names the provider, and not just a timeout.
pub(crate) const LIMIT: u64 = 25_000;

/// How long the answer to a connect that is not needed any more is waited for, so that the connection
/// can be closed.
pub(super) const LATE: u64 = 600_000;

/// Whether asking a server twice, on one connection, does what asking it once does.
pub(crate) fn may_repeat(call: &Call) -> bool {
    let method = call.method.name();
    method == PING || method == DISCOVER || method.ends_with("/list")
}

/// Whether a request has to be answered within [`LIMIT`].
pub(crate) fn has_limit(call: &Call) -> bool {
    may_repeat(call) || call.is(INITIALIZE)
}

/// The error for a client whose server has not answered.
pub(crate) fn silence(provider: &str, method: &str, server: &str) -> Json {
    let why = format!(
        "{provider} did not answer {method} for its MCP server '{server}' within {} s; go on without \
         this server, or restart the chain",
        LIMIT / 1000
    );
    error_object(code::INTERNAL_ERROR, &why, None)
}

impl Broker {
    /// Whether a request, or a retry of one, is sent again if it is not answered. For tests.
    pub fn is_retried(&self, seat: Seat, id: &Id) -> bool {
        self.questions.is_repeated(&(seat, id.clone()))
    }

    /// A provider has answered. Gives the id of the question that this decides: the id itself, or that
    /// of the first try. `None` for an answer that decides nothing.
    pub(super) fn first_try(
        &mut self,
        seat: Seat,
        id: Id,
        outcome: &Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Id> {
        let key = (seat, id.clone());
        let copy = self.questions.first_of(&key).cloned();
        let first = (seat, copy.clone().unwrap_or_else(|| key.1.clone()));
        let Some(repeat) = self.questions.repeat(&first) else { return Some(id) };
        let failed = matches!(outcome, Outcome::Error(_));
        if copy.is_some() && matches!(repeat.what, What::Initialize { .. }) && failed {
            repeat.refused = Some(outcome.clone());
            return None;
        }
        let repeat = self.questions.forget_repeat(&first)?;
        match repeat.what {
            What::Connect { .. } => {
                if let Some(question) = self.questions.take_question(&first) {
                    self.expect_late(cx.now, &first, repeat.copies, question, Some(&key.1));
                }
                Some(id)
            }
            What::Initialize { .. } => {
                self.choose_connection(&first, repeat, &key.1, cx);
                Some(first.1.clone())
            }
            What::Say { .. } => Some(first.1.clone()),
        }
    }

    /// Of several connects one has been answered, or none in time. It takes over the question; the
    /// connections that the others open are closed.
    pub(super) fn expect_late(
        &mut self,
        now: Time,
        first: &(Seat, Id),
        copies: Vec<(Id, String)>,
        question: Question,
        answered: Option<&Id>,
    ) {
        let Question::Connect { talk, form, asked, alike, chosen } = question else { return };
        let tries = copies.into_iter().chain([(first.1.clone(), chosen)]);
        for (id, chosen) in tries {
            let key = (first.0, id);
            if answered == Some(&key.1) {
                let (asked, alike) = (asked.clone(), alike && key == *first);
                let question = Question::Connect { talk, form, asked, alike, chosen };
                self.questions.put(key, question, None);
            } else {
                self.questions.put(key, Question::Late { form, chosen }, Some(now.plus(LATE)));
            }
        }
    }

    /// What a provider says of a retry is about the first try.
    pub(super) fn about_first_try(&self, seat: Seat, target: Target, call: Call) -> (Target, Call) {
        let Target::Operation { server, request } = target else { return (target, call) };
        let firsts = self.questions.first_by_tag(seat, &request);
        let found = firsts.into_iter().find_map(|first| self.request_of(seat, first));
        let Some(request) = found else {
            return (Target::Operation { server, request }, call);
        };
        let params = call.params.map(|it| it.with_member("requestId", &Json::string(&request)));
        (Target::Operation { server, request }, Call { params, ..call })
    }

    /// The `requestId` of a question.
    fn request_of(&self, seat: Seat, id: &Id) -> Option<String> {
        match self.questions.get(&(seat, id.clone()))? {
            Question::Say { request, .. }
            | Question::Trial { request, .. }
            | Question::Passed { request, .. } => Some(request.clone()),
            _ => None,
        }
    }

    /// Does what is due: gives up, or asks again.
    pub(super) fn talks_tick(&mut self, cx: &mut Cx<'_>) {
        for key in self.questions.take_overdue(cx.now) {
            self.give_up(key, cx);
        }
        self.give_up_waiting(cx);
        for first in self.questions.take_retries(cx.now) {
            self.ask_again(first, cx);
        }
    }

    fn ask_again(&mut self, first: (Seat, Id), cx: &mut Cx<'_>) {
        let number = self.ids.fresh();
        let id = Id::string(&format!("m:{number}"));
        self.questions.await_retry(cx.now, &first);
        let Some(repeat) = self.questions.repeat(&first) else { return };
        let (call, tag) = repeat.what.again(number, &id);
        let seat = first.0;
        if let What::Initialize { form, .. } = repeat.what {
            return self.open_spare(first, (id, form, tag), call, cx);
        }
        self.questions.add_copy(&first, &id, tag);
        let text = format!(
            "{} is silent: {} is sent again",
            self.chain.describe(seat),
            call.method.name()
        );
        cx.out.push(Step::Report(Diagnostic { level: Level::Debug, seat, text }));
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    /// A provider has stayed silent for too long.
    fn give_up(&mut self, key: (Seat, Id), cx: &mut Cx<'_>) {
        self.questions.lift_limit(&key);
        let repeat = self.questions.forget_repeat(&key);
        if let Some(repeat) = &repeat {
            self.close_spares(key.0, repeat, cx);
        }
        let Some(question) = self.questions.take_question(&key) else { return };
        let (seat, id) = (key.0, key.1.clone());
        let server = question.talk().and_then(|talk| self.talks.get(talk));
        let server = match &question {
            Question::Trial { server, .. } | Question::Passed { server, .. } => {
                Some(server.clone())
            }
            _ => server.map(|talk| talk.server.clone()),
        };
        let server = server.and_then(|key| self.registry.get(&key)).map(|it| it.name.clone());
        let server = &server.unwrap_or_default();
        let method = match (&repeat, &question) {
            (Some(Repeat { what: What::Say { call, .. }, .. }), _) => {
                call.method.name().into_owned()
            }
            (_, Question::Hello { .. }) => INITIALIZE.to_owned(),
            (_, Question::Say { call, .. }) if call.is(INITIALIZE) => INITIALIZE.to_owned(),
            _ => "a request".to_owned(),
        };
        let error = silence(&self.chain.describe(seat), &method, server);
        let refused = repeat.as_ref().and_then(|repeat| repeat.refused.clone());
        let outcome = refused.unwrap_or_else(|| Outcome::Error(error.clone()));
        match question {
            Question::LateHello { .. }
            | Question::Late { .. }
            | Question::Spare { .. }
            | Question::Goodbye => {}
            Question::Connect { talk, ref asked, .. } => {
                let asked = asked.clone();
                let copies = repeat.map(|repeat| repeat.copies).unwrap_or_default();
                self.expect_late(cx.now, &key, copies, question, None);
                let error = silence(&self.chain.describe(seat), "the request to connect", server);
                self.on_closed(talk, asked, &error, cx);
            }
            Question::Discover { talk, then: Then::Open { asked } } => {
                self.on_closed(talk, asked, &error, cx);
            }
            Question::Discover { talk, then: Then::Hello { id, inner } } => {
                let outcome = self.failure(talk, inner.as_ref(), &error);
                answer(seat, id, outcome, cx);
            }
            Question::Hello { talk, .. } => self.on_hello(talk, outcome, cx),
            Question::Say { talk, form, inner, request, call, .. } => {
                self.operations.take(seat, request);
                if call.is(INITIALIZE) {
                    if let Some(talk) = self.talks.get_mut(talk) {
                        talk.unanswered = true;
                    }
                    let late = Question::LateHello { talk, form, call };
                    self.questions.expect(cx.now, (seat, &id), late, Some(cx.now.plus(LATE)), None);
                }
                let Outcome::Error(error) = outcome else { return };
                let outcome = self.failure(talk, inner.as_ref(), &error);
                answer(seat, id, outcome, cx);
            }
            Question::Trial { .. } | Question::Passed { .. } => {
                answer(seat, id, Outcome::Error(backend_failed(&error)), cx);
            }
        }
    }

    /// Answers requests that have waited for too long to be said to the provider at all.
    fn give_up_waiting(&mut self, cx: &mut Cx<'_>) {
        for (number, item) in self.talks.take_late(cx.now) {
            let (Some(id), Some(talk)) = (item.id, self.talks.get(number)) else { continue };
            let seat = talk.seat;
            let server = self.registry.get(&talk.server).map_or("", |server| &server.name);
            let provider = self.chain.describe(seat);
            let error = silence(&provider, &item.call.method.name(), server);
            let outcome = self.failure(number, item.inner.as_ref(), &error);
            answer(seat, id, outcome, cx);
        }
    }

    /// The answer to a consumer whose request the server has not answered.
    fn failure(&self, talk: u64, inner: Option<&Id>, error: &Json) -> Outcome {
        let talk = self.talks.get(talk);
        let server = talk.and_then(|talk| self.registry.get(&talk.server));
        match (talk, server) {
            (Some(talk), Some(server)) if !matches!(talk.consumer, Consumer::Stateless) => {
                close(talk, server, inner, Answer::FromServer(Outcome::Error(error.clone())))
            }
            _ => Outcome::Error(backend_failed(error)),
        }
    }
}
