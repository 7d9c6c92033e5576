//! `initialize` is asked again on another connection, a *spare* one.
//!
//! An MCP server accepts `initialize` once on a connection, and some (rmcp) exit when they get it
//! twice. So when a provider leaves `initialize` unanswered, another connection is opened for the same
//! request. The first connection on which it is answered is used, and the others are closed. Forms
//! without connections (M0, M1) get `initialize` once.

use acp_wire::{Call, Id, Message, Outcome, Side};
use router::{Diagnostic, Level, Seat};

use super::question::Question;
use super::questions::{Repeat, What};
use super::repeat::LATE;
use super::talk::*;
use super::{Broker, Cx, Step};
use crate::form::{Address, Direction, Form, connection_of};

impl Broker {
    /// Opens another connection for the `initialize` that was sent as `first`.
    pub(super) fn open_spare(
        &mut self,
        first: (Seat, Id),
        (id, form, chosen): (Id, Form, String),
        connect: Call,
        cx: &mut Cx<'_>,
    ) {
        let (seat, first) = first;
        let who = self.chain.describe(seat);
        let text = format!("{who} is silent: initialize is sent again on another connection");
        cx.out.push(Step::Report(Diagnostic { level: Level::Debug, seat, text }));
        let question = Question::Spare { first, form, chosen };
        self.questions.expect(cx.now, (seat, &id), question, Some(cx.now.plus(LATE)), None);
        deliver(seat, Side::Editor, Message::Request { id, call: connect }, cx);
    }

    /// A spare connection is open, or could not be opened. If `initialize` is still unanswered, it is
    /// sent there.
    pub(super) fn on_spare(
        &mut self,
        first: (Seat, Id),
        (form, chosen): (Form, String),
        outcome: &Outcome,
        cx: &mut Cx<'_>,
    ) {
        let Outcome::Result(result) = outcome else { return };
        let seat = first.0;
        let connection = connection_of(result).unwrap_or(chosen);
        if self.talks.of_provider(seat, &connection).is_some() {
            // The provider has one connection only: it must not get `initialize` twice.
            return;
        }
        let talk = self.questions.get(&first).and_then(Question::talk);
        let id = Id::string(&format!("m:{}", self.ids.fresh()));
        let repeat = self.questions.repeat(&first);
        let (Some(talk), Some(Repeat { what: What::Initialize { server, call, .. }, .. })) =
            (talk, repeat)
        else {
            return self.say_goodbye(seat, form, &connection, cx);
        };
        let address = Address { server, connection: &connection, request: "" };
        let call = form.say(Direction::ToServer, address, Some(&id), call);
        self.questions.add_copy(&first, &id, connection.clone());
        self.talks.connect(seat, connection, talk);
        deliver(seat, Side::Editor, Message::Request { id, call }, cx);
    }

    /// `initialize` was answered on one connection: it is used from now on, and the others are closed.
    pub(super) fn choose_connection(
        &mut self,
        first: &(Seat, Id),
        mut repeat: Repeat,
        answered: &Id,
        cx: &mut Cx<'_>,
    ) {
        let seat = first.0;
        let chosen = repeat.copies.iter().position(|(id, _)| id == answered);
        let chosen = chosen.map(|index| repeat.copies.swap_remove(index).1);
        self.close_spares(seat, &repeat, cx);
        let (Some(chosen), Some(question)) = (chosen, self.questions.get(first)) else {
            return;
        };
        let talk = question.talk().and_then(|number| self.talks.get_mut(number));
        let Some(talk) = talk else { return };
        if let State::Open { form, connection } | State::Greeting { form, connection, .. } =
            &mut talk.state
        {
            let before = std::mem::replace(connection, chosen.clone());
            let form = *form;
            self.questions.move_repeats(seat, &before, &chosen);
            self.close_connection(seat, form, &before, cx);
        }
    }

    /// Closes the spare connections of an `initialize`.
    pub(super) fn close_spares(&mut self, seat: Seat, repeat: &Repeat, cx: &mut Cx<'_>) {
        let What::Initialize { form, .. } = repeat.what else { return };
        for (_, connection) in &repeat.copies {
            self.close_connection(seat, form, connection, cx);
        }
    }

    fn close_connection(&mut self, seat: Seat, form: Form, connection: &str, cx: &mut Cx<'_>) {
        self.talks.disconnect(seat, connection);
        self.say_goodbye(seat, form, connection, cx);
    }

    /// A request is not asked again. Gives the ids of its retries, as far as they have to be cancelled:
    /// those of `initialize` end with their connections.
    pub(super) fn stop_repeating(&mut self, first: &(Seat, Id), cx: &mut Cx<'_>) -> Vec<Id> {
        let Some(repeat) = self.questions.forget_repeat(first) else { return Vec::new() };
        self.close_spares(first.0, &repeat, cx);
        match repeat.what {
            What::Initialize { .. } => Vec::new(),
            _ => repeat.copies.iter().map(|(id, _)| id.clone()).collect(),
        }
    }

    /// A consumer sends `initialize` on a connection whose server has left one unanswered: another
    /// connection is opened for it. Gives back what may be sent on the open connection.
    pub(super) fn on_new_connection(
        &mut self,
        number: u64,
        item: Item,
        cx: &mut Cx<'_>,
    ) -> Option<Item> {
        let Some(talk) = self.talks.get_mut(number) else { return Some(item) };
        let State::Open { form, connection } = &talk.state else { return Some(item) };
        if !talk.unanswered || !form.connects() {
            return Some(item);
        }
        talk.unanswered = false;
        let (seat, form, connection) = (talk.seat, *form, connection.clone());
        let until = item.until;
        talk.state = State::Opening(vec![item]);
        self.talks.await_opening(number, until);
        let late = |question: &Question| matches!(question, Question::LateHello { talk, .. } if *talk == number);
        for (key, _) in self.questions.take_all(late) {
            self.questions.lift_limit(&key);
        }
        self.close_connection(seat, form, &connection, cx);
        self.open(number, form, None, None, cx);
        None
    }

    /// Whether a server may still answer an `initialize` that was given up, and cannot be sent another.
    pub(super) fn may_answer_late(&self, connection: &str) -> bool {
        let Some(number) = self.talks.number_of(connection) else { return false };
        let connects = self.talks.get(number).is_some_and(|talk| match &talk.state {
            State::Open { form, .. } => form.connects(),
            _ => true,
        });
        let late = |question: &Question| matches!(question, Question::LateHello { talk, .. } if *talk == number);
        !connects && self.questions.iter().any(|(_, question)| late(question))
    }
}
