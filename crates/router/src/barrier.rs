//! Barriers keep messages in order when one of them skips a component.
//!
//! A barrier is a request, `_conductor/barrier`, that is sent through a component. A component that does
//! not know the method forwards it or refuses it. Either shows that the component has handled everything
//! delivered before it. The messages that wait behind the barrier are then released, so they overtake
//! nothing.
//!
//! A barrier ends in one of these ways, always together with the older barriers of the same seat and
//! direction, in their order:
//! - The component forwards it or answers it.
//! - The component forwards or answers a message that was delivered after it. So the component dropped the
//!   barrier. The messages behind the barrier are released first, then that message is handled.
//! - The component has sent nothing at all for [`TIMEOUT`]. If it has forwarded everything that was
//!   delivered before the barrier, nothing can be overtaken and [`SHORT_TIMEOUT`] applies. Time in which
//!   the component cannot act does not count (see [`Router::restart_barrier_timeout`]).
//! - The component ends.
//!
//! A component that has dropped a barrier gets no more barriers until it is restarted, unless the barrier
//! comes out late. Messages that skip this component wait until it has forwarded everything delivered
//! before them, or something delivered later, or has sent nothing for [`SHORT_TIMEOUT`]. A component that
//! drops barriers and also changes the messages it forwards may therefore be overtaken.
//!
//! To detect all this, the router records for the seats that need it which deliveries have not been
//! forwarded yet ([`DeliveryLog`]). Only a message with identical params counts as forwarded. A message
//! that the component created itself is no evidence.
//!
//! A barrier of this chain is never forwarded beyond the component that it was sent to, however late it
//! comes out. A barrier of an outer chain is forwarded like any request.

use std::collections::VecDeque;
use std::hash::Hasher;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};

use crate::event::{Action, Context, Time};
use crate::pending::{PendingRequest, Purpose};
use crate::recovery::Held;
use crate::router::{Router, answer};
use crate::seat::{Mode, Seat};

/// The method of a barrier.
pub(crate) const BARRIER: &str = "_conductor/barrier";

/// How long a component may send nothing before its barriers are given up, in milliseconds.
const TIMEOUT: u64 = 30_000;

/// Applies in place of [`TIMEOUT`] if no message can be overtaken, or if the component drops barriers.
const SHORT_TIMEOUT: u64 = 2_000;

/// How many notifications are recorded for a seat and direction. Twice as many messages of all kinds are
/// recorded.
const MAX_RECORDED: usize = 1024;

/// The deliveries to one component and its open barriers.
#[derive(Debug, Default)]
pub(crate) struct BarrierState {
    /// The logs toward the editor and toward the agent.
    logs: [DeliveryLog; 2],
    /// The component was restarted, so answers may have to wait behind barriers.
    was_restarted: bool,
    /// When the component last sent something, or could not act.
    last_activity: Time,
    /// The component has dropped a barrier.
    drops_barriers: bool,
}

/// The deliveries to a component in one direction that it has not forwarded or answered.
#[derive(Debug, Default)]
struct DeliveryLog {
    /// The sequence number of the last entry.
    last_sequence: u64,
    entries: VecDeque<(u64, Delivery)>,
    barriers: VecDeque<Barrier>,
}

/// An entry of a [`DeliveryLog`].
#[derive(Debug)]
enum Delivery {
    /// A notification, with the hash of its method and params.
    Notification(u64),
    /// Messages that were not recorded, because there are too many.
    Gap,
    /// A request under this id of the conductor, with the hash of its method and params.
    Request(Id, u64),
    /// The answer to a forwarded request. The component can now answer the request that it owes under this
    /// id.
    Answer(Id),
}

/// A barrier that has not ended.
#[derive(Debug)]
struct Barrier {
    /// Its position among the entries of the log.
    sequence: u64,
    id: Id,
    /// When it was sent.
    at: Time,
    /// Whether it was sent. A component that drops barriers is sent none.
    sent: bool,
}

