//! A component dies, and another takes its place, or nobody does, while all others live on.
//!
//! What it offered stays as the others know it: the ids of servers and of connections, and the places
//! where MCP clients call. The new component has other ids for all of that, and has heard nothing of
//! what was said. So it declares its servers again, and before anybody speaks to it each conversation is
//! opened again, with the first words that its consumer had for the one before.

use acp_wire::message::error_object;
use acp_wire::{Call, Outcome, Side, code};
use router::{Diagnostic, Level, Seat};

use super::question::Question;
use super::talk::*;
use super::{Broker, Cx, Hop, Step};
use crate::form::{self, Form, Frame, Subject, connection_of};
use crate::stateless::{INITIALIZE, INITIALIZED};

impl Broker {
    /// A component has died. What it owed the router answers, so nothing is answered here; what it has
    /// provided waits for [`component_restarted`](Exchange::returned) or [`component_bypassed`](Exchange::bypassed).
    pub fn component_down(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.in_order(cx, |broker, cx| broker.on_parted(seat, cx));
    }

    fn on_parted(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.greetings.forget(seat);
        let provided = self.registry.parted(seat);
        let owed = self.questions.forget(seat);
        self.remember_hellos(owed);
        self.suspend_talks(seat);
        for key in provided {
            self.drop_if_unused(&key, cx);
        }
        if seat == self.far {
            // The router takes what waited as delivered: it answers the requests.
            self.held.clear();
            self.bridge.on_parted(cx);
        }
        self.close_talks_through(seat, cx);
        self.say_lost_hellos(cx);
    }

    /// First words of clients that failed on their way to the server are said again.
    pub(super) fn say_lost_hellos(&mut self, cx: &mut Cx<'_>) {
        for (client_id, connection) in self.bridge.lost_hellos() {
            let heard = self.talks.with(&connection).is_none_or(|talk| talk.begun.is_some())
                || self.may_answer_late(&connection);
            self.bridge.hello_again(client_id, heard, cx);
        }
    }

    /// Another has taken the place of a component that died, and has been told of every session.
    pub fn component_restarted(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.in_order(cx, |broker, cx| broker.on_returned(seat, cx));
    }

    fn on_returned(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        let Some(missing) = self.registry.returned(seat) else { return };
        let who = self.chain.describe(seat);
        for (key, name) in missing {
            let text = format!("{who} was restarted and offers the MCP server '{name}' no more");
            self.lose_server(&key, &text, cx);
            cx.out.push(Step::Report(Diagnostic { level: Level::Warn, seat, text }));
        }
        for number in self.talks.numbers(|talk| talk.seat == seat) {
            self.open_again(number, cx);
        }
        self.say_lost_hellos(cx);
    }

    /// Nobody takes the place of a component that died: the chain closes over the gap, and what it
    /// has provided is gone.
    pub fn component_bypassed(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.in_order(cx, |broker, cx| broker.on_bypassed(seat, cx));
    }

    fn on_bypassed(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.on_parted(seat, cx);
        let who = self.chain.describe(seat);
        for (key, name) in self.registry.bypassed(seat) {
            let text = format!("{who} is out of the chain, and with it its MCP server '{name}'");
            self.lose_server(&key, &text, cx);
        }
    }

    /// Where we have answered a client's `initialize` in the place of a server that never did, the
    /// client will not say it again.
    fn remember_hellos(&mut self, owed: Vec<Question>) {
        for question in owed {
            let Question::Say { talk, call, .. } = question else { continue };
            if let Some(talk) = self.talks.get_mut(talk).filter(|_| call.is(INITIALIZE))
                && let Consumer::Connection { id, .. } = &talk.consumer
                && self.bridge.has_greeted(id)
            {
                talk.begins(&call);
            }
        }
    }

    /// What a provider had open, as it knew it, is over.
    pub(super) fn void(&mut self, seat: Seat) {
        self.talks.void(seat);
        self.operations.void(seat);
        self.inputs.void(seat);
    }

