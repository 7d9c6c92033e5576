//! How questions and conversations end before they are answered.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use router::Seat;

use super::question::{Question, Then};
use super::talk::*;
use super::{Broker, Cx, Step};
use crate::bridge::cancel;
use crate::form::{Address, Direction, Form};
use crate::stateless::CANCELLED;

impl Broker {
    /// A request that was delivered to a provider is cancelled. An MCP server with connections wants
    /// to be told in MCP's own words, too; then it does not answer, and we do. True if the provider
    /// does not know of the request.
    pub(super) fn on_cancel(&mut self, seat: Seat, id: &Id, cx: &mut Cx<'_>) -> bool {
        if self.cancel_opening(seat, id, cx) {
            return true;
        }
        let key = (seat, id.clone());
        let copies = self.stop_repeating(&key, cx);
        for copy in &copies {
            deliver(seat, Side::Editor, cancel(copy), cx);
        }
        if !matches!(self.questions.get(&key), Some(Question::Say { .. })) {
            return self.cancel_waiting(seat, id, cx);
        }
        let Some(Question::Say { talk, form, inner, request, .. }) =
            self.questions.take_question(&key)
        else {
            return false;
        };
        self.questions.lift_limit(&key);
        self.operations.take(seat, request);
        if let Some(talk) = self.talks.get(talk)
            && let State::Open { connection, .. } = &talk.state
            && let Some(server) = self.registry.get(&talk.server)
        {
            let known_as = inner.filter(|_| talk.is_alike(server)).unwrap_or_else(|| id.clone());
            let address = Address { server: server.address(form), connection, request: "" };
            for id in [known_as].iter().chain(&copies) {
                let params = Json::object([("requestId", Some(id.json().clone()))]);
                let said =
                    form.say(Direction::ToServer, address, None, &Call::new(CANCELLED, params));
                deliver(seat, Side::Editor, Message::Notification(said), cx);
            }
        }
        answer(seat, id.clone(), cancelled(), cx);
        false
    }

    /// The same for a connect: what is opened nevertheless is closed.
    fn cancel_opening(&mut self, seat: Seat, id: &Id, cx: &mut Cx<'_>) -> bool {
        let opens = |talk: &Talk| talk.seat == seat && matches!(talk.state, State::Opening(_));
        if !self.talks.any(opens) {
            return false;
        }
        let found = self.questions.iter().find_map(|((whose, _), question)| {
            let asked = *whose == seat && question.asked() == Some(id);
            question.talk().filter(|_| asked)
        });
        let Some(talk) = found.and_then(|it| self.end_talk(it, &cancellation(), cx)) else {
            return false;
        };
        self.drop_if_unused(&talk.server, cx);
        true
    }

    /// The same for a request that has not been said to the provider yet, or not again.
    fn cancel_waiting(&mut self, seat: Seat, id: &Id, cx: &mut Cx<'_>) -> bool {
        let waits = |item: &Item| item.id.as_ref() == Some(id);
        let here = self.talks.numbers(|talk| talk.seat == seat);
        let found = here.iter().find_map(|number| {
            let waiting = self.talks.get_mut(*number)?.waiting_mut()?;
            waiting.iter().position(waits).map(|index| waiting.remove(index))
        });
        let inputs = self.inputs.take(|it| it.id == *id && here.contains(&it.talk));
        for input in &inputs {
            take_back(&self.ids, seat, input, cx);
        }
        let known = found.is_some() || !inputs.is_empty();
        if known {
            answer(seat, id.clone(), cancelled(), cx);
        }
        known
    }

    /// A consumer ends a conversation, perhaps with a request.
    pub(super) fn close_talk(&mut self, number: u64, asked: Option<Id>, cx: &mut Cx<'_>) {
        let Some(talk) = self.end_talk(number, &closed(), cx) else { return };
        if let State::Open { form, connection } | State::Greeting { form, connection, .. } =
            &talk.state
        {
            self.say_goodbye(talk.seat, *form, connection, cx);
        }
        if let Some(id) = asked {
            answer(talk.seat, id, Outcome::Result(Json::EMPTY), cx);
        }
        self.drop_if_unused(&talk.server, cx);
    }

