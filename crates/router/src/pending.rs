//! The table of requests that wait for an answer.

use std::collections::BTreeMap;

use acp_wire::{Id, Json, Outcome, Side};

use crate::event::Time;
use crate::recovery::Held;
use crate::seat::Seat;

/// A request that was delivered and has not been answered.
#[derive(Debug, Clone)]
pub struct PendingRequest {
    /// The seat that sent it, or [`Seat::CONDUCTOR`] for a request of the conductor itself.
    pub requester: Seat,
    /// The id that the requester gave it. The answer is delivered under this id.
    pub requester_id: Id,
    /// The seat that must answer it.
    pub responder: Seat,
    /// The side toward which it travels.
    pub toward: Side,
    /// Its method.
    pub method: String,
    /// Recognises the request when the responder forwards it.
    pub fingerprint: Fingerprint,
    /// When it was delivered.
    pub sent_at: Time,
    /// Whether a cancellation was already forwarded to the responder.
    pub cancelled: bool,
    /// What happens to the answer.
    pub purpose: Purpose,
    /// Seats past which the answer goes on its way to the requester, in order: components that forwarded
    /// the request and then went down, or that the request skipped. The answer waits behind a barrier
    /// through each of them, so that it does not overtake earlier messages.
    pub via: Vec<Seat>,
}

/// What happens to the answer to a request.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// It is forwarded to the requester.
    Forward,
    /// The request is an `initialize` on its way to the agent. `answer_instead` replaces a successful
    /// answer (see `handshake`).
    Initialize {
        /// The answer that the requester gets instead of a result.
        answer_instead: Option<Outcome>,
    },
    /// The request is the `initialize` for a restarted component (see [`recovery`](crate::recovery)).
    Reinitialize,
    /// The request is a barrier. Its answer releases these messages (see `barrier`).
    Barrier(Vec<Held>),
}

/// Recognises a request when a proxy forwards it to its successor.
#[derive(Debug, Clone, PartialEq)]
pub enum Fingerprint {
    /// The request cannot be forwarded, because neither side is a proxy.
    None,
    /// The params of the request.
    Params(Json),
    /// Length and hash of the params, if they are too long to keep. The forwarded request is recognised
    /// only if its params are identical.
    Digest {
        /// The length in bytes.
        length: usize,
        /// The hash of the bytes.
        hash: u64,
    },
}

impl Fingerprint {
    /// Longer params are never kept.
    const MAX_PARAMS: usize = 64 * 1024;
    /// Params up to this length are always kept: they cost little compared with the rest of the request.
    const ALWAYS_KEPT: usize = 1024;
    /// How many bytes of longer params are kept for all pending requests of a chain.
    const MAX_KEPT: usize = 16 * 1024 * 1024;

    /// The fingerprint of a request with these params. `kept` is how many bytes of params are kept already.
    pub fn of(params: Option<&Json>, kept: usize) -> Fingerprint {
        let Some(params) = params else { return Fingerprint::Params(Json::EMPTY_OBJECT) };
        let length = params.as_bytes().len();
        let fits = length <= Fingerprint::MAX_PARAMS && kept + length <= Fingerprint::MAX_KEPT;
        match length <= Fingerprint::ALWAYS_KEPT || fits {
            true => Fingerprint::Params(params.detached()),
            false => Fingerprint::Digest { length, hash: hash(params.as_bytes()) },
        }
    }

    /// How many bytes of [`Fingerprint::MAX_KEPT`] it uses.
    fn kept(&self) -> usize {
        match self {
            Fingerprint::Params(params) if params.as_bytes().len() > Fingerprint::ALWAYS_KEPT => {
                params.as_bytes().len()
            }
            _ => 0,
        }
    }

    /// Length and hash of the params, if they are known.
    pub(crate) fn digest(&self) -> Option<(usize, u64)> {
        match self {
            Fingerprint::None => None,
            Fingerprint::Params(params) => Some((params.as_bytes().len(), hash(params.as_bytes()))),
            Fingerprint::Digest { length, hash } => Some((*length, *hash)),
        }
    }
}

