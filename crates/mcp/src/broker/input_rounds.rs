//! Rounds of input: a stateless server sends requests to its client before it answers.

use acp_wire::{Call, Id, Json, Message, Outcome, Side};
use router::Seat;

use super::connection::*;
use super::input_requests::PendingInput;
use super::{ANSWER_TIMEOUT, Action, Broker, Context, has_timeout};
use crate::form::{Address, Answer, Form};
use crate::ids::Purpose;
use crate::stateless;

impl Broker {
    /// Sends the input requests of a stateless server to the consumer.
    pub(super) fn ask_consumer(
        &mut self,
        mut input: PendingInput,
        requests: Vec<(String, Call)>,
        cx: &mut Context<'_>,
    ) {
        let Some(connection) = self.connections.get(input.connection) else { return };
        let (seat, consumer, server) =
            (connection.seat, connection.consumer.clone(), connection.server.clone());
        for (name, call) in requests {
            let number = self.ids.next_number();
            let id = self.ids.id(Purpose::Input, number);
            let Some(call) = encode_call_for(&consumer, &server, Some(&id), &call) else {
                continue;
            };
            input.answers.push((number, name, None));
            let message = Message::Request { id, call };
            cx.out.push(Action::Inject { from: seat, toward: Side::Agent, message });
        }
        if input.answers.is_empty() {
            return self.answer_server(input, cx);
        }
        let number = self.ids.next_number();
        self.input_requests.insert(number, input);
    }

    /// Repeats a request to a stateless server, with the input that it requested.
    pub(super) fn answer_server(&mut self, input: PendingInput, cx: &mut Context<'_>) {
        let answers =
            input.answers.into_iter().filter_map(|(_, name, answer)| Some((name, answer?)));
        let answers: Vec<(String, Json)> = answers.collect();
        let call = stateless::with_input_responses(&input.call, &answers, input.state.as_ref());
        let (id, inner_id) = (Some(input.id), input.inner_id);
        let deadline = has_timeout(&call).then(|| cx.now.plus(ANSWER_TIMEOUT));
        let message = ConsumerMessage {
            id,
            inner_id,
            request_id: String::new(),
            call,
            original: None,
            deadline,
        };
        self.send_to_stateless_server(input.connection, message, input.rounds + 1, cx);
    }

    /// Handles the answer of a consumer that is delivered to a provider. Returns the outcome that
    /// goes on.
    pub(super) fn on_consumer_answer(
        &mut self,
        seat: Seat,
        id: &Id,
        outcome: Outcome,
        cx: &mut Context<'_>,
    ) -> Option<Outcome> {
        if let Some(number) = self.ids.number(Purpose::Input, id) {
            self.on_input_answer(number, outcome, cx);
            return None;
        }
        let Some(translation) = self.input_requests.take_translation(seat, id) else {
            return Some(outcome);
        };
        let address = Address { server: &translation.server, connection_id: "", request_id: "" };
        let answer = translation.consumer.decode_answer(outcome);
        Some(translation.provider.encode_answer(address, translation.inner_id.as_ref(), answer))
    }

    /// Handles the answer to an input request.
    pub(super) fn on_input_answer(&mut self, number: u64, outcome: Outcome, cx: &mut Context<'_>) {
        let Some(connection) = self.input_requests.connection_of(number) else { return };
        let form =
            self.connections.get(connection).map_or(Form::M3, |connection| {
                match &connection.consumer {
                    Consumer::Connection { form, .. } | Consumer::Server { form, .. } => *form,
                    Consumer::Stateless => Form::M7,
                }
            });
        match form.decode_answer(outcome) {
            Answer::FromServer(Outcome::Result(result)) => {
                if let Some(input) = self.input_requests.answered(number, &result) {
                    self.answer_server(input, cx);
                }
            }
            Answer::FromServer(Outcome::Error(error)) | Answer::NotDelivered(error) => {
                // The client refuses, so the original request fails.
                let Some(input) = self.input_requests.refused(number) else { return };
                let Some(connection) = self.connections.get(input.connection) else { return };
                cancel_input_requests(&self.ids, connection.seat, &input, cx);
                let Some(server) = self.registry.get(&connection.server) else { return };
                let mcp_answer = Answer::FromServer(Outcome::Error(error));
                let outcome =
                    encode_answer_for(connection, server, input.inner_id.as_ref(), mcp_answer);
                answer(connection.seat, input.id, outcome, cx);
            }
        }
    }
}
