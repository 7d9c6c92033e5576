//! Matches unreadable answers with the requests that they belong to.
//!
//! An unreadable answer belongs to one of the requests that the component had not answered at that moment: its
//! *candidates*. When as many answers are lost as there are candidates, no candidate will be answered any more.
//! Requests are identified by their numbers, which increase.

use std::collections::BTreeSet;

use acp_wire::{Id, Message};

/// How many groups of lost answers are kept for a component. Further ones are only logged.
const MAX_GROUPS: usize = 32;

/// With more pending requests than this, a lost answer is only logged.
const MAX_REQUESTS: usize = 4096;

/// The lost answers of one component.
#[derive(Debug, Default)]
pub(crate) struct LostAnswers {
    /// The pending requests that are candidates of any group.
    requests: BTreeSet<u64>,
    groups: Vec<Group>,
    /// How many requests of the whole chain had been closed at the last [`resolve`](LostAnswers::resolve).
    closed_before: u64,
    /// How many more events (a request is closed, or an answer is lost) must happen before any group can be resolved.
    slack: u64,
}

/// Lost answers with the same candidates.
#[derive(Debug)]
struct Group {
    candidates: Candidates,
    count: usize,
    why: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Candidates {
    /// All requests up to this number.
    UpTo(u64),
    /// These requests.
    Among(BTreeSet<u64>),
}

impl Candidates {
    fn contains(&self, request: u64) -> bool {
        match self {
            Candidates::UpTo(last) => request <= *last,
            Candidates::Among(requests) => requests.contains(&request),
        }
    }
}

impl LostAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Records `count` lost answers. Their candidates are the requests `among`, or if that is `None`, all that are
    /// `owed`. Returns whether there was room for them.
    pub(crate) fn add(
        &mut self,
        owed: &BTreeSet<u64>,
        among: Option<BTreeSet<u64>>,
        count: usize,
        why: &str,
    ) -> bool {
        let Some(&last) = owed.last() else { return false };
        if owed.len() > MAX_REQUESTS || count == 0 {
            return false;
        }
        let candidates = among.map_or(Candidates::UpTo(last), Candidates::Among);
        if let Some(group) = self.groups.iter_mut().find(|group| group.candidates == candidates) {
            group.count += count;
            self.slack = self.slack.saturating_sub(count as u64);
            return true;
        }
        if self.groups.len() >= MAX_GROUPS {
            return false;
        }
        self.requests.extend(owed.iter().filter(|&&request| candidates.contains(request)));
        self.groups.push(Group { candidates, count, why: why.to_owned() });
        self.slack = 0;
        true
    }

    /// Removes and returns the requests whose answers are now known to be lost, each with its error message. `closed`
    /// counts the requests of the whole chain that have been closed so far. `owes` returns whether a request is
    /// still pending.
    pub(crate) fn resolve(
        &mut self,
        closed: u64,
        owes: impl Fn(u64) -> bool,
    ) -> Vec<(u64, String)> {
        let mut resolved = Vec::new();
        if self.is_empty() || closed.saturating_sub(self.closed_before) < self.slack {
            return resolved;
        }
        self.closed_before = closed;
        self.requests.retain(|&request| owes(request));
        self.prune();
        while let Some(index) = self.find_resolved() {
            let Group { candidates, why, .. } = self.groups.remove(index);
            let requests: Vec<u64> = match &candidates {
                Candidates::UpTo(last) => self.requests.range(..=*last).copied().collect(),
                Candidates::Among(requests) => requests.iter().copied().collect(),
            };
            for request in requests {
                self.requests.remove(&request);
                resolved.push((request, why.clone()));
            }
            self.prune();
        }
        resolved
    }

    /// Removes closed requests from the candidates and groups without candidates, and merges groups with the same
    /// candidates.
    fn prune(&mut self) {
        let mut groups: Vec<Group> = Vec::new();
        for mut group in std::mem::take(&mut self.groups) {
            match &mut group.candidates {
                Candidates::UpTo(last) => match self.requests.range(..=*last).next_back() {
                    Some(newest) => *last = *newest,
                    None => continue,
                },
                Candidates::Among(requests) => {
                    requests.retain(|request| self.requests.contains(request));
                    if requests.is_empty() {
                        continue;
                    }
                }
            }
            match groups.iter_mut().find(|it| it.candidates == group.candidates) {
                Some(same) => same.count += group.count,
                None => groups.push(group),
            }
        }
        self.groups = groups;
    }

