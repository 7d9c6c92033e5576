//! What providers say: their answers, and what they say by themselves.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, code};
use router::Seat;

use super::inputs::{Input, Reversed};
use super::question::{Question, is_ignorance};
use super::server::Server;
use super::talk::*;
use super::{Broker, Cx, LIMIT, has_limit};
use crate::bridge::no_such;
use crate::form::{self, Address, Answer, Direction, Form, Frame, Target, connection_of};
use crate::stateless::{self, INITIALIZE, Stage};

/// What a consumer said, and under which id a provider has answered it.
struct Said<'a> {
    id: &'a Id,
    talk: u64,
    form: Form,
    inner: Option<Id>,
    call: Call,
    rounds: u8,
}

impl Broker {
    /// A provider has answered. What it returns goes on to the consumer.
    pub(super) fn on_provider_answer(
        &mut self,
        seat: Seat,
        id: &Id,
        question: Question,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        self.questions.lift_limit(&(seat, id.clone()));
        match question {
            Question::Connect { talk, form, asked, alike, chosen } => {
                self.on_connect_answer(seat, (talk, form, asked, alike), chosen, outcome, cx);
                None
            }
            Question::Discover { talk, then } => {
                self.on_discovered(talk, then, outcome, cx);
                None
            }
            Question::Hello { talk, form } => {
                match self.other_words(talk, form, true, &outcome) {
                    Some(_) => self.greet_otherwise(talk, cx),
                    None => self.on_hello(talk, outcome, cx),
                }
                None
            }
            Question::Say { talk, form, inner, request, call, rounds } => {
                let said = Said { id, talk, form, inner, call, rounds };
                self.on_said(seat, said, request, outcome, cx)
            }
            Question::Trial { server, inner, request, call } => {
                let id = Some(id.clone());
                let until = has_limit(&call).then(|| cx.now.plus(LIMIT));
                let item = Item { id, inner, request, call, original: None, until };
                self.on_trial_answer(&server, item, outcome, cx)
            }
            Question::Passed { .. } => Some(outcome),
            Question::LateHello { talk, form, call } => {
                if let Some(talk) = self.talks.get_mut(talk).filter(|_| form.is_good(&outcome)) {
                    talk.begins(&call);
                    talk.unanswered = false;
                }
                None
            }
            Question::Late { form, chosen } => {
                if let Outcome::Result(result) = &outcome {
                    let connection = connection_of(result).unwrap_or(chosen);
                    if self.talks.of_provider(seat, &connection).is_none() {
                        self.say_goodbye(seat, form, &connection, cx);
                    }
                }
                None
            }
            Question::Spare { first, form, chosen } => {
                self.on_spare((seat, first), (form, chosen), &outcome, cx);
                None
            }
            Question::Goodbye => None,
        }
    }

    /// A provider has answered a request to connect.
    fn on_connect_answer(
        &mut self,
        seat: Seat,
        (talk, form, asked, alike): (u64, Form, Option<Id>, bool),
        chosen: String,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        let found = match &outcome {
            Outcome::Result(result) => connection_of(result),
            Outcome::Error(_) => None,
        };
        // A provider that takes the id it was given, or names none, is of the form M3t.
        let chooses = matches!(form, Form::M2 | Form::M3 | Form::M3t);
        let taken = chooses
            && matches!(outcome, Outcome::Result(_))
            && found.as_ref().is_none_or(|it| *it == chosen);
        let form = if taken { Form::M3t } else { form };
        let theirs = self
            .talks
            .get(talk)
            .is_some_and(|it| matches!(it.consumer, Consumer::Connection { form: Form::M3t, .. }));
        match (found.or(taken.then_some(chosen)), outcome) {
            (Some(connection), Outcome::Result(result)) => {
                let result = (alike || taken && theirs).then_some(result);
                self.on_open(seat, talk, form, connection, asked, result, cx);
            }
            (_, outcome) => self.on_ignorance(talk, form, asked, outcome, cx),
        }
    }

