//! Answers that could not be read, and of which it is not clear yet to which requests they were.
//!
//! Such an answer was to one of the requests that the component owed at that moment. When as many answers
//! are lost as there are requests that they can mean, none of these requests will be answered any more.
//! Requests are known here by their numbers, which grow.

use std::collections::BTreeSet;

use acp_wire::{Id, Message};

/// How many groups of answers are kept for a component. What is more is only logged.
const MAX_GROUPS: usize = 32;

/// To so many open requests an answer that could not be read is matched.
const MAX_REQUESTS: usize = 4096;

/// The lost answers of one component.
#[derive(Debug, Default)]
pub struct LostAnswers {
    /// The open requests that they can mean.
    requests: BTreeSet<u64>,
    groups: Vec<Group>,
    /// How many requests had been closed in the whole chain when this was last looked through.
    seen: u64,
    /// Nothing can have become clear before so many more are closed, or so many more answers are lost.
    slack: u64,
}

/// Lost answers that mean the same requests.
#[derive(Debug)]
struct Group {
    range: Range,
    count: usize,
    why: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Range {
    /// Every request up to this one.
    UpTo(u64),
    /// One of these few.
    Among(BTreeSet<u64>),
}

impl Range {
    fn contains(&self, request: u64) -> bool {
        match self {
            Range::UpTo(last) => request <= *last,
            Range::Among(few) => few.contains(&request),
        }
    }
}

impl LostAnswers {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Notes `count` lost answers. Each was to one of the requests `among`, or if that is not known, to one
    /// of all that are `owed`. Says whether there is room for them.
    pub fn add(
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
        let range = among.map_or(Range::UpTo(last), Range::Among);
        if let Some(group) = self.groups.iter_mut().find(|group| group.range == range) {
            group.count += count;
            self.slack = self.slack.saturating_sub(count as u64);
            return true;
        }
        if self.groups.len() >= MAX_GROUPS {
            return false;
        }
        self.requests.extend(owed.iter().filter(|&&request| range.contains(request)));
        self.groups.push(Group { range, count, why: why.to_owned() });
        self.slack = 0;
        true
    }

    /// Takes the requests of which it is clear by now that their answers were lost, and why. `closed` counts
    /// the requests that were closed in the whole chain so far, `owes` tells whether one is still open.
    pub fn settle(&mut self, closed: u64, owes: impl Fn(u64) -> bool) -> Vec<(u64, String)> {
        let mut settled = Vec::new();
        if self.is_empty() || closed.saturating_sub(self.seen) < self.slack {
            return settled;
        }
        self.seen = closed;
        self.requests.retain(|&request| owes(request));
        self.tidy();
        while let Some(index) = self.find_clear() {
            let Group { range, why, .. } = self.groups.remove(index);
            let meant: Vec<u64> = match &range {
                Range::UpTo(last) => self.requests.range(..=*last).copied().collect(),
                Range::Among(few) => few.iter().copied().collect(),
            };
            for request in meant {
                self.requests.remove(&request);
                settled.push((request, why.clone()));
            }
            self.tidy();
        }
        settled
    }

    /// Drops the requests that are gone and the answers that mean none, and joins those that mean the same.
    fn tidy(&mut self) {
        let mut groups: Vec<Group> = Vec::new();
        for mut group in std::mem::take(&mut self.groups) {
            match &mut group.range {
                Range::UpTo(last) => match self.requests.range(..=*last).next_back() {
                    Some(newest) => *last = *newest,
                    None => continue,
                },
                Range::Among(few) => {
                    few.retain(|request| self.requests.contains(request));
                    if few.is_empty() {
                        continue;
                    }
                }
            }
            match groups.iter_mut().find(|it| it.range == group.range) {
                Some(same) => same.count += group.count,
                None => groups.push(group),
            }
        }
        self.groups = groups;
    }

    /// A group that means no more requests than answers are lost to these requests. If there is none, notes
    /// when there can be one.
    fn find_clear(&mut self) -> Option<usize> {
        let mut ranks = std::collections::BTreeMap::new();
        for group in &self.groups {
            if let Range::UpTo(last) = group.range {
                ranks.insert(last, 0);
            }
        }
        // How many requests there are up to each of those, in one pass.
        let mut ends = ranks.iter_mut().peekable();
        for (index, request) in self.requests.iter().enumerate() {
            if let Some((_, rank)) = ends.next_if(|(last, _)| *last == request) {
                *rank = index + 1;
            }
        }
        let size = |range: &Range| match range {
            Range::UpTo(last) => ranks.get(last).copied().unwrap_or(usize::MAX),
            Range::Among(few) => few.len(),
        };
        let is_within = |inner: &Range, outer: &Range| match (inner, outer) {
            (Range::UpTo(inner), Range::UpTo(outer)) => inner <= outer,
            (Range::Among(few), Range::UpTo(last)) => few.last().is_none_or(|it| it <= last),
            (Range::Among(inner), Range::Among(outer)) => inner.is_subset(outer),
            (Range::UpTo(last), Range::Among(few)) => {
                size(inner) <= few.len() && self.requests.range(..=*last).all(|it| few.contains(it))
            }
        };
        let mut slack = u64::MAX;
        for (index, group) in self.groups.iter().enumerate() {
            let within = self.groups.iter().filter(|it| is_within(&it.range, &group.range));
            let lost = within.fold(0_usize, |sum, it| sum.saturating_add(it.count));
            let size = size(&group.range);
            if lost >= size {
                return Some(index);
            }
            let few = matches!(group.range, Range::Among(_));
            slack = slack.min(if few { 1 } else { (size - lost) as u64 });
        }
        self.slack = slack;
        None
    }
}

/// Whether an error without an id can only mean a request.
///
/// Agents answer notifications that they do not know, or cannot read, with an error that has no id. So such
/// an error means a request only if the component has dealt with all else that was sent to it.
#[derive(Debug, Default)]
pub struct NullIdErrors {
    /// Something that is no request was sent, and may not be dealt with yet.
    other: bool,
    /// The first request that was sent after it. Its answer ends the null_id_errors.
    next: Option<Id>,
}

impl NullIdErrors {
    pub fn are_unambiguous(&self) -> bool {
        !self.other
    }