    /// Closes a connection to a provider, if it is one.
    pub(super) fn say_goodbye(
        &mut self,
        seat: Seat,
        form: Form,
        connection: &str,
        cx: &mut Cx<'_>,
    ) {
        if !form.connects() {
            return;
        }
        match form.disconnect(connection) {
            (call, true) => {
                self.ask(seat, Question::Goodbye, call, None, cx);
            }
            (call, false) => deliver(seat, Side::Editor, Message::Notification(call), cx),
        }
    }

    pub(super) fn remove_talk(&mut self, number: u64) -> Option<Talk> {
        self.operations.forget_talk(number);
        self.talks.remove(number)
    }

    /// A conversation is over: whoever waits for an answer gets this one.
    pub(super) fn end_talk(&mut self, number: u64, error: &Json, cx: &mut Cx<'_>) -> Option<Talk> {
        let mut talk = self.remove_talk(number)?;
        let seat = talk.seat;
        let mut waiting: Vec<Id> = Vec::new();
        waiting.extend(talk.waiting_mut().into_iter().flatten().filter_map(|it| it.id.take()));
        for input in self.inputs.take(|it| it.talk == number) {
            take_back(&self.ids, seat, &input, cx);
            waiting.push(input.id);
        }
        for (key, question) in self.questions.take_all(|it| it.talk() == Some(number)) {
            match question {
                Question::Connect { ref asked, .. } => {
                    waiting.extend(asked.clone());
                    let repeat = self.questions.forget_repeat(&key);
                    let copies = repeat.map(|repeat| repeat.copies).unwrap_or_default();
                    self.expect_late(cx.now, &key, copies, question, None);
                    continue;
                }
                Question::Discover { then: Then::Open { asked }, .. } => waiting.extend(asked),
                Question::Discover { then: Then::Hello { id, .. }, .. } => waiting.push(id),
                Question::Say { form, .. } => {
                    let id = key.1.clone();
                    let copies = self.stop_repeating(&key, cx);
                    if form == Form::M7 {
                        deliver(seat, Side::Editor, cancel(&id), cx);
                        for copy in copies {
                            deliver(seat, Side::Editor, cancel(&copy), cx);
                        }
                    }
                    waiting.push(id);
                }
                Question::Hello { .. }
                | Question::LateHello { .. }
                | Question::Trial { .. }
                | Question::Passed { .. }
                | Question::Late { .. }
                | Question::Spare { .. }
                | Question::Goodbye => {}
            }
            self.questions.lift_limit(&key);
            self.stop_repeating(&key, cx);
        }
        for id in waiting {
            answer(seat, id, Outcome::Error(error.clone()), cx);
        }
        Some(talk)
    }

    /// A conversation is over for a consumer that believes it open, and is told.
    pub(super) fn dismiss(&mut self, number: u64, error: &Json, cx: &mut Cx<'_>) -> Option<Talk> {
        let told = self.talks.is_told(number);
        let talk = self.end_talk(number, error, cx)?;
        if let Consumer::Connection { form, id } = &talk.consumer
            && told
        {
            let message = Message::Notification(form.disconnect(id).0);
            cx.out.push(Step::Inject { from: talk.seat, toward: Side::Agent, message });
        }
        Some(talk)
    }

    /// Ends the conversations about a server. Those of the bridge's clients end by themselves, once
    /// they are open and the client knows.
    pub(super) fn close_talks_of(&mut self, server: &str, cx: &mut Cx<'_>) {
        let (bridged, far) = (self.bridge.native().is_none(), self.far);
        let ends_itself = |talk: &Talk| {
            bridged
                && matches!(talk.consumer, Consumer::Connection { .. })
                && !matches!(talk.state, State::Opening(_))
                && talk.told_to == far
        };
        for number in self.talks.numbers(|it| it.server == server && !ends_itself(it)) {
            self.close_talk(number, None, cx);
        }
    }
}