    /// Finds a group with at least as many lost answers as candidates. The lost answers of groups whose candidates are a
    /// subset count, too. If there is no such group, updates the slack.
    fn find_resolved(&mut self) -> Option<usize> {
        let mut ranks = std::collections::BTreeMap::new();
        for group in &self.groups {
            if let Candidates::UpTo(last) = group.candidates {
                ranks.insert(last, 0);
            }
        }
        // Counts the requests up to each of those numbers, in one pass.
        let mut ends = ranks.iter_mut().peekable();
        for (index, request) in self.requests.iter().enumerate() {
            if let Some((_, rank)) = ends.next_if(|(last, _)| *last == request) {
                *rank = index + 1;
            }
        }
        let size = |candidates: &Candidates| match candidates {
            Candidates::UpTo(last) => ranks.get(last).copied().unwrap_or(usize::MAX),
            Candidates::Among(requests) => requests.len(),
        };
        let is_subset = |inner: &Candidates, outer: &Candidates| match (inner, outer) {
            (Candidates::UpTo(inner), Candidates::UpTo(outer)) => inner <= outer,
            (Candidates::Among(requests), Candidates::UpTo(last)) => {
                requests.last().is_none_or(|it| it <= last)
            }
            (Candidates::Among(inner), Candidates::Among(outer)) => inner.is_subset(outer),
            (Candidates::UpTo(last), Candidates::Among(requests)) => {
                size(inner) <= requests.len()
                    && self.requests.range(..=*last).all(|it| requests.contains(it))
            }
        };
        let mut slack = u64::MAX;
        for (index, group) in self.groups.iter().enumerate() {
            let within =
                self.groups.iter().filter(|it| is_subset(&it.candidates, &group.candidates));
            let lost = within.fold(0_usize, |sum, it| sum.saturating_add(it.count));
            let size = size(&group.candidates);
            if lost >= size {
                return Some(index);
            }
            let is_explicit = matches!(group.candidates, Candidates::Among(_));
            slack = slack.min(if is_explicit { 1 } else { (size - lost) as u64 });
        }
        self.slack = slack;
        None
    }
}

/// Tracks whether an error without an id can only be the answer to a request.
///
/// Some agents answer notifications that they do not know, or cannot read, with an error that has no id. So such an
/// error means a request only if the component has handled all other messages that were sent to it.
#[derive(Debug, Default)]
pub(crate) struct NullIdErrors {
    /// Whether a notification or response was sent that the component may not have handled yet.
    other_pending: bool,
    /// The first request that was sent after it. Its answer shows that the component has handled everything before.
    next_request: Option<Id>,
}

impl NullIdErrors {
    /// Whether an error without an id can only be the answer to a request.
    pub(crate) fn are_unambiguous(&self) -> bool {
        !self.other_pending
    }

    /// A message was sent to the component.
    pub(crate) fn on_sent(&mut self, message: &Message) {
        match message {
            Message::Request { id, .. } if self.other_pending => {
                self.next_request.get_or_insert_with(|| id.detached());
            }
            Message::Request { .. } => {}
            Message::Notification(_) | Message::Response { .. } => {
                *self = NullIdErrors { other_pending: true, next_request: None };
            }
        }
    }

