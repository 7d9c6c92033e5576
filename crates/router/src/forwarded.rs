//! Finds the requests that a component has forwarded.
//!
//! A proxy that forwards a request sends its successor a request with the same params, or with more members
//! or elements. If the proxy goes down before it answers, the successor's answer goes directly to the
//! original requester.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp_wire::{Id, Side};

use crate::pending::{Fingerprint, PendingRequest, Purpose};

/// How many bytes are compared at most to find requests that were forwarded with changes. Requests that are
/// not found within this budget count as not forwarded; their requesters get an error and can send them
/// again.
const COMPARE_BUDGET: usize = 32 * 1024 * 1024;

/// What the comparison with one request costs, in addition to its params.
const REQUEST_COST: usize = 128;

/// The requests that a component has sent and that are not answered yet.
pub(crate) struct SentRequests {
    /// In the order in which they were sent. `None` where a request was taken.
    sent: VecDeque<Option<(Id, PendingRequest)>>,
    /// How many entries were removed from the front of `sent`.
    removed: usize,
    /// The positions of the requests with this digest.
    exact: BTreeMap<Digest, VecDeque<usize>>,
    budget: usize,
}

/// The direction, the method, and the length and hash of the params of a request.
type Digest = (Side, String, usize, u64);

fn digest(request: &PendingRequest) -> Option<Digest> {
    let (length, hash) = request.fingerprint.digest()?;
    Some((request.toward, request.method.clone(), length, hash))
}

impl SentRequests {
    pub(crate) fn new(sent: Vec<(Id, PendingRequest)>) -> SentRequests {
        let mut exact: BTreeMap<Digest, VecDeque<usize>> = BTreeMap::new();
        for (at, (_, request)) in sent.iter().enumerate() {
            if let Some(digest) = digest(request) {
                exact.entry(digest).or_default().push_back(at);
            }
        }
        let sent = sent.into_iter().map(Some).collect();
        SentRequests { sent, removed: 0, exact, budget: COMPARE_BUDGET }
    }

    /// For each request in `owed`, takes the request with which the component has forwarded it. Requests
    /// with identical params are matched first, then those that extend the original. Requests whose id is
    /// in `lost` get no match.
    pub(crate) fn take_copies(
        &mut self,
        owed: &[(Id, PendingRequest)],
        lost: &[Id],
    ) -> Vec<Option<(Id, PendingRequest)>> {
        let lost: BTreeSet<&Id> = lost.iter().collect();
        let may_be_forwarded = |(id, request): &(Id, PendingRequest)| {
            matches!(request.purpose, Purpose::Forward | Purpose::Initialize { .. })
                && !lost.contains(id)
        };
        let may_be_forwarded: Vec<bool> = owed.iter().map(may_be_forwarded).collect();
        let same = owed.iter().zip(&may_be_forwarded).map(|((_, request), may_be_forwarded)| {
            match may_be_forwarded {
                true => self.take_same(request),
                false => None,
            }
        });
        let mut copies: Vec<_> = same.collect();
        for (((_, request), copy), may_be_forwarded) in
            owed.iter().zip(&mut copies).zip(may_be_forwarded)
        {
            if may_be_forwarded && copy.is_none() {
                *copy = self.take_extended(request);
            }
        }
        copies
    }

    /// Takes the oldest request with the same method and params as `original`.
    fn take_same(&mut self, original: &PendingRequest) -> Option<(Id, PendingRequest)> {
        let at = self.exact.get_mut(&digest(original)?)?.pop_front()?;
        self.take(at)
    }

    /// Takes the oldest request whose params extend those of `original`.
    fn take_extended(&mut self, original: &PendingRequest) -> Option<(Id, PendingRequest)> {
        let Fingerprint::Params(theirs) = &original.fingerprint else { return None };
        for at in 0..self.sent.len() {
            self.budget = self.budget.checked_sub(REQUEST_COST)?;
            let Some((_, request)) = &self.sent[at] else { continue };
            let alike = request.toward == original.toward && request.method == original.method;
            if let Fingerprint::Params(ours) = &request.fingerprint
                && alike
                && ours.extends_within_budget(theirs, &mut self.budget)
            {
                return self.take(at + self.removed);
            }
        }
        None
    }