    /// A provider has answered what its consumer said.
    fn on_said(
        &mut self,
        seat: Seat,
        said: Said<'_>,
        request: String,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        let Said { id, talk, form, inner, call, rounds } = said;
        let operation = self.operations.take(seat, request);
        let kept = !call.method.name().is_empty();
        let begins = call.is(INITIALIZE);
        if kept && self.other_words(talk, form, begins, &outcome).is_some() {
            let request = operation.map(|it| it.request).unwrap_or_default();
            let id = Some(id.clone());
            let item = Item { id, inner, request, call, original: None, until: None };
            self.say_otherwise(talk, item, cx);
            return None;
        }
        let Some(open) = self.talks.get_mut(talk) else { return Some(outcome) };
        if call.is(INITIALIZE) && form.is_good(&outcome) {
            open.begins(&call);
        }
        let open = &*open;
        let Some(server) = self.registry.get(&open.server) else { return Some(outcome) };
        match (&open.consumer, &open.state) {
            (Consumer::Stateless, _) => {
                let answer = match form.open(outcome) {
                    Answer::FromServer(said) => Answer::FromServer(stateless::completed(said)),
                    failed => failed,
                };
                Some(close(open, server, inner.as_ref(), answer))
            }
            (_, State::Stateless(_)) => {
                let said = Said { id, talk, form, inner, call, rounds };
                self.on_stateless_answer(said, outcome, cx)
            }
            (
                Consumer::Connection { form: theirs, .. } | Consumer::Server { form: theirs, .. },
                _,
            ) if theirs.talks_like(form) && !matches!(form, Form::M0 | Form::M1) => Some(outcome),
            _ => Some(close(open, server, inner.as_ref(), form.open(outcome))),
        }
    }

    /// A stateless server has answered what a consumer with a connection said: it may ask back.
    fn on_stateless_answer(
        &mut self,
        said: Said<'_>,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        let Said { id, talk, inner, call, rounds, .. } = said;
        let open = self.talks.get(talk)?;
        let State::Stateless(client) = &open.state else { return Some(outcome) };
        let server = self.registry.get(&open.server)?;
        let answered = match Form::M7.open(outcome) {
            Answer::FromServer(said) => said,
            Answer::NotDelivered(error) => Outcome::Error(not_mcp(&error)),
        };
        let stage = match stateless::stands_for_itself(&call) {
            // The client is of that version, too.
            true => Stage::Done(answered),
            false => stateless::stage(answered, client),
        };
        let why = match stage {
            Stage::Done(said) => {
                return Some(close(open, server, inner.as_ref(), Answer::FromServer(said)));
            }
            Stage::Asks { .. } if rounds >= ROUNDS => "the server asks back without end",
            Stage::Asks { .. } if call.method.name().is_empty() => {
                "the server asks back, and the request is too large to be repeated"
            }
            Stage::Asks { questions, state } => {
                let (id, answers) = (id.clone(), Vec::new());
                let input = Input { talk, id, call, inner, state, rounds, answers };
                self.ask_consumer(input, questions, cx);
                return None;
            }
        };
        let error = error_object(code::INTERNAL_ERROR, why, None);
        Some(close(open, server, inner.as_ref(), Answer::FromServer(Outcome::Error(error))))
    }