    /// The component has answered a request.
    pub(crate) fn on_answer(&mut self, id: &Id) {
        if self.next_request.as_ref() == Some(id) {
            *self = NullIdErrors::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(requests: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
        requests.into_iter().collect()
    }

    /// The requests that are resolved, if these requests are still pending.
    fn resolve(lost: &mut LostAnswers, closed: u64, open: &BTreeSet<u64>) -> Vec<u64> {
        lost.resolve(closed, |it| open.contains(&it)).into_iter().map(|it| it.0).collect()
    }

    /// After the third request is answered, both lost answers can only belong to the first two.
    #[test]
    fn lost_answers_with_the_same_candidates_are_counted_together() {
        let mut lost = LostAnswers::default();
        assert!(lost.add(&set([1, 2]), None, 1, "a") && lost.add(&set([1, 2, 3]), None, 1, "b"));
        assert!(resolve(&mut lost, 0, &set([1, 2, 3])).is_empty());
        assert_eq!(resolve(&mut lost, 10, &set([1, 2])), [1, 2]);
        assert!(lost.is_empty());
    }

    #[test]
    fn as_many_requests_are_resolved_as_answers_are_lost() {
        let mut lost = LostAnswers::default();
        let mut open = set(1..=4);
        assert!(lost.add(&open, None, 1, "why") && lost.add(&open, None, 1, "why"));
        assert!(resolve(&mut lost, 0, &open).is_empty());
        open.insert(5);
        open.remove(&3);
        assert!(resolve(&mut lost, 1, &open).is_empty());
        open.remove(&1);
        assert_eq!(resolve(&mut lost, 2, &open), [2, 4]);
        assert!(lost.is_empty());
    }

    #[test]
    fn a_group_counts_the_lost_answers_of_its_subsets() {
        let mut lost = LostAnswers::default();
        let mut open = set(1..=2);
        lost.add(&open, None, 1, "");
        open.insert(3);
        lost.add(&open, Some(set([2, 3])), 1, "");
        open.insert(4);
        lost.add(&open, None, 1, "");
        // Three of the four answers are lost.
        assert!(resolve(&mut lost, 0, &open).is_empty());
        open.remove(&3);
        assert_eq!(resolve(&mut lost, 1, &open), [1, 2, 4]);
        assert!(lost.is_empty());
    }

    #[test]
    fn closed_requests_that_are_not_candidates_resolve_nothing() {
        let mut lost = LostAnswers::default();
        let open = set([1, 9]);
        lost.add(&open, None, 1, "");
        for closed in 0..100 {
            assert!(resolve(&mut lost, closed, &open).is_empty());
        }
        assert_eq!(resolve(&mut lost, 100, &set([9])), [9]);
    }

    #[test]
    fn the_number_of_groups_and_requests_is_limited() {
        let mut lost = LostAnswers::default();
        assert!(!lost.add(&BTreeSet::new(), None, 1, ""));
        assert!(!lost.add(&set(0..=MAX_REQUESTS as u64), None, 1, ""));
        let added = (10..100).filter(|&last| lost.add(&set(0..last), None, 1, ""));
        assert_eq!(added.count(), MAX_GROUPS);
        assert!(lost.add(&set(0..10), None, usize::MAX / 2, "") && lost.requests.len() < 50);
    }

    /// A quadratic algorithm would take very long here.
    #[test]
    fn many_lost_answers_to_many_requests_are_resolved_quickly() {
        let most = MAX_REQUESTS as u64;
        let mut lost = LostAnswers::default();
        let mut open = set(0..most);
        for round in 0..most / 2 {
            lost.add(&open, None, 1, "");
            assert!(resolve(&mut lost, round, &open).is_empty());
        }
        for closed in 0..most / 2 - 1 {
            open.remove(&closed);
            assert!(resolve(&mut lost, most + closed, &open).is_empty());
        }
        open.remove(&(most - 1));
        assert_eq!(resolve(&mut lost, 2 * most, &open).len() as u64, most / 2);
        // Each lost answer has other candidates than the one before.
        let mut open = BTreeSet::new();
        for last in 0..most {
            open.insert(last);
            lost.add(&open, None, 1, "");
            open.remove(&last.saturating_sub(100));
            resolve(&mut lost, 3 * most + last, &open);
        }
    }

    #[test]
    fn an_error_without_an_id_is_ambiguous_until_a_later_request_is_answered() {
        let request = |id: u64| Message::request(Id::from(id), "m", None);
        let mut errors = NullIdErrors::default();
        errors.on_sent(&request(1));
        assert!(errors.are_unambiguous());
        errors.on_sent(&Message::notification("n", None));
        errors.on_answer(&Id::from(1));
        assert!(!errors.are_unambiguous());
        errors.on_sent(&request(2));
        errors.on_sent(&request(3));
        errors.on_answer(&Id::from(2));
        assert!(errors.are_unambiguous());
    }
}
