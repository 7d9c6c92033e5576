//! Requests that were cancelled by their ids (`$/cancel_request`) and are not answered yet.
//!
//! A component may go on with such a request. When it has done so for too long, whoever asked is told that
//! the request is cancelled; the component itself is left alone, and the answer that it may give later is
//! dropped.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Id, Message, Outcome, Side, code};
use router::{Seat, Time};

use crate::stages::{Hop, Stages};
use acp_wire::acp::Topic;

/// The cancelled requests of one component. Whether one is overdue is asked after every message, so they are
/// sorted for that question.
#[derive(Debug, Default)]
pub(crate) struct Cancelled {
    /// When it was cancelled, and its method, by its id.
    requests: BTreeMap<Id, (Time, String)>,
    /// By method, oldest first.
    by_method: BTreeMap<String, BTreeSet<(Time, Id)>>,
}

impl Cancelled {
    /// A request is cancelled. That it was cancelled before does not give it more time.
    pub(crate) fn insert(&mut self, id: &Id, method: &str, now: Time) {
        if !self.requests.contains_key(id) {
            let id = id.detached();
            self.by_method.entry(method.to_owned()).or_default().insert((now, id.clone()));
            self.requests.insert(id, (now, method.to_owned()));
        }
    }

    /// A request is answered.
    pub(crate) fn remove(&mut self, id: &Id) {
        let Some((at, method)) = self.requests.remove(id) else { return };
        if let Some(requests) = self.by_method.get_mut(&method) {
            requests.remove(&(at, id.clone()));
            if requests.is_empty() {
                self.by_method.remove(&method);
            }
        }
    }

    /// Keeps only those that are still owed.
    pub(crate) fn retain(&mut self, owed: impl Fn(&Id) -> bool) {
        let gone: Vec<Id> = self.requests.keys().filter(|it| !owed(it)).cloned().collect();
        gone.iter().for_each(|id| self.remove(id));
    }

    /// Of each method, when its oldest request was cancelled.
    fn oldest(&self) -> impl Iterator<Item = (&str, Time)> {
        self.by_method
            .iter()
            .filter_map(|(method, requests)| Some((method.as_str(), requests.first()?.0)))
    }

    /// The requests of a method that were cancelled at this time or before.
    fn until(&self, method: &str, time: Time) -> Vec<Id> {
        let requests = self.by_method.get(method).into_iter().flatten();
        requests.take_while(|(at, _)| *at <= time).map(|(_, id)| id.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }
}

impl Stages {
    /// When the next cancelled request is to be answered in place of the component that owes the answer.
    pub(in crate::stages) fn cancel_deadline(&self) -> Option<Time> {
        let limit = self.rules.timeouts.cancel?;
        let seats = self.router.chain().seats();
        let due = seats.flat_map(|seat| self.overdue_since(seat, limit));
        due.map(|(_, since, time)| since.plus(time)).min()
    }

    /// Of each method with cancelled requests: since when a component should have stopped the oldest, and how
    /// much time it has for that.
    fn overdue_since(&self, seat: Seat, limit: u64) -> impl Iterator<Item = (&str, Time, u64)> {
        let record = self.sessions.record(seat);
        let record = record.filter(|it| !it.cancelled().is_empty() && self.can_act(seat));
        record.into_iter().flat_map(move |record| {
            record.cancelled().oldest().map(move |(method, at)| {
                let since = self.should_have_stopped(seat, at, limit);
                // A component that has passed such a request on stops when the next one does. It has twice
                // the time: the next one may not have heard of the cancellation, because many old proxies
                // do not pass it on.
                let passed_on = self.router.has_open_request(seat, method);
                (method, since, if passed_on { limit.saturating_mul(2) } else { limit })
            })
        })
    }

    /// Answers the requests that were cancelled too long ago.
    pub(in crate::stages) fn answer_cancelled(&mut self) {
        let Some(limit) = self.rules.timeouts.cancel else { return };
        let now = self.cx.now;
        let mut late = Vec::new();
        for seat in self.router.chain().seats() {
            let Some(record) = self.sessions.record(seat) else { continue };
            for (method, since, time) in self.overdue_since(seat, limit) {
                if since.plus(time) <= now {
                    let time = Time(now.0.saturating_sub(time));
                    let ids = record.cancelled().until(method, time);
                    late.push((seat, method.to_owned(), ids));
                }
            }
        }
        for (seat, method, ids) in late {
            let who = self.router.chain().describe(seat);
            let count = ids.len();
            let text = format!(
                "{who} went on with {count} cancelled {method} for too long: answered with error {}",
                code::CANCELLED
            );
            self.warn(seat, text);
            for id in ids {
                self.answer_in_place(seat, &method, id);
            }
        }
    }

    /// Answers a cancelled request in place of a component. The answer that may come later is dropped; a
    /// session that it sets up is closed.
    fn answer_in_place(&mut self, seat: Seat, method: &str, id: Id) {
        let asked = Some(method).filter(|it| Topic::of(it) == Some(Topic::SetUp));
        let asked = asked.and_then(|_| {
            let asked = self.asked_as(seat, &id)?;
            Some((asked, self.sessions.record(seat)?.opening(&id)?.clone()))
        });
        let refusal = Outcome::error(code::CANCELLED, "the request was cancelled");
        let answer = Message::response(id.clone(), refusal);
        self.send_on_behalf(Hop { seat, toward: Side::Editor }, answer);
        if let Some((asked, set_up)) = asked {
            self.orphans.await_answer(asked);
            if let Some(record) = self.sessions.record_mut(seat) {
                record.is_late(&id, set_up);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_each_method_is_known() {
        let mut cancelled = Cancelled::default();
        let ids: Vec<Id> = (0..4).map(|it| Id::string(&format!("c:{it}"))).collect();
        for (number, (id, method)) in ids.iter().zip(["a", "b", "a", "b"]).enumerate() {
            cancelled.insert(id, method, Time(number as u64));
            // Once more does not count.
            cancelled.insert(id, method, Time(100));
        }
        let oldest = |it: &Cancelled| {
            it.oldest().map(|(method, at)| (method.to_owned(), at.0)).collect::<Vec<_>>()
        };
        assert_eq!(oldest(&cancelled), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
        assert_eq!(cancelled.until("a", Time(1)), [ids[0].clone()]);
        assert_eq!(cancelled.until("a", Time(2)), [ids[0].clone(), ids[2].clone()]);
        cancelled.remove(&ids[0]);
        cancelled.retain(|id| *id != ids[1]);
        assert_eq!(oldest(&cancelled), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
        cancelled.retain(|_| false);
        assert!(cancelled.is_empty() && cancelled.by_method.is_empty());
    }
}
