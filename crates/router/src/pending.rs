//! Which questions are open.

use std::collections::BTreeMap;

use acp_wire::{Id, Json, Outcome, Side};

use crate::event::Time;
use crate::recovery::Held;
use crate::seat::Seat;

/// A question that somebody asked and somebody else has yet to answer.
#[derive(Debug, Clone)]
pub struct PendingRequest {
    /// [`Seat::SELF`] if we asked for reasons of our own.
    pub requester: Seat,
    /// The id the requester gave it; its answer carries it again.
    pub requester_id: Id,
    pub responder: Seat,
    pub toward: Side,
    pub method: String,
    pub fingerprint: Fingerprint,
    /// When it was asked.
    pub sent_at: Time,
    /// A cancellation was passed on already.
    pub cancelled: bool,
    pub purpose: Purpose,
    /// Those who had passed it on and died of something else meanwhile: what the responder said before
    /// it answers comes to the requester through them.
    pub via: Vec<Seat>,
}

/// What becomes of the answer.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// It is passed on to the requester.
    Forward,
    /// It is an `initialize` on its way to the agent; see `greeting` for what is answered in place of
    /// a good result.
    Initialize { answer_instead: Option<Outcome> },
    /// It is the `initialize` of one who has taken the place of another (see `absence`).
    Reinitialize,
    /// It means that all that was said before has come through: this goes on then (see `barrier`).
    Barrier(Vec<Held>),
}

/// As much of a question's params as it takes to recognise it when it is passed on.
#[derive(Debug, Clone, PartialEq)]
pub enum Fingerprint {
    /// Nobody could pass it on.
    None,
    Params(Json),
    /// Too long to be kept for that, or too many are kept already: it is recognised only if it is passed on as
    /// it was.
    Digest {
        length: usize,
        hash: u64,
    },
}

impl Fingerprint {
    /// Longer params are not kept.
    const LONGEST: usize = 64 * 1024;
    /// Params up to this length are always kept: they cost little more than the rest of a question.
    const SHORT: usize = 1024;
    /// So many bytes of longer params are kept for all open questions of a chain.
    const MOST: usize = 16 * 1024 * 1024;

    /// `kept`: how many bytes are kept already.
    pub fn of(params: Option<&Json>, kept: usize) -> Fingerprint {
        let Some(params) = params else { return Fingerprint::Params(Json::EMPTY) };
        let length = params.as_bytes().len();
        let fits = length <= Fingerprint::LONGEST && kept + length <= Fingerprint::MOST;
        match length <= Fingerprint::SHORT || fits {
            true => Fingerprint::Params(params.detached()),
            false => Fingerprint::Digest { length, hash: hash(params.as_bytes()) },
        }
    }

