//! The rules for barriers.
//!
//! A barrier is a request without meaning that is sent through a component. A component that does not know it
//! passes it on or refuses it; both show that everything delivered before it has come through. What waits
//! behind the barrier goes on then, so it overtakes nothing.
//!
//! A barrier ends in one of these ways, always together with the older barriers of the same seat and
//! direction, in their order:
//! - The component passes it on or answers it.
//! - The component passes on or answers something that was delivered after it. So the barrier was swallowed.
//!   What waits behind it goes on first, then that message.
//! - The component has said nothing at all for [`LIMIT`], or for [`SHORT_LIMIT`] if it has visibly passed on
//!   everything that was delivered before the barrier, so that nothing can be overtaken. Time in which the
//!   component cannot act does not count (see [`Router::restart_barrier_timeout`]).
//! - The component ends.
//!
//! A component that has swallowed a barrier is sent no more of them in this life, unless one comes out late.
//! What goes around it then waits until everything that was delivered before has been passed on unchanged, or
//! something later has, or for [`SHORT_LIMIT`] of silence. A component that swallows barriers and also changes
//! what it passes on may therefore be overtaken.
//!
//! To tell, the router records for the seats that need it what is delivered and not yet passed on ([`DeliveryLog`]).
//! Only messages with identical params count as passed on; a message of the component's own is no evidence.
//!
//! A barrier of this chain goes no further than the component that it was sent to, however late it comes out.
//! One of a chain around this one is passed on like any request.

use std::collections::VecDeque;
use std::hash::Hasher;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp};

use crate::event::{Action, Context, Time};
use crate::pending::{PendingRequest, Purpose};
use crate::recovery::Held;
use crate::router::{Router, answer};
use crate::seat::{Mode, Seat};

pub(crate) const BARRIER: &str = "_conductor/barrier";

/// How long a component may be silent before its barriers are given up, in milliseconds.
const LIMIT: u64 = 30_000;

/// The same if nothing can be overtaken, or if the component is known to swallow barriers.
const SHORT_LIMIT: u64 = 2_000;

/// So many notifications are recorded for a seat and a direction, and twice as many messages.
const MOST: usize = 1024;

/// What is known of one component's way with messages and barriers.
#[derive(Debug, Default)]
pub struct BarrierState {
    /// Toward the editor and toward the agent.
    logs: [DeliveryLog; 2],
    /// It has taken the place of another: answers may have to wait behind barriers.
    replaced: bool,
    /// When it last said something, or could not act.
    last_activity: Time,
    /// It has swallowed a barrier.
    swallows_barriers: bool,
}

/// What was delivered to a component in one direction, and has not been seen to come out.
#[derive(Debug, Default)]
struct DeliveryLog {
    /// The place of the next entry.
    next: u64,
    entries: VecDeque<(u64, Delivery)>,
    barriers: VecDeque<Barrier>,
}

#[derive(Debug)]
enum Delivery {
    /// A notification, by the hash of method and params.
    Notification(u64),
    /// Messages that were not recorded, because there are too many.
    Gap,
    /// A request under this id of ours, with the hash of method and params.
    Request(Id, u64),
    /// The answer to a question with which the component had passed on the question that it owes under this id.
    Answer(Id),
}

#[derive(Debug)]
struct Barrier {
    place: u64,
    id: Id,
    at: Time,
    /// It was really sent; a component that swallows barriers is sent none.
    sent: bool,
}

/// Something that is delivered before the action at `position` (see [`Router::record_deliveries`]).
#[derive(Debug)]
pub(crate) struct Record {
    position: usize,
    seat: Seat,
    toward: Side,
    what: RecordKind,
}

#[derive(Debug)]
enum RecordKind {
    Barrier { id: Id, at: Time, sent: bool },
    Answer(Id),
}

