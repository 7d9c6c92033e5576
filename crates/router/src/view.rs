//! What can be seen of a router: the chain, the lives of the components, and the open questions.

use acp_wire::Id;

use crate::event::Time;
use crate::pending::{Ask, Pending};
use crate::router::{Phase, Router};
use crate::seat::{Chain, Exit, Greeted, Life, Seat};

impl Router {
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Takes the editor's protocol version as it is from now on (see [`Chain::any_version`]).
    pub fn take_any_version(&mut self) {
        self.chain.any_version = true;
    }

    /// From now on, the answer to `initialize` says whether this chain contains a guard (see [`acp_wire::guards`]).
    pub fn tell_guards(&mut self) {
        self.tells_guards = true;
    }

    /// The last handshake of a component.
    pub fn greeted(&self, seat: Seat) -> Option<&Greeted> {
        self.greeted.get(seat.index().checked_sub(1)?)
    }

    /// The open questions, oldest first.
    pub fn asks(&self) -> impl DoubleEndedIterator<Item = &Ask> {
        self.pending.asks()
    }

    /// The open questions and the ids they were asked with, oldest first.
    pub fn questions(&self) -> impl Iterator<Item = (Id, &Ask)> {
        self.pending.questions()
    }

    /// Has this component ever answered `initialize`, so that it can be greeted again?
    pub fn has_stood(&self, seat: Seat) -> bool {
        self.life(seat).is_some_and(Life::has_stood)
    }

    /// The open question that was asked with this id.
    pub fn question(&self, id: &Id) -> Option<&Ask> {
        self.pending.get(id)
    }

    /// How many bytes of the params of open questions are kept, to recognise them when they are passed on.
    pub fn kept(&self) -> usize {
        self.pending.kept()
    }

    /// Has a seat asked something with this method that is not answered yet?
    pub fn asks_method(&self, asker: Seat, method: &str) -> bool {
        self.pending.asks_method(asker, method)
    }

    /// Whether a message waits for a component, or may have to.
    pub fn holds_any(&self) -> bool {
        self.lives.iter().any(Life::is_away) || self.holds_around()
    }

    /// How many questions are open.
    pub fn open_questions(&self) -> usize {
        self.pending.len()
    }

    /// How many questions this seat has yet to answer.
    pub fn owed_by(&self, seat: Seat) -> usize {
        self.pending.owed_by(seat)
    }

    /// The first valid `initialize` has come, and so the components were started.
    pub fn has_begun(&self) -> bool {
        self.outer.began
    }

    /// The chain is about to end, or has ended.
    pub fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Open)
    }

    /// Is `id` that of a question which this seat has yet to answer?
    pub fn owes(&self, seat: Seat, id: &Id) -> bool {
        self.pending.owed_number(seat, id).is_some()
    }

    /// The table of open questions.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// The state of a component; the outer pipe has none.
    pub fn life(&self, seat: Seat) -> Option<&Life> {
        self.lives.get(seat.index().checked_sub(1)?)
    }

    pub(crate) fn life_mut(&mut self, seat: Seat) -> Option<&mut Life> {
        self.lives.get_mut(seat.index().checked_sub(1)?)
    }

    /// How the last component of a seat ended.
    pub fn last_exit(&self, seat: Seat) -> Option<&Exit> {
        self.exits.get(seat.index().checked_sub(1)?)?.as_ref()
    }

    pub(crate) fn note_exit(&mut self, seat: Seat, why: Exit) {
        if let Some(exit) = self.exits.get_mut(seat.index().wrapping_sub(1)) {
            *exit = Some(why);
        }
    }

    /// When something is due in the life of a component: a start, or an answer. Nothing is started in a chain
    /// that ends.
    pub fn life_deadline(&self) -> Option<Time> {
        let counts = |life: &&Life| !(self.is_ending() && matches!(life, Life::Away { .. }));
        self.lives.iter().filter(counts).filter_map(Life::deadline).min()
    }

    /// A component that learns has given a sign of life: its time for the next answer begins now.
    pub fn renew_lesson(&mut self, now: Time, seat: Seat) {
        let limit = self.chain.greeting_limit;
        if let Some(Life::Learning { until }) = self.life_mut(seat) {
            *until = now.plus(limit);
        }
    }
}