    fn take(&mut self, at: usize) -> Option<(Id, PendingRequest)> {
        let taken = self.sent.get_mut(at.checked_sub(self.removed)?)?.take();
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.removed += 1;
        }
        taken
    }

    /// The requests that were not taken, oldest first.
    pub(crate) fn rest(self) -> impl Iterator<Item = (Id, PendingRequest)> {
        self.sent.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use acp_wire::Json;

    use super::*;
    use crate::event::Time;
    use crate::seat::Seat;

    fn request(method: &str, params: &str) -> PendingRequest {
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

    fn numbered(requests: impl IntoIterator<Item = PendingRequest>) -> Vec<(Id, PendingRequest)> {
        (0_u64..).map(Id::from).zip(requests).collect()
    }

    fn pairs(
        owed: Vec<PendingRequest>,
        sent: Vec<PendingRequest>,
        lost: &[Id],
    ) -> (Vec<Option<Id>>, usize) {
        let mut sent = SentRequests::new(numbered(sent));
        let copies = sent.take_copies(&numbered(owed), lost);
        (copies.into_iter().map(|it| it.map(|(id, _)| id)).collect(), sent.rest().count())
    }

    #[test]
    fn an_identical_request_is_matched_before_an_extended_one() {
        let owed = vec![
            request("m", "{}"),
            request("m", r#"{"a":1}"#),
            request("m", "{}"),
            request("n", "{}"),
        ];
        let sent = vec![request("m", r#"{"a":1}"#), request("m", "{}"), request("m", r#"{"b":2}"#)];
        let found = [Some(1), Some(0), Some(2), None].map(|it: Option<u64>| it.map(Id::from));
        assert_eq!(pairs(owed.clone(), sent.clone(), &[]), (found.to_vec(), 0));
        let (found, rest) = pairs(owed, sent, &[Id::from(0), Id::from(2)]);
        assert_eq!((found, rest), (vec![None, Some(Id::from(0)), None, None], 2));
    }

    #[test]
    fn long_params_are_matched_if_they_are_identical() {
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(64 * 1024));
        let other = long.replace("text", "tExt");
        assert!(matches!(request("m", &long).fingerprint, Fingerprint::Digest { .. }));
        let (found, _) =
            pairs(vec![request("m", &long), request("m", &other)], vec![request("m", &long)], &[]);
        assert_eq!(found, [Some(Id::from(0)), None]);
        // The params of one request may be kept, and of the other only the digest.
        let kept = request("m", &format!("[1{}]", ",1".repeat(1050)));
        let fingerprint =
            Fingerprint::Digest { length: 2103, hash: kept.fingerprint.digest().unwrap().1 };
        let (found, _) =
            pairs(vec![kept.clone()], vec![PendingRequest { fingerprint, ..kept }], &[]);
        assert_eq!(found, [Some(Id::from(0))]);
    }

    /// Each of these takes minutes if every request is compared with every other.
    #[test]
    fn many_requests_are_matched_quickly() {
        let many = 5_000;
        let owed = |it: usize| request("m", &format!(r#"{{"sessionId":"s","n":{it}}}"#));
        let same: Vec<_> = (0..many).rev().map(owed).collect();
        let (found, rest) = pairs((0..many).map(owed).collect(), same, &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
        let more = |it: usize| request("m", &format!(r#"{{"n":{it},"sessionId":"s","more":1}}"#));
        let (found, rest) =
            pairs((0..many).map(owed).collect(), (0..many).map(more).collect(), &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
        // In reverse order and with changes: the search stops at the budget, but no request is matched
        // wrongly.
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
    fn large_changed_requests_are_matched_quickly() {
        let params = |it: usize, more: &str| {
            let members = (0..5_500).map(|n| format!(r#""{n}":{it}"#));
            format!("{{{}{more}}}", members.collect::<Vec<_>>().join(","))
        };
        let owed = (0..12).map(|it| request("m", &params(it, "")));
        let sent = (0..12).rev().map(|it| request("m", &params(it, r#","more":1"#)));
        let (found, rest) = pairs(owed.collect(), sent.collect(), &[]);
        assert!(found.iter().all(Option::is_some) && rest == 0);
    }
}
