//! Which questions of a component are those that it was asked, passed on.
//!
//! A proxy that passes a question on asks its successor the same, or more: with further members, or further
//! elements. Should it die meanwhile, the answer goes to whoever asked in the first place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::{Id, Side};

use crate::pending::{Fingerprint, PendingRequest, Purpose};

/// How many bytes may be looked at to find the questions that were passed on with changes. Beyond that they
/// count as not passed on, and whoever asked is told to send again.
const MOST_WORK: usize = 32 * 1024 * 1024;

/// What it costs to look at one question, beside its params.
const EACH: usize = 128;

/// The questions that a component has asked.
pub(crate) struct SentRequests {
    /// In the order in which they were asked. Those that were taken are gone.
    asked: VecDeque<Option<(Id, PendingRequest)>>,
    /// How many were taken from the front.
    gone: usize,
    /// Where those stand that ask exactly this.
    exact: BTreeMap<Digest, VecDeque<usize>>,
    work: usize,
}

/// What a question asks: which way, the method, and the params by length and hash.
type Digest = (Side, String, usize, u64);

fn digest(ask: &PendingRequest) -> Option<Digest> {
    let (length, hash) = ask.fingerprint.digest()?;
    Some((ask.toward, ask.method.clone(), length, hash))
}

impl SentRequests {
    pub fn new(asked: Vec<(Id, PendingRequest)>) -> SentRequests {
        let mut exact: BTreeMap<Digest, VecDeque<usize>> = BTreeMap::new();
        for (at, (_, ask)) in asked.iter().enumerate() {
            if let Some(digest) = digest(ask) {
                exact.entry(digest).or_default().push_back(at);
            }
        }
        let asked = asked.into_iter().map(Some).collect();
        SentRequests { asked, gone: 0, exact, work: MOST_WORK }
    }

    /// Takes those with which the component has passed on what it owed: exactly the same first, then what asks
    /// more. `lost` are ids of questions that must not be answered.
    pub fn take_copies(
        &mut self,
        owed: &[(Id, PendingRequest)],
        lost: &[Id],
    ) -> Vec<Option<(Id, PendingRequest)>> {
        let lost: BTreeSet<&Id> = lost.iter().collect();
        let passed = |(id, ask): &(Id, PendingRequest)| {
            matches!(ask.purpose, Purpose::Forward | Purpose::Initialize { .. })
                && !lost.contains(id)
        };
        let passed: Vec<bool> = owed.iter().map(passed).collect();
        let same = owed.iter().zip(&passed).map(|((_, ask), passed)| match passed {
            true => self.take_same(ask),
            false => None,
        });
        let mut copies: Vec<_> = same.collect();
        for (((_, ask), copy), passed) in owed.iter().zip(&mut copies).zip(passed) {
            if passed && copy.is_none() {
                *copy = self.take_extended(ask);
            }
        }
        copies
    }

    /// Takes the oldest one that asks exactly what `original` asks.
    fn take_same(&mut self, original: &PendingRequest) -> Option<(Id, PendingRequest)> {
        let at = self.exact.get_mut(&digest(original)?)?.pop_front()?;
        self.take(at)
    }

    /// Takes the oldest one that asks all that `original` asks.
    fn take_extended(&mut self, original: &PendingRequest) -> Option<(Id, PendingRequest)> {
        let Fingerprint::Params(theirs) = &original.fingerprint else { return None };
        for at in 0..self.asked.len() {
            self.work = self.work.checked_sub(EACH)?;
            let Some((_, ask)) = &self.asked[at] else { continue };
            let alike = ask.toward == original.toward && ask.method == original.method;
            if let Fingerprint::Params(ours) = &ask.fingerprint
                && alike
                && ours.extends_within_budget(theirs, &mut self.work)
            {
                return self.take(at + self.gone);
            }
        }
        None
    }

