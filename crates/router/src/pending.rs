//! Which questions are open.

use std::collections::BTreeMap;

use wire::{Id, Outcome, Side};

use crate::seat::Seat;

/// A question that somebody asked and somebody else has yet to answer.
#[derive(Debug, Clone)]
pub struct Ask {
    pub asker: Seat,
    /// The id the asker gave it; its answer carries it again.
    pub asker_id: Id,
    pub answerer: Seat,
    pub toward: Side,
    pub method: String,
    /// It is an `initialize` on its way to the agent.
    pub greeting: bool,
    /// A cancellation was passed on already.
    pub cancelled: bool,
    /// What to answer in place of a good result (see `greeting`).
    pub instead: Option<Outcome>,
}

/// The table of open questions. Every question gets an id of ours, never used twice.
#[derive(Debug, Default)]
pub struct Pending {
    last: u64,
    open: BTreeMap<u64, Ask>,
}

/// What our ids begin with: no component counts like that, so an echo of one of our ids cannot
/// pass for one of its own.
const PREFIX: &str = "c:";

fn id_of(number: u64) -> Id {
    Id::string(&format!("{PREFIX}{number}"))
}

fn number_of(id: &Id) -> Option<u64> {
    let text = id.text()?;
    let number = text.strip_prefix(PREFIX)?.parse().ok()?;
    (id_of(number).text()? == text).then_some(number)
}

impl Pending {
    /// Writes a question down; the id is the one to ask it with.
    pub fn open(&mut self, ask: Ask) -> Id {
        self.last += 1;
        self.open.insert(self.last, ask);
        id_of(self.last)
    }

    /// Takes the question that `answerer` answers with `id`. Only who was asked may answer.
    pub fn close(&mut self, answerer: Seat, id: &Id) -> Option<Ask> {
        let number = number_of(id)?;
        if self.open.get(&number)?.answerer != answerer {
            return None;
        }
        self.open.remove(&number)
    }

    /// Is `id` that of a question which this seat has yet to answer?
    pub fn owes(&self, answerer: Seat, id: &Id) -> bool {
        let ask = number_of(id).and_then(|number| self.open.get(&number));
        ask.is_some_and(|ask| ask.answerer == answerer)
    }

    /// How many questions this seat has yet to answer.
    pub fn owed_by(&self, answerer: Seat) -> usize {
        self.open.values().filter(|ask| ask.answerer == answerer).count()
    }

    /// The questions that `asker` calls `id`: one, unless it used the id twice at once.
    pub fn find(&mut self, asker: Seat, id: &Id) -> impl Iterator<Item = (Id, &mut Ask)> {
        self.open
            .iter_mut()
            .filter(move |(_, ask)| ask.asker == asker && ask.asker_id == *id)
            .map(|(number, ask)| (id_of(*number), ask))
    }

    /// Takes all that `seat` owes, oldest first.
    pub fn abandon(&mut self, seat: Seat) -> Vec<Ask> {
        self.take(|ask| ask.answerer == seat)
    }

    /// Forgets all that `seat` asked: nobody is left to hear the answers.
    pub fn forget(&mut self, seat: Seat) {
        self.take(|ask| ask.asker == seat);
    }

    /// Takes everything, oldest first.
    pub fn drain(&mut self) -> Vec<Ask> {
        self.take(|_| true)
    }

    fn take(&mut self, test: impl Fn(&Ask) -> bool) -> Vec<Ask> {
        self.open.extract_if(.., |_, ask| test(ask)).map(|(_, ask)| ask).collect()
    }

    pub fn waits(&self, asker: Seat) -> bool {
        self.open.values().any(|ask| ask.asker == asker)
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

    fn ask(asker: u16, id: u64, answerer: u16) -> Ask {
        Ask {
            asker: Seat(asker),
            asker_id: Id::from(id),
            answerer: Seat(answerer),
            toward: Side::Agent,
            method: "m".into(),
            greeting: false,
            cancelled: false,
            instead: None,
        }
    }

    #[test]
    fn only_who_was_asked_may_answer_and_only_once() {
        let mut pending = Pending::default();
        let id = pending.open(ask(0, 1, 1));
        assert!(pending.close(Seat(2), &id).is_none());
        assert_eq!(pending.close(Seat(1), &id).unwrap().asker_id, Id::from(1));
        assert!(pending.close(Seat(1), &id).is_none());
        for foreign in ["c:01", "c:+1", "c:", "1", "x"] {
            assert_eq!(number_of(&Id::string(foreign)), None, "{foreign}");
        }
        assert_eq!(number_of(&Id::from(1)), None);
    }

    #[test]
    fn two_askers_may_use_one_id() {
        let mut pending = Pending::default();
        let first = pending.open(ask(0, 1, 1));
        let second = pending.open(ask(2, 1, 1));
        assert_ne!(first, second);
        assert_eq!(pending.find(Seat(0), &Id::from(1)).map(|it| it.0).collect::<Vec<_>>(), [first]);
        assert_eq!(pending.close(Seat(1), &second).unwrap().asker, Seat(2));
    }

    #[test]
    fn what_a_seat_owed_comes_back_oldest_first() {
        let mut pending = Pending::default();
        for id in [5, 3, 9] {
            pending.open(ask(0, id, 1));
            pending.open(ask(1, id, 2));
        }
        assert_eq!([0, 1, 2].map(|seat| pending.owed_by(Seat(seat))), [0, 3, 3]);
        let owed: Vec<_> = pending.abandon(Seat(1)).iter().map(|it| it.asker_id.clone()).collect();
        assert_eq!(owed, [5, 3, 9].map(Id::from));
        assert!(pending.waits(Seat(1)) && !pending.waits(Seat(0)));
        pending.forget(Seat(1));
        assert!(pending.is_empty());
    }
}