    pub fn on_sent(&mut self, message: &Message) {
        match message {
            Message::Request { id, .. } if self.other => {
                self.next.get_or_insert_with(|| id.detached());
            }
            Message::Request { .. } => {}
            Message::Notification(_) | Message::Response { .. } => {
                *self = NullIdErrors { other: true, next: None };
            }
        }
    }

    pub fn on_answer(&mut self, id: &Id) {
        if self.next.as_ref() == Some(id) {
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

    /// What is settled, if these requests are still open.
    fn settle(lost: &mut LostAnswers, closed: u64, open: &BTreeSet<u64>) -> Vec<u64> {
        lost.settle(closed, |it| open.contains(&it)).into_iter().map(|it| it.0).collect()
    }

    /// The third request is answered: then both lost answers can only be to the first two.
    #[test]
    fn answers_that_mean_the_same_requests_are_counted_together() {
        let mut lost = LostAnswers::default();
        assert!(lost.add(&set([1, 2]), None, 1, "a") && lost.add(&set([1, 2, 3]), None, 1, "b"));
        assert!(settle(&mut lost, 0, &set([1, 2, 3])).is_empty());
        assert_eq!(settle(&mut lost, 10, &set([1, 2])), [1, 2]);
        assert!(lost.is_empty());
    }

    #[test]
    fn as_many_requests_are_settled_as_answers_are_lost() {
        let mut lost = LostAnswers::default();
        let mut open = set(1..=4);
        assert!(lost.add(&open, None, 1, "why") && lost.add(&open, None, 1, "why"));
        assert!(settle(&mut lost, 0, &open).is_empty());
        open.insert(5);
        open.remove(&3);
        assert!(settle(&mut lost, 1, &open).is_empty());
        open.remove(&1);
        assert_eq!(settle(&mut lost, 2, &open), [2, 4]);
        assert!(lost.is_empty());
    }

    #[test]
    fn groups_are_matched_within_each_other() {
        let mut lost = LostAnswers::default();
        let mut open = set(1..=2);
        lost.add(&open, None, 1, "");
        open.insert(3);
        lost.add(&open, Some(set([2, 3])), 1, "");
        open.insert(4);
        lost.add(&open, None, 1, "");
        // Of four requests the answers to three are lost.
        assert!(settle(&mut lost, 0, &open).is_empty());
        open.remove(&3);
        assert_eq!(settle(&mut lost, 1, &open), [1, 2, 4]);
        assert!(lost.is_empty());
    }

    #[test]
    fn other_requests_that_close_settle_nothing() {
        let mut lost = LostAnswers::default();
        let open = set([1, 9]);
        lost.add(&open, None, 1, "");
        for closed in 0..100 {
            assert!(settle(&mut lost, closed, &open).is_empty());
        }
        assert_eq!(settle(&mut lost, 100, &set([9])), [9]);
    }

    #[test]
    fn what_is_kept_is_limited() {
        let mut lost = LostAnswers::default();
        assert!(!lost.add(&BTreeSet::new(), None, 1, ""));
        assert!(!lost.add(&set(0..=MAX_REQUESTS as u64), None, 1, ""));
        let added = (10..100).filter(|&last| lost.add(&set(0..last), None, 1, ""));
        assert_eq!(added.count(), MAX_GROUPS);
        assert!(lost.add(&set(0..10), None, usize::MAX / 2, "") && lost.requests.len() < 50);
    }

    /// Every lost answer against every other, and every request against every other, would take days.
    #[test]
    fn many_lost_answers_to_many_requests_take_no_time() {
        let most = MAX_REQUESTS as u64;
        let mut lost = LostAnswers::default();
        let mut open = set(0..most);
        for round in 0..most / 2 {
            lost.add(&open, None, 1, "");
            assert!(settle(&mut lost, round, &open).is_empty());
        }
        for closed in 0..most / 2 - 1 {
            open.remove(&closed);
            assert!(settle(&mut lost, most + closed, &open).is_empty());
        }
        open.remove(&(most - 1));
        assert_eq!(settle(&mut lost, 2 * most, &open).len() as u64, most / 2);
        // Each to other requests than the one before.
        let mut open = BTreeSet::new();
        for last in 0..most {
            open.insert(last);
            lost.add(&open, None, 1, "");
            open.remove(&last.saturating_sub(100));
            settle(&mut lost, 3 * most + last, &open);
        }
    }

    #[test]
    fn an_error_without_an_id_is_in_doubt_while_a_notification_may_not_be_dealt_with() {
        let request = |id: u64| Message::request(Id::from(id), "m", None);
        let mut null_id_errors = NullIdErrors::default();
        null_id_errors.on_sent(&request(1));
        assert!(null_id_errors.are_unambiguous());
        null_id_errors.on_sent(&Message::notification("n", None));
        null_id_errors.on_answer(&Id::from(1));
        assert!(!null_id_errors.are_unambiguous());
        null_id_errors.on_sent(&request(2));
        null_id_errors.on_sent(&request(3));
        null_id_errors.on_answer(&Id::from(2));
        assert!(null_id_errors.are_unambiguous());
    }
}