    /// How many bytes are kept of it, if it counts.
    fn kept(&self) -> usize {
        match self {
            Fingerprint::Params(params) if params.as_bytes().len() > Fingerprint::SHORT => {
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

/// The same for the same bytes, in every run.
fn hash(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The table of open questions. Every question gets an id of ours, never used twice.
#[derive(Debug, Default)]
pub struct PendingRequests {
    last: u64,
    open: BTreeMap<u64, PendingRequest>,
    /// How many questions each seat has asked, by method.
    methods: BTreeMap<Seat, BTreeMap<String, usize>>,
    /// How many bytes of params are kept.
    kept: usize,
    /// How many questions were taken out.
    closed: u64,
}

/// How many bytes may be looked at to find the question that was passed on with changes.
const MOST_WORK: usize = 1024 * 1024;

/// What our ids begin with: no component counts like that, so an echo of one of our ids cannot
/// pass for one of its own.
const PREFIX: &str = "c:";

/// The id of the question with this number.
pub fn id_of(number: u64) -> Id {
    Id::string(&format!("{PREFIX}{number}"))
}

fn number_of(id: &Id) -> Option<u64> {
    let text = id.text()?;
    let number = text.strip_prefix(PREFIX)?.parse().ok()?;
    (id_of(number).text()? == text).then_some(number)
}

impl PendingRequests {
    /// Writes a question down; the id is the one to ask it with.
    pub fn open(&mut self, ask: PendingRequest) -> Id {
        self.last += 1;
        self.insert(self.last, ask);
        id_of(self.last)
    }

    fn insert(&mut self, number: u64, ask: PendingRequest) {
        self.kept += ask.fingerprint.kept();
        let methods = self.methods.entry(ask.requester).or_default();
        match methods.get_mut(&ask.method) {
            Some(count) => *count += 1,
            None => drop(methods.insert(ask.method.clone(), 1)),
        }
        self.open.insert(number, ask);
    }

    /// A question was taken out.
    fn removed(&mut self, ask: &PendingRequest) {
        self.kept -= ask.fingerprint.kept();
        self.closed += 1;
        let Some(methods) = self.methods.get_mut(&ask.requester) else { return };
        match methods.get_mut(&ask.method) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(methods.remove(&ask.method)),
        }
    }

    /// How many bytes of params are kept.
    pub fn kept_param_bytes(&self) -> usize {
        self.kept
    }

    /// Has `requester` asked something with this method that is not answered yet?
    pub fn has_open_request(&self, requester: Seat, method: &str) -> bool {
        self.methods.get(&requester).is_some_and(|methods| methods.contains_key(method))
    }

    /// Takes the question that `responder` answers with `id`. Only who was asked may answer.
    pub fn close(&mut self, responder: Seat, id: &Id) -> Option<PendingRequest> {
        let number = number_of(id)?;
        if self.open.get(&number)?.responder != responder {
            return None;
        }
        let ask = self.open.remove(&number)?;
        self.removed(&ask);
        Some(ask)
    }

    /// The question that was asked with this id.
    pub fn request(&self, id: &Id) -> Option<&PendingRequest> {
        self.open.get(&number_of(id)?)
    }

    /// The number of the question with this id, if this seat has yet to answer it.
    pub fn owed_number(&self, responder: Seat, id: &Id) -> Option<u64> {
        number_of(id).filter(|&number| self.owes(responder, number))
    }

    /// Has this seat yet to answer the question with this number?
    pub fn owes(&self, responder: Seat, number: u64) -> bool {
        self.open.get(&number).is_some_and(|ask| ask.responder == responder)
    }

    /// The questions that this seat has yet to answer, and their numbers, oldest first.
    pub fn owed(&self, responder: Seat) -> impl Iterator<Item = (u64, &PendingRequest)> {
        let owed = move |(_, ask): &(&u64, &PendingRequest)| ask.responder == responder;
        self.open.iter().filter(owed).map(|(number, ask)| (*number, ask))
    }

    /// How many questions were answered, or given up, so far.
    pub fn closed(&self) -> u64 {
        self.closed
    }

    /// Is `id` that of a barrier that this seat has yet to let through?
    pub fn is_barrier(&self, responder: Seat, id: &Id) -> bool {
        let sounds = |ask: &PendingRequest| matches!(ask.purpose, Purpose::Barrier(_));
        self.request(id).is_some_and(|ask| ask.responder == responder && sounds(ask))
    }

    /// The question which the requester of `copy` has yet to answer and has passed on with `copy`: the same
    /// one, else one that asks less, else the only one with that method.
    pub fn original(&self, copy: &PendingRequest) -> Option<Id> {
        let owed = self.open.iter().filter(|(_, ask)| {
            ask.responder == copy.requester
                && ask.toward == copy.toward
                && ask.method == copy.method
                && !matches!(ask.purpose, Purpose::Barrier(_))
        });
        let mut work = MOST_WORK;
        let mut extended = |ask: &PendingRequest| match (&copy.fingerprint, &ask.fingerprint) {
            (Fingerprint::Params(more), Fingerprint::Params(less)) => {
                more.extends_within_budget(less, &mut work)
            }
            _ => false,
        };
        let same = owed.clone().find(|(_, ask)| ask.fingerprint == copy.fingerprint);
        let found = same.or_else(|| owed.clone().find(|(_, ask)| extended(ask)));
        let only = || owed.clone().next().filter(|_| owed.clone().count() == 1);
        found.or_else(only).map(|(number, _)| id_of(*number))
    }

    /// How many questions this seat has yet to answer.
    pub fn owed_count(&self, responder: Seat) -> usize {
        self.open.values().filter(|ask| ask.responder == responder).count()
    }

    /// The questions that `requester` calls `id`: one, unless it used the id twice at once.
    pub fn find(
        &mut self,
        requester: Seat,
        id: &Id,
    ) -> impl Iterator<Item = (Id, &mut PendingRequest)> {
        self.open
            .iter_mut()
            .filter(move |(_, ask)| ask.requester == requester && ask.requester_id == *id)
            .map(|(number, ask)| (id_of(*number), ask))
    }

    /// The open questions, oldest first.
    pub fn requests(&self) -> impl DoubleEndedIterator<Item = &PendingRequest> {
        self.open.values()
    }

    /// The open questions and the ids they were asked with, oldest first.
    pub fn requests_with_ids(&self) -> impl Iterator<Item = (Id, &PendingRequest)> {
        self.open.iter().map(|(number, ask)| (id_of(*number), ask))
    }

    /// The open barriers: the seat of each, and what goes on when it has come through.
    pub fn barriers(&mut self) -> impl Iterator<Item = (Seat, &mut Vec<Held>)> {
        self.open.values_mut().filter_map(|ask| match &mut ask.purpose {
            Purpose::Barrier(held) => Some((ask.responder, held)),
            _ => None,
        })
    }

    /// What goes on when this barrier has come through.
    pub fn held_behind(&mut self, id: &Id) -> Option<&mut Vec<Held>> {
        match &mut self.open.get_mut(&number_of(id)?)?.purpose {
            Purpose::Barrier(held) => Some(held),
            _ => None,
        }
    }

    /// Takes all that `seat` owes, oldest first.
    pub fn take_owed_by(&mut self, seat: Seat) -> Vec<(Id, PendingRequest)> {
        self.take(|ask| ask.responder == seat)
    }

    /// Takes all that `seat` asked, oldest first: nobody is left to hear the answers.
    pub fn take_sent_by(&mut self, seat: Seat) -> Vec<(Id, PendingRequest)> {
        self.take(|ask| ask.requester == seat)
    }

    /// Puts a question back that was taken: it has the id it had.
    pub fn restore(&mut self, id: &Id, ask: PendingRequest) {
        if let Some(number) = number_of(id) {
            self.insert(number, ask);
        }
    }

    /// Takes everything, oldest first.
    pub fn drain(&mut self) -> Vec<PendingRequest> {
        self.take(|_| true).into_iter().map(|(_, ask)| ask).collect()
    }

    fn take(&mut self, test: impl Fn(&PendingRequest) -> bool) -> Vec<(Id, PendingRequest)> {
        let taken = self.open.extract_if(.., |_, ask| test(ask));
        let taken: Vec<_> = taken.map(|(number, ask)| (id_of(number), ask)).collect();
        taken.iter().for_each(|(_, ask)| self.removed(ask));
        taken
    }

    pub fn is_waiting(&self, requester: Seat) -> bool {
        self.open.values().any(|ask| ask.requester == requester)
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(requester: u16, id: u64, responder: u16) -> PendingRequest {
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
    fn only_who_was_asked_may_answer_and_only_once() {
        let mut pending = PendingRequests::default();
        let id = pending.open(ask(0, 1, 1));
        assert!(pending.close(Seat(2), &id).is_none());
        assert_eq!(pending.close(Seat(1), &id).unwrap().requester_id, Id::from(1));
        assert!(pending.close(Seat(1), &id).is_none());
        for foreign in ["c:01", "c:+1", "c:", "1", "x"] {
            assert_eq!(number_of(&Id::string(foreign)), None, "{foreign}");
        }
        assert_eq!(number_of(&Id::from(1)), None);
    }

    #[test]
    fn two_askers_may_use_one_id() {
        let mut pending = PendingRequests::default();
        let first = pending.open(ask(0, 1, 1));
        let second = pending.open(ask(2, 1, 1));
        assert_ne!(first, second);
        assert_eq!(pending.find(Seat(0), &Id::from(1)).map(|it| it.0).collect::<Vec<_>>(), [first]);
        assert_eq!(pending.close(Seat(1), &second).unwrap().requester, Seat(2));
    }

    #[test]
    fn what_a_seat_owed_comes_back_oldest_first() {
        let mut pending = PendingRequests::default();
        for id in [5, 3, 9] {
            pending.open(ask(0, id, 1));
            pending.open(ask(1, id, 2));
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