    /// A server has answered a stateless request, and so shown whether it is stateless.
    fn on_trial_answer(
        &mut self,
        server: &str,
        item: Item,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Option<Outcome> {
        let provider = self.registry.get_mut(server);
        if is_ignorance(&outcome) && provider.is_some_and(|it| it.rule_out(Form::M7).is_some()) {
            if stateless::would_connect(&item.call) {
                return Some(outcome);
            }
            self.say_stateless(server, item, cx);
            return None;
        }
        if let Some(server) = self.registry.get_mut(server) {
            server.settle(Form::M7);
        }
        Some(outcome)
    }

    /// A provider says something to its consumer. What it returns goes on.
    pub(super) fn on_provider(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        call: Call,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        let Some((form, word)) = form::read(&call) else { return Some(message(id, call)) };
        let (target, said, inner) = match word {
            Frame::Mcp { target, call, id } => (target, call, id),
            Frame::Disconnect { connection } => {
                let Some(number) = self.talks.of_provider(seat, &connection) else {
                    return Some(message(id, call));
                };
                return self.on_provider_disconnects(seat, id, number, cx);
            }
            Frame::Connect { .. } => return Some(message(id, call)),
        };
        let (target, call) = self.about_first_try(seat, target, call);
        let mut known_as = String::new();
        let number = match &target {
            Target::Connection(connection) => {
                known_as.clone_from(connection);
                self.talks.of_provider(seat, connection)
            }
            Target::Operation { request, .. } => self.operations.talk_of(seat, request),
            Target::Server(server) => {
                let whose = |talk: &Talk| {
                    talk.seat == seat
                        && self.registry.get(&talk.server).is_some_and(|it| it.native == *server)
                };
                let mut talks = self.talks.iter().filter(|(_, talk)| whose(talk));
                talks.next_back().map(|(number, _)| number)
            }
        };
        let Some(talk) = number.and_then(|number| self.talks.get(number)) else {
            if self.leads_nowhere(seat, form, &target) {
                let error = match &target {
                    Target::Connection(it) => no_such(&format!("connection '{it}'"), form),
                    _ => no_such("client that it could be for", form),
                };
                let message = Message::response(id?, Outcome::Error(error));
                deliver(seat, Side::Editor, message, cx);
                return None;
            }
            return Some(message(id, self.with_known_id(seat, &target, call)));
        };
        match &talk.consumer {
            Consumer::Stateless => match id {
                Some(id) => {
                    let error = stateless::unknown_method(&said.method.name());
                    let said = Answer::FromServer(Outcome::Error(error));
                    let address = Address { server: "", connection: "", request: "" };
                    let outcome = form.close(address, inner.as_ref(), said);
                    deliver(seat, Side::Editor, Message::response(id, outcome), cx);
                    None
                }
                None => self.for_stateless(seat, number?, &said),
            },
            Consumer::Connection { form: theirs, id: visible }
                if theirs.talks_like(form) && *visible == known_as =>
            {
                Some(message(id, call))
            }
            consumer @ (Consumer::Connection { form: theirs, .. }
            | Consumer::Server { form: theirs, .. }) => {
                let to_consumer = to_consumer(consumer, &talk.server, id.as_ref(), &said)?;
                let whole = |form| matches!(form, Form::M0 | Form::M1);
                if let Some(id) = id.as_ref().filter(|_| whole(form) || whole(*theirs)) {
                    let server = self.registry.get(&talk.server);
                    let server = server.map(|it| it.address(form).to_owned()).unwrap_or_default();
                    let reversed = Reversed { provider: form, consumer: *theirs, server, inner };
                    self.inputs.reverse(seat, id, reversed);
                }
                Some(message(id, to_consumer))
            }
        }
    }

    /// A provider ends a connection. What it returns tells the consumer.
    fn on_provider_disconnects(
        &mut self,
        seat: Seat,
        id: Option<Id>,
        number: u64,
        cx: &mut Cx<'_>,
    ) -> Option<Message> {
        if let Some(id) = id {
            let message = Message::response(id, Outcome::Result(Json::EMPTY));
            deliver(seat, Side::Editor, message, cx);
        }
        let talk = self.end_talk(number, &closed(), cx)?;
        self.drop_if_unused(&talk.server, cx);
        let Consumer::Connection { form, id: known_as } = talk.consumer else { return None };
        Some(Message::Notification(form.disconnect(&known_as).0))
    }

    /// A notification of a provider, for the stateless consumer of the request that it is about.
    fn for_stateless(&self, seat: Seat, number: u64, said: &Call) -> Option<Message> {
        let request = self.operations.meant(seat, number, said)?;
        let talk = self.talks.get(number)?;
        let called = self.registry.get(&talk.server).and_then(|server| server.called.clone());
        let server = called.unwrap_or_else(|| form::prefixed(&talk.server));
        let address = Address { server: &server, connection: "", request: &request };
        Some(Message::Notification(Form::M7.say(Direction::ToClient, address, None, said)))
    }

    /// Is a message of a provider's for nobody? What belongs to others passes; and what we know
    /// nothing of does, if the consumer could read it.
    fn leads_nowhere(&self, seat: Seat, form: Form, target: &Target) -> bool {
        let is_read = self.talks.spoken().is_none_or(|spoken| spoken.talks_like(form));
        match target {
            Target::Connection(connection) => self.talks.with(connection).is_none() && !is_read,
            Target::Server(server) => {
                let of_another = |talk: &Talk| match &talk.consumer {
                    Consumer::Server { id, .. } => talk.seat != seat && id == server,
                    _ => false,
                };
                !self.talks.any(of_another) && (!is_read || self.registry.has_own(seat, server))
            }
            Target::Operation { .. } => self.talks.spoken() != Some(Form::M7),
        }
    }

    /// What a stateless server says to a stateless consumer passes as it is, but for the server's id
    /// if others know it by another.
    fn with_known_id(&self, seat: Seat, target: &Target, call: Call) -> Call {
        let Target::Operation { .. } = target else { return call };
        let spelt = form::named_server(&call).unwrap_or_default();
        let own = |it: &Server| it.seat == seat && it.spelt == spelt;
        let Some((key, server)) = self.registry.iter().find(|(_, server)| own(server)) else {
            return call;
        };
        let known = server.called.clone().unwrap_or_else(|| match *key == server.native {
            true => spelt.clone(),
            false => form::prefixed(key),
        });
        if known == spelt {
            return call;
        }
        let params = call.params.map(|it| it.with_member("serverId", &Json::string(&known)));
        Call { params, ..call }
    }
}