impl DeliveryLog {
    fn place(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn add(&mut self, entry: Delivery) {
        let most = if matches!(entry, Delivery::Notification(_)) { MOST } else { 2 * MOST };
        let full = self.entries.len() >= most;
        let newest = self.barriers.back().map_or(0, |it| it.place);
        let in_gap = matches!(self.entries.back(), Some((at, Delivery::Gap)) if *at > newest);
        if !(full && in_gap) {
            let place = self.place();
            self.entries.push_back((place, if full { Delivery::Gap } else { entry }));
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.barriers.is_empty()
    }

    /// The component has passed on or answered the first entry of this kind. Gives the barriers that were
    /// sent before it.
    fn take_seen(&mut self, test: impl Fn(&Delivery) -> bool) -> Vec<Id> {
        let Some(at) = self.entries.iter().position(|(_, entry)| test(entry)) else {
            return Vec::new();
        };
        let Some((place, _)) = self.entries.remove(at) else { return Vec::new() };
        let count = self.barriers.iter().take_while(|it| it.place < place).count();
        self.take_first(count, place)
    }

    /// The same for a notification. What comes after a gap cannot be told from what is in the gap.
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

    /// Takes the barriers up to this one.
    fn take_through(&mut self, id: &Id) -> Option<Vec<Id>> {
        let at = self.barriers.iter().position(|it| it.id == *id)?;
        let place = self.barriers[at].place;
        Some(self.take_first(at + 1, place))
    }

    /// Takes the first barriers; what was delivered before `place` has come through then, if it ever will.
    fn take_first(&mut self, count: usize, place: u64) -> Vec<Id> {
        if count == 0 {
            return Vec::new();
        }
        self.entries.retain(|(it, _)| *it >= place);
        self.barriers.drain(..count).map(|it| it.id).collect()
    }

    /// How many of the oldest barriers have nothing before them that has not come through.
    fn reached(&self) -> usize {
        let first = self.entries.front().map_or(u64::MAX, |(place, _)| *place);
        self.barriers.iter().take_while(|it| it.place < first).count()
    }

    fn deadline(&self, last_activity: Time, swallows_barriers: bool) -> Option<Time> {
        let oldest = self.barriers.front()?;
        let short = swallows_barriers || self.reached() > 0;
        Some(last_activity.max(oldest.at).plus(if short { SHORT_LIMIT } else { LIMIT }))
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
            .filter_map(|log| log.deadline(self.last_activity, self.swallows_barriers))
            .min()
    }

    /// The component has been silent for too long: takes the barriers that are given up.
    fn expire(&mut self, now: Time) -> Vec<Id> {
        let mut given_up = Vec::new();
        for log in &mut self.logs {
            if log.deadline(self.last_activity, self.swallows_barriers).is_none_or(|it| it > now) {
                continue;
            }
            let count = match log.reached() {
                count @ 1.. if !self.swallows_barriers => count,
                _ => {
                    self.swallows_barriers = true;
                    log.barriers.len()
                }
            };
            let place = log.barriers[count - 1].place;
            given_up.extend(log.take_first(count, place));
        }
        given_up
    }
}

impl Router {
    /// Tells this chain's barriers from those of other chains. Chains that contain each other need different seeds.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// A component has said something to others than the router, or it cannot act: its input waits to be
    /// written or its output to be read. Its silence begins anew.
    pub fn restart_barrier_timeout(&mut self, now: Time, seat: Seat) {
        if let Some(barriers) = self.barrier_state(seat) {
            barriers.last_activity = now;
        }
    }

    fn barrier_state(&mut self, seat: Seat) -> Option<&mut BarrierState> {
        self.barriers.get_mut(seat.index().checked_sub(1)?)
    }

    pub(crate) fn barrier_deadline(&self) -> Option<Time> {
        self.barriers.iter().filter_map(BarrierState::deadline).min()
    }

    /// Another one sits there now, or nobody.
    pub(crate) fn reset_barriers(&mut self, seat: Seat) {
        if let Some(barriers) = self.barrier_state(seat) {
            *barriers = BarrierState { replaced: true, ..BarrierState::default() };
        }
    }

    /// Whether it is recorded what is delivered to a seat.
    fn records(&self, seat: Seat) -> bool {
        let Some(index) = seat.index().checked_sub(1) else { return false };
        self.barriers.get(index).is_some_and(|it| it.replaced) || self.has_skip_rules(seat)
    }

    fn chain_id(&self) -> Id {
        Id::string(&format!("{:x}", self.seed))
    }

    /// Sends a barrier through a component; this goes on when it has come through.
    pub(crate) fn send_barrier(
        &mut self,
        seat: Seat,
        toward: Side,
        held: Held,
        cx: &mut Context<'_>,
    ) {
        let spared = self.is_skipped(seat, toward, &Call::new(BARRIER, Json::EMPTY));
        let swallows = self.barrier_state(seat).is_some_and(|it| it.swallows_barriers);
        let sent = !spared && !swallows;
        let ask = self.own_request(cx.now, seat, toward, BARRIER, Purpose::Barrier(Vec::new()));
        let id = self.pending.open(ask);
        self.hold_behind(seat, &id, held);
        self.set_shared_barrier(seat, &id, toward);
        let what = RecordKind::Barrier { id: id.clone(), at: cx.now, sent };
        self.records.push(Record { position: cx.out.len(), seat, toward, what });
        if sent {
            let chain = Some(self.chain_id().json().clone());
            let params = Json::object([("token", Some(id.json().clone())), ("chain", chain)]);
            let message = Message::Request { id, call: Call::new(BARRIER, params) };
            cx.out.push(Action::Deliver { to: seat, toward, message });
        }
    }

    /// The question that the requester of this one can answer once this one is answered, if that is recorded.
    pub(crate) fn request_answered_with(&self, ask: &PendingRequest) -> Option<Id> {
        if self.records(ask.requester) { self.pending.original(ask) } else { None }
    }

    /// An answer is about to be delivered, with which the component can answer the question `owed`.
    pub(crate) fn note_answer(&mut self, to: Seat, toward: Side, owed: Id, actions: &[Action]) {
        let what = RecordKind::Answer(owed);
        self.records.push(Record { position: actions.len(), seat: to, toward, what });
    }

    /// Records what has been delivered, in order: the actions from `first` on.
    pub(crate) fn record_deliveries(&mut self, actions: &[Action], first: usize) {
        self.end_sharing(&actions[first..]);
        if self.records.is_empty() && !self.chain.seats().any(|seat| self.records(seat)) {
            return;
        }
        let mut records = std::mem::take(&mut self.records).into_iter().peekable();
        for (position, action) in actions.iter().enumerate().skip(first) {
            while let Some(record) = records.next_if(|it| it.position <= position) {
                self.apply_record(record);
            }
            let Action::Deliver { to, toward, message } = action else { continue };
            let entry = match message {
                _ if !self.records(*to) => continue,
                Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => continue,
                Message::Notification(call) => Delivery::Notification(hash(call)),
                Message::Request { id, .. } if self.pending.is_barrier(*to, id) => continue,
                Message::Request { id, call } => Delivery::Request(id.detached(), hash(call)),
                Message::Response { .. } => continue,
            };
            if let Some(barriers) = self.barrier_state(*to) {
                barriers.log(*toward).add(entry);
            }
        }
        records.for_each(|record| self.apply_record(record));
    }

    fn apply_record(&mut self, Record { seat, toward, what, .. }: Record) {
        let (RecordKind::Barrier { id, .. } | RecordKind::Answer(id)) = &what;
        if self.pending.request(id).is_none() {
            return;
        }
        let Some(barriers) = self.barrier_state(seat) else { return };
        let log = barriers.log(toward);
        match what {
            RecordKind::Answer(id) => log.add(Delivery::Answer(id)),
            RecordKind::Barrier { id, at, sent } => {
                let place = log.place();
                log.barriers.push_back(Barrier { place, id, at, sent });
            }
        }
    }

    /// A component says something. If it has passed on or answered what was delivered after a barrier, what
    /// waits behind that barrier goes on now.
    pub(crate) fn observe_message(
        &mut self,
        from: Seat,
        toward: Side,
        message: &Message,
        cx: &mut Context<'_>,
    ) {
        let Some(barriers) = self.barrier_state(from) else { return };
        barriers.last_activity = cx.now;
        let swallowed = match message {
            _ if barriers.logs.iter().all(DeliveryLog::is_empty) => return,
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => return,
            Message::Notification(call) => barriers.log(toward).take_notification(hash(call)),
            Message::Request { call, .. } => {
                let hash = hash(call);
                barriers
                    .log(toward)
                    .take_seen(|it| matches!(it, Delivery::Request(_, it) if *it == hash))
            }
            Message::Response { id, .. } => {
                let is_it = |it: &Delivery| matches!(it, Delivery::Request(it, _) | Delivery::Answer(it) if it == id);
                barriers.logs.iter_mut().flat_map(|log| log.take_seen(is_it)).collect()
            }
        };
        barriers.swallows_barriers |= !swallowed.is_empty();
        self.release_barriers(from, swallowed, cx);
    }

    /// Releases what goes around components that are sent no barriers, as soon as nothing is before it.
    pub(crate) fn release_reached(&mut self, cx: &mut Context<'_>) {
        for index in 0..self.barriers.len() {
            let barriers = &mut self.barriers[index];
            if barriers.logs.iter().all(|log| log.barriers.is_empty()) {
                continue;
            }
            let seat = Seat(index as u16 + 1);
            let mut reached = Vec::new();
            for log in &mut barriers.logs {
                let unsent = log.barriers.iter().take(log.reached());
                let count = unsent.take_while(|it| !it.sent).count();
                reached.extend(log.take_first(count, 0));
            }
            self.release_barriers(seat, reached, cx);
        }
    }

    fn release_barriers(&mut self, seat: Seat, barriers: Vec<Id>, cx: &mut Context<'_>) {
        for id in barriers {
            if let Some(ask) = self.pending.close(seat, &id) {
                self.release_behind(seat, ask, cx);
            }
        }
    }

    /// A barrier comes out of a component. Says whether it goes no further.
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
        answer(from, toward.opposite(), id.clone(), Outcome::Result(Json::EMPTY), cx);
        if let Some(token) = member("token").filter(|_| ours) {
            self.barrier_through(from, &token, cx);
        }
        true
    }

    /// A barrier has come through, perhaps late.
    pub(crate) fn barrier_through(&mut self, seat: Seat, id: &Id, cx: &mut Context<'_>) {
        let Some(barriers) = self.barrier_state(seat) else { return };
        barriers.swallows_barriers = false;
        let through = barriers.logs.iter_mut().find_map(|log| log.take_through(id));
        self.release_barriers(seat, through.unwrap_or_default(), cx);
    }

    /// Gives up the barriers of components that have been silent for too long.
    pub(crate) fn give_up_barriers(&mut self, cx: &mut Context<'_>) {
        for index in 0..self.barriers.len() {
            let (seat, given_up) = (Seat(index as u16 + 1), self.barriers[index].expire(cx.now));
            self.release_barriers(seat, given_up, cx);
        }
    }
}

/// The same for the same method and params, in every run.
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
        let (place, id) = (log.place(), Id::from(number));
        log.barriers.push_back(Barrier { place, id: id.clone(), at: Time(0), sent: true });
        id
    }

    /// What was not recorded may be equal to what was recorded later: then nothing is concluded.
    #[test]
    fn what_is_recorded_is_bounded() {
        let mut log = DeliveryLog::default();
        for n in 0..10 * MOST as u64 {
            log.add(Delivery::Notification(n));
        }
        assert_eq!(log.entries.len(), MOST + 1);
        let first = barrier(&mut log, 1);
        assert!(log.take_notification(0).is_empty() && log.take_notification(1).is_empty());
        log.add(Delivery::Notification(7));
        log.add(Delivery::Answer(Id::from(9)));
        assert_eq!(log.reached(), 0);
        assert!(log.take_notification(5000).is_empty());
        let is_answer = |it: &Delivery| matches!(it, Delivery::Answer(it) if *it == Id::from(9));
        assert_eq!(log.take_seen(is_answer), [first]);
        assert!(log.is_empty());
        for n in 0..10 * MOST as u64 {
            log.add(Delivery::Request(Id::from(n), n));
        }
        assert_eq!(log.entries.len(), 2 * MOST + 1);
        let second = barrier(&mut log, 2);
        log.add(Delivery::Notification(1));
        assert_eq!(log.take_through(&second), Some(vec![second]));
        assert_eq!(log.entries.len(), 1);
        // The gap after the barrier stays one.
        assert!(log.take_notification(1).is_empty());
    }
}