    /// The provider of these conversations is away. What waits for it is answered by the router, to
    /// whom it was all delivered.
    fn suspend_talks(&mut self, seat: Seat) {
        self.void(seat);
        let here = self.talks.numbers(|talk| talk.seat == seat);
        self.inputs.take(|input| here.contains(&input.talk));
        for number in here {
            let told = self.talks.is_told(number);
            let Some(talk) = self.talks.get_mut(number) else { continue };
            let waits_to_be_ready =
                talk.waiting_mut().is_some_and(|it| it.iter().any(|it| it.call.is(INITIALIZED)));
            if waits_to_be_ready {
                talk.is_ready();
            }
            talk.state = State::Opening(Vec::new());
            talk.unanswered = false;
            // Where nobody knows of a connection, the next message opens another.
            let has_begun = talk.begun.is_some() && !matches!(talk.consumer, Consumer::Stateless);
            if !told && !has_begun {
                self.remove_talk(number);
            }
        }
    }

    /// Ends, toward their providers, the conversations that a seat had, or knew of before anybody
    /// beyond it did; and those whose end may have been lost with it.
    fn close_talks_through(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        let bridged = self.bridge.native().is_none();
        let has_left = |talk: &Talk| match &talk.consumer {
            Consumer::Connection { id, .. } => {
                let hung_up = || bridged && self.bridge.client_of(id).is_none();
                talk.leaving || talk.told_to == self.far && hung_up()
            }
            _ => false,
        };
        let beyond = self.distance(seat);
        let over = self.talks.numbers(|talk| {
            let through = talk.seat != seat && beyond > usize::from(talk.seat.0);
            through && (self.distance(talk.told_to) <= beyond || has_left(talk))
        });
        for number in over {
            self.close_talk(number, None, cx);
        }
    }

    /// How far a seat is from the editor.
    fn distance(&self, seat: Seat) -> usize {
        if seat == self.far { usize::MAX } else { seat.index() }
    }

    fn open_again(&mut self, number: u64, cx: &mut Cx<'_>) {
        let Some(talk) = self.talks.get(number) else { return };
        let Some(server) = self.registry.get(&talk.server) else { return };
        let theirs = match &talk.consumer {
            Consumer::Connection { form, .. } | Consumer::Server { form, .. } => *form,
            Consumer::Stateless => Form::M7,
        };
        let form = server.form_for(theirs);
        self.open(number, form, None, None, cx);
    }

    /// A server is there no more, for this reason.
    fn lose_server(&mut self, key: &str, why: &str, cx: &mut Cx<'_>) {
        let error = error_object(code::INTERNAL_ERROR, why, None);
        self.bridge.forget_server(key, cx);
        for number in self.talks.numbers(|talk| talk.server == key) {
            self.dismiss(number, &error, cx);
        }
        self.registry.remove(key);
    }

    /// The answer to a connect is on its way to the consumer.
    pub(super) fn on_told(&mut self, hop: Hop, outcome: &Outcome) {
        if !self.talks.has_untold() || hop.toward != Side::Agent {
            return;
        }
        let connection = match outcome {
            Outcome::Result(result) => connection_of(result),
            Outcome::Error(_) => None,
        };
        if let Some(connection) = connection {
            self.knows_of(hop.seat, &connection);
        }
    }

    /// Who speaks of a connection knows of it.
    pub(super) fn overhear(&mut self, seat: Seat, call: &Call) {
        let goodbye = call.method.name().ends_with("mcp/disconnect");
        if !self.talks.has_untold() && !goodbye {
            return;
        }
        let Some((_, word)) = form::read(call) else { return };
        let Subject::Connection(connection) = word.about() else { return };
        self.knows_of(seat, connection);
        let number = self.talks.number_of(connection);
        if let Some(talk) = number.and_then(|it| self.talks.get_mut(it)) {
            talk.leaving |= matches!(word, Frame::Disconnect { .. });
        }
    }

    fn knows_of(&mut self, seat: Seat, connection: &str) {
        let Some(number) = self.talks.number_of(connection) else { return };
        let distance = self.distance(seat);
        let Some(talk) = self.talks.get(number) else { return };
        if distance <= self.distance(talk.told_to) {
            return;
        }
        if let Some(talk) = self.talks.get_mut(number) {
            talk.told_to = seat;
        }
        if seat == self.far {
            self.talks.told(number);
        }
    }
}
