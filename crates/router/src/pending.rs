//! Which questions are open.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::{Id, Json, Outcome, Side};

use crate::absence::Held;
use crate::event::Time;
use crate::seat::Seat;

/// A question that somebody asked and somebody else has yet to answer.
#[derive(Debug, Clone)]
pub struct Ask {
    /// [`Seat::SELF`] if we asked for reasons of our own.
    pub asker: Seat,
    /// The id the asker gave it; its answer carries it again.
    pub asker_id: Id,
    pub answerer: Seat,
    pub toward: Side,
    pub method: String,
    pub gist: Gist,
    /// When it was asked.
    pub at: Time,
    /// A cancellation was passed on already.
    pub cancelled: bool,
    pub purpose: Purpose,
    /// Those who had passed it on and died of something else meanwhile: what the answerer said before
    /// it answers comes to the asker through them.
    pub via: Vec<Seat>,
}

/// What becomes of the answer.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// It is passed on to the asker.
    Pass,
    /// It is an `initialize` on its way to the agent; see `greeting` for what is answered in place of
    /// a good result.
    Greeting { instead: Option<Outcome> },
    /// It is the `initialize` of one who has taken the place of another (see `absence`).
    Return,
    /// It means that all that was said before has come through: this goes on then (see `absence`).
    Sounding(Vec<Held>),
}

/// As much of a question's params as it takes to recognise it when it is passed on.
#[derive(Debug, Clone, PartialEq)]
pub enum Gist {
    /// Nobody could pass it on.
    None,
    Whole(Json),
    /// Too long to be kept for that.
    Ends {
        length: usize,
        head: Bytes,
        tail: Bytes,
    },
}

impl Gist {
    const LONGEST: usize = 64 * 1024;
    const END: usize = 4 * 1024;

    pub fn of(params: Option<&Json>) -> Gist {
        let Some(params) = params else { return Gist::Whole(Json::EMPTY) };
        let text = params.as_bytes();
        if text.len() <= Gist::LONGEST {
            return Gist::Whole(params.detached());
        }
        let piece = Bytes::copy_from_slice;
        let (head, tail) = (&text[..Gist::END], &text[text.len() - Gist::END..]);
        Gist::Ends { length: text.len(), head: piece(head), tail: piece(tail) }
    }

    /// Does a question with this gist ask all that the other one asks?
    fn covers(&self, other: &Gist) -> bool {
        match (self, other) {
            (Gist::None, _) | (_, Gist::None) => false,
            (Gist::Whole(ours), Gist::Whole(theirs)) => ours.extends(theirs),
            (ours, theirs) => ours == theirs,
        }
    }
}

impl Ask {
    /// Has its asker passed `original`, which it owes the answer to, on with this?
    pub fn is_copy_of(&self, original: &Ask) -> bool {
        self.toward == original.toward
            && self.method == original.method
            && self.gist.covers(&original.gist)
    }
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

    /// The question that was asked with this id.
    pub fn get(&self, id: &Id) -> Option<&Ask> {
        self.open.get(&number_of(id)?)
    }

    /// Is `id` that of a question which this seat has yet to answer?
    pub fn owes(&self, answerer: Seat, id: &Id) -> bool {
        self.get(id).is_some_and(|ask| ask.answerer == answerer)
    }

    /// Is `id` that of a sounding that this seat has yet to let through?
    pub fn is_sounding(&self, answerer: Seat, id: &Id) -> bool {
        let sounds = |ask: &Ask| matches!(ask.purpose, Purpose::Sounding(_));
        self.get(id).is_some_and(|ask| ask.answerer == answerer && sounds(ask))
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

    /// The open questions, oldest first.
    pub fn asks(&self) -> impl DoubleEndedIterator<Item = &Ask> {
        self.open.values()
    }

    /// The open questions and the ids they were asked with, oldest first.
    pub fn questions(&self) -> impl Iterator<Item = (Id, &Ask)> {
        self.open.iter().map(|(number, ask)| (id_of(*number), ask))
    }

    /// The open soundings: the seat of each, and what goes on when it has come through.
    pub fn soundings(&mut self) -> impl Iterator<Item = (Seat, &mut Vec<Held>)> {
        self.open.values_mut().filter_map(|ask| match &mut ask.purpose {
            Purpose::Sounding(held) => Some((ask.answerer, held)),
            _ => None,
        })
    }

    /// What goes on when this sounding has come through.
    pub fn behind(&mut self, id: &Id) -> Option<&mut Vec<Held>> {
        match &mut self.open.get_mut(&number_of(id)?)?.purpose {
            Purpose::Sounding(held) => Some(held),
            _ => None,
        }
    }

    /// Takes all that `seat` owes, oldest first.
    pub fn abandon(&mut self, seat: Seat) -> Vec<(Id, Ask)> {
        self.take(|ask| ask.answerer == seat)
    }

    /// Takes all that `seat` asked, oldest first: nobody is left to hear the answers.
    pub fn forget(&mut self, seat: Seat) -> Vec<(Id, Ask)> {
        self.take(|ask| ask.asker == seat)
    }

    /// Puts a question back that was taken: it has the id it had.
    pub fn restore(&mut self, id: &Id, ask: Ask) {
        if let Some(number) = number_of(id) {
            self.open.insert(number, ask);
        }
    }

    /// Takes everything, oldest first.
    pub fn drain(&mut self) -> Vec<Ask> {
        self.take(|_| true).into_iter().map(|(_, ask)| ask).collect()
    }

    fn take(&mut self, test: impl Fn(&Ask) -> bool) -> Vec<(Id, Ask)> {
        let taken = self.open.extract_if(.., |_, ask| test(ask));
        taken.map(|(number, ask)| (id_of(number), ask)).collect()
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
            gist: Gist::None,
            at: Time(0),
            cancelled: false,
            purpose: Purpose::Pass,
            via: Vec::new(),
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
        let owed: Vec<_> =
            pending.abandon(Seat(1)).iter().map(|it| it.1.asker_id.clone()).collect();
        assert_eq!(owed, [5, 3, 9].map(Id::from));
        assert!(pending.waits(Seat(1)) && !pending.waits(Seat(0)));
        pending.forget(Seat(1));
        assert!(pending.is_empty());
    }
}