    fn take(&mut self, at: usize) -> Option<(Id, PendingRequest)> {
        let taken = self.asked.get_mut(at.checked_sub(self.gone)?)?.take();
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.gone += 1;
        }
        taken
    }

    /// Those that were not taken, oldest first.
    pub fn rest(self) -> impl Iterator<Item = (Id, PendingRequest)> {
        self.asked.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use acp_wire::Json;

    use super::*;
    use crate::event::Time;
    use crate::seat::Seat;

    fn ask(method: &str, params: &str) -> PendingRequest {
        PendingRequest {
            requester: Seat(1),
            requester_id: Id::NULL,
            responder: Seat(2),
            toward: Side::Agent,
            method: method.into(),
            fingerprint: Fingerprint::of(Some(&Json::trusted(params.to_owned())), 0),
            sent_at: Time(0),
            cancelled: false,
            purpose: Purpose::Forward,
            via: Vec::new(),
        }
    }

    fn numbered(asks: impl IntoIterator<Item = PendingRequest>) -> Vec<(Id, PendingRequest)> {
        (0_u64..).map(Id::from).zip(asks).collect()
    }

    fn pairs(
        owed: Vec<PendingRequest>,
        asked: Vec<PendingRequest>,
        lost: &[Id],
    ) -> (Vec<Option<Id>>, usize) {
        let mut asked = SentRequests::new(numbered(asked));
        let copies = asked.take_copies(&numbered(owed), lost);
        (copies.into_iter().map(|it| it.map(|(id, _)| id)).collect(), asked.rest().count())
    }

    #[test]
    fn the_same_is_found_before_what_asks_more() {
        let owed = vec![ask("m", "{}"), ask("m", r#"{"a":1}"#), ask("m", "{}"), ask("n", "{}")];
        let asked = vec![ask("m", r#"{"a":1}"#), ask("m", "{}"), ask("m", r#"{"b":2}"#)];
        let found = [Some(1), Some(0), Some(2), None].map(|it: Option<u64>| it.map(Id::from));
        assert_eq!(pairs(owed.clone(), asked.clone(), &[]), (found.to_vec(), 0));
        let (found, rest) = pairs(owed, asked, &[Id::from(0), Id::from(2)]);
        assert_eq!((found, rest), (vec![None, Some(Id::from(0)), None, None], 2));
    }

    #[test]
    fn long_params_are_found_if_they_are_the_same() {
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(64 * 1024));
        let other = long.replace("text", "tExt");
        assert!(matches!(ask("m", &long).fingerprint, Fingerprint::Digest { .. }));
        let (found, _) = pairs(vec![ask("m", &long), ask("m", &other)], vec![ask("m", &long)], &[]);
        assert_eq!(found, [Some(Id::from(0)), None]);
        // One may have been kept as a whole, and the other not.
        let kept = ask("m", &format!("[1{}]", ",1".repeat(1050)));
        let fingerprint =
            Fingerprint::Digest { length: 2103, hash: kept.fingerprint.digest().unwrap().1 };
        let (found, _) =
            pairs(vec![kept.clone()], vec![PendingRequest { fingerprint, ..kept }], &[]);
        assert_eq!(found, [Some(Id::from(0))]);
    }

    /// Issue 11, item 25: each of these takes minutes if everything is compared with everything.
    #[test]
    fn many_questions_are_found_in_little_time() {
        let many = 5_000;
        let owed = |it: usize| ask("m", &format!(r#"{{"sessionId":"s","n":{it}}}"#));
        let same: Vec<_> = (0..many).rev().map(owed).collect();
        let (found, rest) = pairs((0..many).map(owed).collect(), same, &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
        let more = |it: usize| ask("m", &format!(r#"{{"n":{it},"sessionId":"s","more":1}}"#));
        let (found, rest) =
            pairs((0..many).map(owed).collect(), (0..many).map(more).collect(), &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
        // In the wrong order and with changes: given up when it takes too long, but nothing is mixed up.
        let more: Vec<_> = (0..many).rev().map(more).collect();
        let (found, rest) = pairs((0..many).map(owed).collect(), more, &[]);
        let found: Vec<_> =
            found.into_iter().enumerate().filter_map(|(n, it)| Some((n, it?))).collect();
        assert_eq!(found.len() + rest, many);
        assert!(
            !found.is_empty() && found.iter().all(|(n, id)| *id == Id::from((many - 1 - n) as u64))
        );
    }

    #[test]
    fn large_questions_with_changes_are_found_in_little_time() {
        let params = |it: usize, more: &str| {
            let members = (0..5_500).map(|n| format!(r#""{n}":{it}"#));
            format!("{{{}{more}}}", members.collect::<Vec<_>>().join(","))
        };
        let owed = (0..12).map(|it| ask("m", &params(it, "")));
        let asked = (0..12).rev().map(|it| ask("m", &params(it, r#","more":1"#)));
        let (found, rest) = pairs(owed.collect(), asked.collect(), &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
    }
}
