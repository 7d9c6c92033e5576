//! What can be seen of a router: the chain, the states of the components, and the open questions.

use acp_wire::Id;

use crate::event::Time;
use crate::pending::{PendingRequest, PendingRequests};
use crate::router::{Phase, Router};
use crate::seat::{Chain, Exit, Handshake, Seat, SeatState};

impl Router {
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Takes the editor's protocol version as it is from now on (see [`Chain::any_version`]).
    pub fn accept_any_version(&mut self) {
        self.chain.any_version = true;
    }

    /// From now on, the answer to `initialize` says whether this chain contains a guard (see [`acp_wire::guards`]).
    pub fn announce_guards(&mut self) {
        self.announces_guards = true;
    }

    /// The last handshake of a component.
    pub fn handshake(&self, seat: Seat) -> Option<&Handshake> {
        self.handshakes.get(seat.index().checked_sub(1)?)
    }

    /// The open questions, oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &PendingRequest> {
        self.pending.requests()
    }

    /// The open questions and the ids they were asked with, oldest first.
    pub fn requests_with_ids(&self) -> impl Iterator<Item = (Id, &PendingRequest)> {
        self.pending.requests_with_ids()
    }

    /// Has this component ever answered `initialize`, so that it can be greeted again?
    pub fn was_initialized(&self, seat: Seat) -> bool {
        self.state(seat).is_some_and(SeatState::was_initialized)
    }

    /// The open question that was asked with this id.
    pub fn request(&self, id: &Id) -> Option<&PendingRequest> {
        self.pending.request(id)
    }

    /// How many bytes of the params of open questions are kept, to recognise them when they are passed on.
    pub fn kept_param_bytes(&self) -> usize {
        self.pending.kept_param_bytes()
    }

    /// Has a seat asked something with this method that is not answered yet?
    pub fn has_open_request(&self, requester: Seat, method: &str) -> bool {
        self.pending.has_open_request(requester, method)
    }

    /// Whether a message waits for a component, or may have to.
    pub fn may_hold_messages(&self) -> bool {
        self.states.iter().any(SeatState::is_recovering) || self.holds_behind_barriers()
    }

    /// How many questions are open.
    pub fn open_request_count(&self) -> usize {
        self.pending.len()
    }

    /// How many questions this seat has yet to answer.
    pub fn owed_count(&self, seat: Seat) -> usize {
        self.pending.owed_count(seat)
    }

    /// The first valid `initialize` has come, and so the components were started.
    pub fn has_started(&self) -> bool {
        self.outer.started
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
    pub fn pending(&self) -> &PendingRequests {
        &self.pending
    }

    /// The state of a component; the outer pipe has none.
    pub fn state(&self, seat: Seat) -> Option<&SeatState> {
        self.states.get(seat.index().checked_sub(1)?)
    }

    pub(crate) fn state_mut(&mut self, seat: Seat) -> Option<&mut SeatState> {
        self.states.get_mut(seat.index().checked_sub(1)?)
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
    pub fn state_deadline(&self) -> Option<Time> {
        let counts =
            |state: &&SeatState| !(self.is_ending() && matches!(state, SeatState::Down { .. }));
        self.states.iter().filter(counts).filter_map(SeatState::deadline).min()
    }

    /// A component that learns has given a sign of state: its time for the next answer begins now.
    pub fn restart_replay_timeout(&mut self, now: Time, seat: Seat) {
        let limit = self.chain.initialize_timeout;
        if let Some(SeatState::Replaying { until }) = self.state_mut(seat) {
            *until = now.plus(limit);
        }
    }
}