/// A hash that is the same in every run.
fn hash(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The table of pending requests. Each request gets a unique id of the conductor.
#[derive(Debug, Default)]
pub struct PendingRequests {
    last: u64,
    open: BTreeMap<u64, PendingRequest>,
    /// How many requests each seat has sent, by method.
    methods: BTreeMap<Seat, BTreeMap<String, usize>>,
    /// How many bytes of params are kept.
    kept: usize,
    /// How many requests were removed.
    closed: u64,
}

/// How many bytes are compared at most to find a request that was forwarded with changes.
const COMPARE_BUDGET: usize = 1024 * 1024;

/// The prefix of the ids that the conductor gives to requests. It distinguishes them from ids that components
/// choose.
const ID_PREFIX: &str = "c:";

/// The id of the request with this number.
pub fn id_of(number: u64) -> Id {
    Id::string(&format!("{ID_PREFIX}{number}"))
}

fn number_of(id: &Id) -> Option<u64> {
    let text = id.text()?;
    let number = text.strip_prefix(ID_PREFIX)?.parse().ok()?;
    (id_of(number).text()? == text).then_some(number)
}

impl PendingRequests {
    /// Adds a request. Returns the id under which to deliver it.
    pub fn open(&mut self, request: PendingRequest) -> Id {
        self.last += 1;
        self.insert(self.last, request);
        id_of(self.last)
    }

    fn insert(&mut self, number: u64, request: PendingRequest) {
        self.kept += request.fingerprint.kept();
        let methods = self.methods.entry(request.requester).or_default();
        match methods.get_mut(&request.method) {
            Some(count) => *count += 1,
            None => drop(methods.insert(request.method.clone(), 1)),
        }
        self.open.insert(number, request);
    }

    /// Updates the counters after a request was removed.
    fn on_removed(&mut self, request: &PendingRequest) {
        self.kept -= request.fingerprint.kept();
        self.closed += 1;
        let Some(methods) = self.methods.get_mut(&request.requester) else { return };
        match methods.get_mut(&request.method) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(methods.remove(&request.method)),
        }
    }

    /// How many bytes of params are kept.
    pub fn kept_param_bytes(&self) -> usize {
        self.kept
    }

    /// Whether `requester` has sent a request with this method that is not answered yet.
    pub fn has_open_request(&self, requester: Seat, method: &str) -> bool {
        self.methods.get(&requester).is_some_and(|methods| methods.contains_key(method))
    }

    /// Removes the request that `responder` answers with `id`. `None` if `responder` does not owe that
    /// answer.
    pub fn close(&mut self, responder: Seat, id: &Id) -> Option<PendingRequest> {
        let number = number_of(id)?;
        if self.open.get(&number)?.responder != responder {
            return None;
        }
        let request = self.open.remove(&number)?;
        self.on_removed(&request);
        Some(request)
    }

    /// The request that was delivered under this id.
    pub fn request(&self, id: &Id) -> Option<&PendingRequest> {
        self.open.get(&number_of(id)?)
    }

    /// The number of the request with this id, if `responder` owes its answer.
    pub fn owed_number(&self, responder: Seat, id: &Id) -> Option<u64> {
        number_of(id).filter(|&number| self.owes(responder, number))
    }

    /// Whether `responder` owes the answer to the request with this number.
    pub fn owes(&self, responder: Seat, number: u64) -> bool {
        self.open.get(&number).is_some_and(|request| request.responder == responder)
    }

    /// The requests whose answers `responder` owes, with their numbers, oldest first.
    pub fn owed(&self, responder: Seat) -> impl Iterator<Item = (u64, &PendingRequest)> {
        let owed = move |(_, request): &(&u64, &PendingRequest)| request.responder == responder;
        self.open.iter().filter(owed).map(|(number, request)| (*number, request))
    }

    /// How many requests were answered or given up so far.
    pub fn closed_count(&self) -> u64 {
        self.closed
    }

    /// Whether `id` is the id of a barrier that has not come out of `responder`.
    pub fn is_barrier(&self, responder: Seat, id: &Id) -> bool {
        let is_barrier = |request: &PendingRequest| matches!(request.purpose, Purpose::Barrier(_));
        self.request(id)
            .is_some_and(|request| request.responder == responder && is_barrier(request))
    }

    /// The request that the requester of `copy` has to answer and has forwarded as `copy`. This is a
    /// request with the same fingerprint; otherwise one whose params `copy` extends; otherwise the only one
    /// with the same method.
    pub fn original(&self, copy: &PendingRequest) -> Option<Id> {
        let owed = self.open.iter().filter(|(_, request)| {
            request.responder == copy.requester
                && request.toward == copy.toward
                && request.method == copy.method
                && !matches!(request.purpose, Purpose::Barrier(_))
        });
        let mut budget = COMPARE_BUDGET;
        let mut extended =
            |request: &PendingRequest| match (&copy.fingerprint, &request.fingerprint) {
                (Fingerprint::Params(more), Fingerprint::Params(less)) => {
                    more.extends_within_budget(less, &mut budget)
                }
                _ => false,
            };
        let same = owed.clone().find(|(_, request)| request.fingerprint == copy.fingerprint);
        let found = same.or_else(|| owed.clone().find(|(_, request)| extended(request)));
        let only = || owed.clone().next().filter(|_| owed.clone().count() == 1);
        found.or_else(only).map(|(number, _)| id_of(*number))
    }

    /// How many answers `responder` owes.
    pub fn owed_count(&self, responder: Seat) -> usize {
        self.open.values().filter(|request| request.responder == responder).count()
    }

    /// The requests that `requester` sent with `id`: at most one, unless it reused the id.
    pub fn find(
        &mut self,
        requester: Seat,
        id: &Id,
    ) -> impl Iterator<Item = (Id, &mut PendingRequest)> {
        self.open
            .iter_mut()
            .filter(move |(_, request)| {
                request.requester == requester && request.requester_id == *id
            })
            .map(|(number, request)| (id_of(*number), request))
    }

    /// The pending requests, oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &PendingRequest> {
        self.open.values()
    }

    /// The pending requests with the ids under which they were delivered, oldest first.
    pub fn requests_with_ids(&self) -> impl Iterator<Item = (Id, &PendingRequest)> {
        self.open.iter().map(|(number, request)| (id_of(*number), request))
    }

    /// The open barriers: the seat of each, and the messages that wait behind it.
    pub fn barriers(&mut self) -> impl Iterator<Item = (Seat, &mut Vec<Held>)> {
        self.open.values_mut().filter_map(|request| match &mut request.purpose {
            Purpose::Barrier(held) => Some((request.responder, held)),
            _ => None,
        })
    }

    /// The messages that wait behind this barrier.
    pub fn held_behind(&mut self, id: &Id) -> Option<&mut Vec<Held>> {
        match &mut self.open.get_mut(&number_of(id)?)?.purpose {
            Purpose::Barrier(held) => Some(held),
            _ => None,
        }
    }

    /// Removes the requests that `seat` has to answer, oldest first.
    pub fn take_owed_by(&mut self, seat: Seat) -> Vec<(Id, PendingRequest)> {
        self.take(|request| request.responder == seat)
    }

    /// Removes the requests that `seat` sent, oldest first.
    pub fn take_sent_by(&mut self, seat: Seat) -> Vec<(Id, PendingRequest)> {
        self.take(|request| request.requester == seat)
    }

    /// Lets the conductor itself owe the answer to a request.
    pub(crate) fn take_over(&mut self, id: &Id) {
        let request = number_of(id).and_then(|number| self.open.get_mut(&number));
        if let Some(request) = request {
            request.responder = Seat::CONDUCTOR;
        }
    }

    /// Adds a removed request again, under its old id.
    pub fn restore(&mut self, id: &Id, request: PendingRequest) {
        if let Some(number) = number_of(id) {
            self.insert(number, request);
        }
    }

    /// Removes all requests, oldest first.
    pub fn drain(&mut self) -> Vec<PendingRequest> {
        self.take(|_| true).into_iter().map(|(_, request)| request).collect()
    }

    fn take(&mut self, test: impl Fn(&PendingRequest) -> bool) -> Vec<(Id, PendingRequest)> {
        let taken = self.open.extract_if(.., |_, request| test(request));
        let taken: Vec<_> = taken.map(|(number, request)| (id_of(number), request)).collect();
        taken.iter().for_each(|(_, request)| self.on_removed(request));
        taken
    }

    /// Whether `requester` has sent a request that is not answered yet.
    pub fn is_waiting(&self, requester: Seat) -> bool {
        self.open.values().any(|request| request.requester == requester)
    }

    /// How many requests are pending.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no request is pending.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(requester: u16, id: u64, responder: u16) -> PendingRequest {
        PendingRequest {
            requester: Seat(requester),
            requester_id: Id::from(id),
            responder: Seat(responder),
            toward: Side::Agent,
            method: "m".into(),
            fingerprint: Fingerprint::None,
            sent_at: Time(0),
            cancelled: false,
            purpose: Purpose::Forward,
            via: Vec::new(),
        }
    }

    #[test]
    fn only_the_responder_may_answer_and_only_once() {
        let mut pending = PendingRequests::default();
        let id = pending.open(request(0, 1, 1));
        assert!(pending.close(Seat(2), &id).is_none());
        assert_eq!(pending.close(Seat(1), &id).unwrap().requester_id, Id::from(1));
        assert!(pending.close(Seat(1), &id).is_none());
        for foreign in ["c:01", "c:+1", "c:", "1", "x"] {
            assert_eq!(number_of(&Id::string(foreign)), None, "{foreign}");
        }
        assert_eq!(number_of(&Id::from(1)), None);
    }

    #[test]
    fn two_requesters_may_use_the_same_id() {
        let mut pending = PendingRequests::default();
        let first = pending.open(request(0, 1, 1));
        let second = pending.open(request(2, 1, 1));
        assert_ne!(first, second);
        assert_eq!(pending.find(Seat(0), &Id::from(1)).map(|it| it.0).collect::<Vec<_>>(), [first]);
        assert_eq!(pending.close(Seat(1), &second).unwrap().requester, Seat(2));
    }

    #[test]
    fn the_requests_that_a_seat_owes_are_removed_oldest_first() {
        let mut pending = PendingRequests::default();
        for id in [5, 3, 9] {
            pending.open(request(0, id, 1));
            pending.open(request(1, id, 2));
        }
        assert_eq!([0, 1, 2].map(|seat| pending.owed_count(Seat(seat))), [0, 3, 3]);
        let owed: Vec<_> =
            pending.take_owed_by(Seat(1)).iter().map(|it| it.1.requester_id.clone()).collect();
        assert_eq!(owed, [5, 3, 9].map(Id::from));
        assert!(pending.is_waiting(Seat(1)) && !pending.is_waiting(Seat(0)));
        pending.take_sent_by(Seat(1));
        assert!(pending.is_empty());
    }
}
