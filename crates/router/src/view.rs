//! The router's state for its caller: the chain, the state of each seat, and the pending requests. Also the settings
//! that the caller changes.

use acp_wire::Id;

use crate::event::Time;
use crate::exit::Exit;
use crate::pending::{PendingRequest, PendingRequests};
use crate::router::{Phase, Router};
use crate::seat::{Chain, Handshake, Seat, SeatState};

impl Router {
    /// The configuration of the chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Accepts any protocol version of the editor from now on (see [`Chain::any_version`]).
    pub fn accept_any_version(&mut self) {
        self.chain.any_version = true;
    }

    /// From now on, the answer to `initialize` says whether this chain contains a guard (see
    /// [`acp_wire::guards`]).
    pub fn announce_guards(&mut self) {
        self.announces_guards = true;
    }

    /// The last handshake of a component.
    pub fn handshake(&self, seat: Seat) -> Option<&Handshake> {
        self.handshakes.get(seat.index().checked_sub(1)?)
    }

    /// The pending requests, oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &PendingRequest> {
        self.pending.requests()
    }

    /// The pending requests with the ids under which they were delivered, oldest first.
    pub fn requests_with_ids(&self) -> impl Iterator<Item = (Id, &PendingRequest)> {
        self.pending.requests_with_ids()
    }

    /// Whether a component in this seat has ever answered `initialize` (see
    /// [`SeatState::was_initialized`]).
    pub fn was_initialized(&self, seat: Seat) -> bool {
        self.state(seat).is_some_and(SeatState::was_initialized)
    }

    /// The pending request that was delivered under this id.
    pub fn request(&self, id: &Id) -> Option<&PendingRequest> {
        self.pending.request(id)
    }

    /// How many bytes of params of pending requests are kept, to recognise the requests when they are
    /// forwarded.
    pub fn kept_param_bytes(&self) -> usize {
        self.pending.kept_param_bytes()
    }

    /// Whether a seat has sent a request with this method that is not answered yet.
    pub fn has_open_request(&self, requester: Seat, method: &str) -> bool {
        self.pending.has_open_request(requester, method)
    }

    /// Whether a message is held for a component, or could be with the next event.
    pub fn may_hold_messages(&self) -> bool {
        self.states.iter().any(SeatState::is_recovering) || self.holds_behind_barriers()
    }

    /// How many requests are pending.
    pub fn open_request_count(&self) -> usize {
        self.pending.len()
    }

    /// How many answers this seat owes.
    pub fn owed_count(&self, seat: Seat) -> usize {
        self.pending.owed_count(seat)
    }

    /// Whether the first valid `initialize` has arrived, and so the components were started.
    pub fn has_started(&self) -> bool {
        self.outer.started
    }

    /// Whether the chain is shutting down or has ended.
    pub fn is_ending(&self) -> bool {
        !matches!(self.phase, Phase::Running)
    }

    /// Whether this seat owes the answer to the request with this id.
    pub fn owes(&self, seat: Seat, id: &Id) -> bool {
        self.pending.owed_number(seat, id).is_some()
    }

    /// From now on, the conductor itself owes the answer to a request. It answers with [`Event::Supplied`] from
    /// [`Seat::CONDUCTOR`]. A cancellation of the request is delivered to that seat.
    ///
    /// [`Event::Supplied`]: crate::Event::Supplied
    pub fn take_over(&mut self, id: &Id) {
        self.pending.take_over(id);
    }

    /// The table of pending requests.
    pub fn pending(&self) -> &PendingRequests {
        &self.pending
    }

    /// The state of a component. `None` for the outer pipe.
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

    pub(crate) fn record_exit(&mut self, seat: Seat, why: Exit) {
        if let Some(exit) = self.exits.get_mut(seat.index().wrapping_sub(1)) {
            *exit = Some(why);
        }
    }

    /// When the next restart, or the next answer of a restarted component, is due. A chain that is shutting
    /// down restarts nothing.
    pub fn state_deadline(&self) -> Option<Time> {
        let counts =
            |state: &&SeatState| !(self.is_ending() && matches!(state, SeatState::Down { .. }));
        self.states.iter().filter(counts).filter_map(SeatState::deadline).min()
    }

    /// Restarts the timeout of a component whose sessions are replayed, because it showed activity.
    pub fn restart_replay_timeout(&mut self, now: Time, seat: Seat) {
        let limit = self.chain.initialize_timeout;
        if let Some(SeatState::Replaying { until }) = self.state_mut(seat) {
            *until = now.plus(limit);
        }
    }
}
