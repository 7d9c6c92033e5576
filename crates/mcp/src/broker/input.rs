//! What a server wants to know of its client before it can answer.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use router::Seat;

use super::inputs::Input;
use super::talk::*;
use super::{Broker, Cx, LIMIT, Step, has_limit};
use crate::form::{Address, Answer, Form};
use crate::ids::Purpose;
use crate::stateless;

impl Broker {
    /// A stateless server wants to know something before it answers.
    pub(super) fn ask_consumer(
        &mut self,
        mut input: Input,
        questions: Vec<(String, Call)>,
        cx: &mut Cx<'_>,
    ) {
        let Some(talk) = self.talks.get(input.talk) else { return };
        let (seat, consumer, server) = (talk.seat, talk.consumer.clone(), talk.server.clone());
        for (question, call) in questions {
            let number = self.ids.fresh();
            let id = self.ids.id(Purpose::Input, number);
            let Some(call) = to_consumer(&consumer, &server, Some(&id), &call) else { continue };
            input.answers.push((number, question, None));
            let message = Message::Request { id, call };
            cx.out.push(Step::Inject { from: seat, toward: Side::Agent, message });
        }
        if input.answers.is_empty() {
            return self.answer_server(input, cx);
        }
        let number = self.ids.fresh();
        self.inputs.insert(number, input);
    }

    /// Repeats a request to a stateless server, with what it wanted to know.
    pub(super) fn answer_server(&mut self, input: Input, cx: &mut Cx<'_>) {
        let answers =
            input.answers.into_iter().filter_map(|(_, name, answer)| Some((name, answer?)));
        let answers: Vec<(String, Json)> = answers.collect();
        let call = stateless::again(&input.call, &answers, input.state.as_ref());
        let (id, inner) = (Some(input.id), input.inner);
        let until = has_limit(&call).then(|| cx.now.plus(LIMIT));
        let item = Item { id, inner, request: String::new(), call, original: None, until };
        self.say_detached(input.talk, item, input.rounds + 1, cx);
    }

    /// A consumer's answer is to be delivered to a provider. What it returns is.
    pub(super) fn on_consumer_answer(
        &mut self,
        seat: Seat,
        id: &Id,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        if let Some(number) = self.ids.number(Purpose::Input, id) {
            self.on_input(number, outcome, cx);
            return None;
        }
        let Some(reversed) = self.inputs.take_reversed(seat, id) else { return Some(outcome) };
        let address = Address { server: &reversed.server, connection: "", request: "" };
        let answer = reversed.consumer.open(outcome);
        Some(reversed.provider.close(address, reversed.inner.as_ref(), answer))
    }

    pub(super) fn on_input(&mut self, number: u64, outcome: Outcome, cx: &mut Cx<'_>) {
        let Some(talk) = self.inputs.talk_of(number) else { return };
        let form = self.talks.get(talk).map_or(Form::M3, |talk| match &talk.consumer {
            Consumer::Connection { form, .. } | Consumer::Server { form, .. } => *form,
            Consumer::Stateless => Form::M7,
        });
        match form.open(outcome) {
            Answer::FromServer(Outcome::Result(result)) => {
                if let Some(input) = self.inputs.answered(number, &result) {
                    self.answer_server(input, cx);
                }
            }
            Answer::FromServer(Outcome::Error(error)) | Answer::NotDelivered(error) => {
                // The client will not say: that is the end of the operation.
                let Some(input) = self.inputs.refused(number) else { return };
                let Some(talk) = self.talks.get(input.talk) else { return };
                take_back(&self.ids, talk.seat, &input, cx);
                let Some(server) = self.registry.get(&talk.server) else { return };
                let said = Answer::FromServer(Outcome::Error(error));
                let outcome = close(talk, server, input.inner.as_ref(), said);
                answer(talk.seat, input.id, outcome, cx);
            }
        }
    }
}