/// A delivery that is not an action. It happened before the action at `position` (see
/// [`Router::record_deliveries`]).
#[derive(Debug)]
pub(crate) struct Record {
    position: usize,
    seat: Seat,
    toward: Side,
    kind: RecordKind,
}

/// What a [`Record`] is about.
#[derive(Debug)]
enum RecordKind {
    /// A barrier.
    Barrier { id: Id, at: Time, sent: bool },
    /// An answer with which the component can answer the request with this id.
    Answer(Id),
}

impl DeliveryLog {
    fn next_sequence(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    fn add(&mut self, entry: Delivery) {
        let limit = if matches!(entry, Delivery::Notification(_)) {
            MAX_RECORDED
        } else {
            2 * MAX_RECORDED
        };
        let is_full = self.entries.len() >= limit;
        let newest = self.barriers.back().map_or(0, |it| it.sequence);
        let is_in_gap = matches!(self.entries.back(), Some((at, Delivery::Gap)) if *at > newest);
        if !(is_full && is_in_gap) {
            let sequence = self.next_sequence();
            self.entries.push_back((sequence, if is_full { Delivery::Gap } else { entry }));
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.barriers.is_empty()
    }

    /// Removes the first entry that passes the test, because the component has forwarded or answered it.
    /// Returns the barriers that were sent before it.
    fn take_seen(&mut self, test: impl Fn(&Delivery) -> bool) -> Vec<Id> {
        let Some(at) = self.entries.iter().position(|(_, entry)| test(entry)) else {
            return Vec::new();
        };
        let Some((sequence, _)) = self.entries.remove(at) else { return Vec::new() };
        let count = self.barriers.iter().take_while(|it| it.sequence < sequence).count();
        self.take_first(count, sequence)
    }

    /// Like [`take_seen`](DeliveryLog::take_seen), for a notification with this hash. A notification after a gap may
    /// be equal to one in the gap, so it is not removed.
    fn take_notification(&mut self, hash: u64) -> Vec<Id> {
        let mut known =
            self.entries.iter().take_while(|(_, entry)| !matches!(entry, Delivery::Gap));
        match known.any(|(_, entry)| matches!(entry, Delivery::Notification(it) if *it == hash)) {
            true => {
                self.take_seen(|entry| matches!(entry, Delivery::Notification(it) if *it == hash))
            }
            false => Vec::new(),
        }
    }

    /// Removes the barriers up to this one.
    fn take_up_to(&mut self, id: &Id) -> Option<Vec<Id>> {
        let at = self.barriers.iter().position(|it| it.id == *id)?;
        let sequence = self.barriers[at].sequence;
        Some(self.take_first(at + 1, sequence))
    }

    /// Removes the first `count` barriers and the entries before `sequence`.
    fn take_first(&mut self, count: usize, sequence: u64) -> Vec<Id> {
        if count == 0 {
            return Vec::new();
        }
        self.entries.retain(|(it, _)| *it >= sequence);
        self.barriers.drain(..count).map(|it| it.id).collect()
    }

    /// How many of the oldest barriers have no entry before them.
    fn reached(&self) -> usize {
        let first = self.entries.front().map_or(u64::MAX, |(sequence, _)| *sequence);
        self.barriers.iter().take_while(|it| it.sequence < first).count()
    }

    fn deadline(&self, last_activity: Time, drops_barriers: bool) -> Option<Time> {
        let oldest = self.barriers.front()?;
        let short = drops_barriers || self.reached() > 0;
        Some(last_activity.max(oldest.at).plus(if short { SHORT_TIMEOUT } else { TIMEOUT }))
    }
}

impl BarrierState {
    fn log(&mut self, toward: Side) -> &mut DeliveryLog {
        let [editor, agent] = &mut self.logs;
        match toward {
            Side::Editor => editor,
            Side::Agent => agent,
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.logs
            .iter()
            .filter_map(|log| log.deadline(self.last_activity, self.drops_barriers))
            .min()
    }

    /// Removes the barriers that have timed out.
    fn expire(&mut self, now: Time) -> Vec<Id> {
        let mut given_up = Vec::new();
        for log in &mut self.logs {
            if log.deadline(self.last_activity, self.drops_barriers).is_none_or(|it| it > now) {
                continue;
            }
            let count = match log.reached() {
                count @ 1.. if !self.drops_barriers => count,
                _ => {
                    self.drops_barriers = true;
                    log.barriers.len()
                }
            };
            let sequence = log.barriers[count - 1].sequence;
            given_up.extend(log.take_first(count, sequence));
        }
        given_up
    }
}

impl Router {
    /// Sets the number that identifies this chain's barriers. Chains that contain each other need different
    /// seeds.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Restarts the barrier timeout of a component, because the component has sent something outside the
    /// router, or because it cannot act: its input is not yet written, or its output is not read.
    pub fn restart_barrier_timeout(&mut self, now: Time, seat: Seat) {
        if let Some(state) = self.barrier_state(seat) {
            state.last_activity = now;
        }
    }

    fn barrier_state(&mut self, seat: Seat) -> Option<&mut BarrierState> {
        self.barrier_states.get_mut(seat.index().checked_sub(1)?)
    }

    pub(crate) fn barrier_deadline(&self) -> Option<Time> {
        self.barrier_states.iter().filter_map(BarrierState::deadline).min()
    }

    /// Clears the log and the barriers of a component that ended.
    pub(crate) fn reset_barriers(&mut self, seat: Seat) {
        if let Some(state) = self.barrier_state(seat) {
            *state = BarrierState { was_restarted: true, ..BarrierState::default() };
        }
    }

    /// Whether deliveries to a seat are recorded.
    fn records_deliveries(&self, seat: Seat) -> bool {
        let Some(index) = seat.index().checked_sub(1) else { return false };
        self.barrier_states.get(index).is_some_and(|it| it.was_restarted)
            || self.has_skip_rules(seat)
    }

    fn chain_id(&self) -> Id {
        Id::string(&format!("{:x}", self.seed))
    }

    /// Sends a barrier through a component. `held` is released when the barrier comes out.
    pub(crate) fn send_barrier(
        &mut self,
        seat: Seat,
        toward: Side,
        held: Held,
        cx: &mut Context<'_>,
    ) {
        let skipped = self.is_skipped(seat, toward, &Call::new(BARRIER, Json::EMPTY_OBJECT));
        let drops = self.barrier_state(seat).is_some_and(|it| it.drops_barriers);
        let sent = !skipped && !drops;
        let request = self.own_request(cx.now, seat, toward, BARRIER, Purpose::Barrier(Vec::new()));
        let id = self.pending.open(request);
        self.hold_behind(seat, &id, held);
        self.set_shared_barrier(seat, &id, toward);
        let kind = RecordKind::Barrier { id: id.clone(), at: cx.now, sent };
        self.records.push(Record { position: cx.out.len(), seat, toward, kind });
        if sent {
            let chain = Some(self.chain_id().json().clone());
            let params = Json::object([("token", Some(id.json().clone())), ("chain", chain)]);
            let message = Message::Request { id, call: Call::new(BARRIER, params) };
            cx.out.push(Action::Deliver { to: seat, toward, message });
        }
    }

    /// The request that the requester of this one owes and can answer once this one is answered. `None` if
    /// deliveries to the requester are not recorded.
    pub(crate) fn request_answered_with(&self, request: &PendingRequest) -> Option<Id> {
        if self.records_deliveries(request.requester) {
            self.pending.original(request)
        } else {
            None
        }
    }

    /// Records that an answer is about to be delivered, with which the component can answer the request
    /// `owed`.
    pub(crate) fn record_answer(&mut self, to: Seat, toward: Side, owed: Id, actions: &[Action]) {
        let kind = RecordKind::Answer(owed);
        self.records.push(Record { position: actions.len(), seat: to, toward, kind });
    }

    /// Records the deliveries among the actions from `first` on, in order.
    pub(crate) fn record_deliveries(&mut self, actions: &[Action], first: usize) {
        self.stop_sharing_barriers(&actions[first..]);
        if self.records.is_empty() && !self.chain.seats().any(|seat| self.records_deliveries(seat))
        {
            return;
        }
        let mut records = std::mem::take(&mut self.records).into_iter().peekable();
        for (position, action) in actions.iter().enumerate().skip(first) {
            while let Some(record) = records.next_if(|it| it.position <= position) {
                self.apply_record(record);
            }
            let Action::Deliver { to, toward, message } = action else { continue };
            let entry = match message {
                _ if !self.records_deliveries(*to) => continue,
                Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => continue,
                Message::Notification(call) => Delivery::Notification(hash(call)),
                Message::Request { id, .. } if self.pending.is_barrier(*to, id) => continue,
                Message::Request { id, call } => Delivery::Request(id.detached(), hash(call)),
                Message::Response { .. } => continue,
            };
            if let Some(state) = self.barrier_state(*to) {
                state.log(*toward).add(entry);
            }
        }
        records.for_each(|record| self.apply_record(record));
    }

    fn apply_record(&mut self, Record { seat, toward, kind, .. }: Record) {
        let (RecordKind::Barrier { id, .. } | RecordKind::Answer(id)) = &kind;
        if self.pending.request(id).is_none() {
            return;
        }
        let Some(state) = self.barrier_state(seat) else { return };
        let log = state.log(toward);
        match kind {
            RecordKind::Answer(id) => log.add(Delivery::Answer(id)),
            RecordKind::Barrier { id, at, sent } => {
                let sequence = log.next_sequence();
                log.barriers.push_back(Barrier { sequence, id, at, sent });
            }
        }
    }

    /// Records a message that a component sent. If it shows that the component has passed a barrier, the
    /// messages behind that barrier are released now.
    pub(crate) fn observe_message(
        &mut self,
        from: Seat,
        toward: Side,
        message: &Message,
        cx: &mut Context<'_>,
    ) {
        let Some(state) = self.barrier_state(from) else { return };
        state.last_activity = cx.now;
        let passed = match message {
            _ if state.logs.iter().all(DeliveryLog::is_empty) => return,
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => return,
            Message::Notification(call) => state.log(toward).take_notification(hash(call)),
            Message::Request { call, .. } => {
                let hash = hash(call);
                state
                    .log(toward)
                    .take_seen(|it| matches!(it, Delivery::Request(_, it) if *it == hash))
            }
            Message::Response { id, .. } => {
                let is_it = |it: &Delivery| matches!(it, Delivery::Request(it, _) | Delivery::Answer(it) if it == id);
                state.logs.iter_mut().flat_map(|log| log.take_seen(is_it)).collect()
            }
        };
        state.drops_barriers |= !passed.is_empty();
        self.release_barriers(from, passed, cx);
    }

    /// Releases messages that skip components without barriers, as soon as no delivery is before them.
    pub(crate) fn release_reached(&mut self, cx: &mut Context<'_>) {
        for index in 0..self.barrier_states.len() {
            let state = &mut self.barrier_states[index];
            if state.logs.iter().all(|log| log.barriers.is_empty()) {
                continue;
            }
            let seat = Seat(index as u16 + 1);
            let mut reached = Vec::new();
            for log in &mut state.logs {
                let unsent = log.barriers.iter().take(log.reached());
                let count = unsent.take_while(|it| !it.sent).count();
                reached.extend(log.take_first(count, 0));
            }
            self.release_barriers(seat, reached, cx);
        }
    }

    fn release_barriers(&mut self, seat: Seat, barriers: Vec<Id>, cx: &mut Context<'_>) {
        for id in barriers {
            if let Some(request) = self.pending.close(seat, &id) {
                self.release_behind(seat, request, cx);
            }
        }
    }

    /// Handles a barrier that comes out of a component. Returns `false` if the request must be forwarded.
    pub(crate) fn on_barrier(
        &mut self,
        from: Seat,
        toward: Side,
        id: &Id,
        call: &Call,
        cx: &mut Context<'_>,
    ) -> bool {
        if !call.is(BARRIER) || !from.is_component() {
            return false;
        }
        let member = |name| call.params.as_ref().and_then(|it| Id::new(it.member(name)?));
        let ours = member("chain") == Some(self.chain_id());
        if !ours && self.chain.mode == Mode::Proxy {
            return false;
        }
        answer(from, toward.opposite(), id.clone(), Outcome::Result(Json::EMPTY_OBJECT), cx);
        if let Some(token) = member("token").filter(|_| ours) {
            self.on_barrier_out(from, &token, cx);
        }
        true
    }

    /// Releases the messages behind a barrier that came out of the component, perhaps late.
    pub(crate) fn on_barrier_out(&mut self, seat: Seat, id: &Id, cx: &mut Context<'_>) {
        let Some(state) = self.barrier_state(seat) else { return };
        state.drops_barriers = false;
        let through = state.logs.iter_mut().find_map(|log| log.take_up_to(id));
        self.release_barriers(seat, through.unwrap_or_default(), cx);
    }

    /// Gives up the barriers that have timed out.
    pub(crate) fn give_up_barriers(&mut self, cx: &mut Context<'_>) {
        for index in 0..self.barrier_states.len() {
            let (seat, given_up) =
                (Seat(index as u16 + 1), self.barrier_states[index].expire(cx.now));
            self.release_barriers(seat, given_up, cx);
        }
    }
}

/// A hash of method and params that is the same in every run.
fn hash(call: &Call) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(call.method.name().as_bytes());
    hasher.write_u8(0);
    hasher.write(call.params.as_ref().map_or(&[], |it| it.as_bytes()));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barrier(log: &mut DeliveryLog, number: u64) -> Id {
        let (sequence, id) = (log.next_sequence(), Id::from(number));
        log.barriers.push_back(Barrier { sequence, id: id.clone(), at: Time(0), sent: true });
        id
    }

    /// A message in a gap may be equal to one that was recorded later. Then no barrier is released.
    #[test]
    fn the_delivery_log_is_bounded() {
        let mut log = DeliveryLog::default();
        for n in 0..10 * MAX_RECORDED as u64 {
            log.add(Delivery::Notification(n));
        }
        assert_eq!(log.entries.len(), MAX_RECORDED + 1);
        let first = barrier(&mut log, 1);
        assert!(log.take_notification(0).is_empty() && log.take_notification(1).is_empty());
        log.add(Delivery::Notification(7));
        log.add(Delivery::Answer(Id::from(9)));
        assert_eq!(log.reached(), 0);
        assert!(log.take_notification(5000).is_empty());
        let is_answer = |it: &Delivery| matches!(it, Delivery::Answer(it) if *it == Id::from(9));
        assert_eq!(log.take_seen(is_answer), [first]);
        assert!(log.is_empty());
        for n in 0..10 * MAX_RECORDED as u64 {
            log.add(Delivery::Request(Id::from(n), n));
        }
        assert_eq!(log.entries.len(), 2 * MAX_RECORDED + 1);
        let second = barrier(&mut log, 2);
        log.add(Delivery::Notification(1));
        assert_eq!(log.take_up_to(&second), Some(vec![second]));
        assert_eq!(log.entries.len(), 1);
        // The gap after the barrier stays recorded.
        assert!(log.take_notification(1).is_empty());
    }
}
