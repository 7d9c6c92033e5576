//! Requests that were cancelled by id (`$/cancel_request`) and are not answered yet.
//!
//! A component may ignore the cancellation. After a timeout, the conductor answers the request on behalf of the component.
//! The component keeps running, and its late answer is dropped.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::MethodKind;
use acp_wire::{Id, Message, Outcome, Side, code};
use router::{Seat, Time};

use crate::stages::{Hop, Stages};

/// The cancelled requests of one component. They are sorted by time, because the core looks for overdue ones after every
/// message.
#[derive(Debug, Default)]
pub(crate) struct Cancelled {
    /// By id: when the request was cancelled, and its method.
    requests: BTreeMap<Id, (Time, String)>,
    /// By method: the requests, oldest first.
    by_method: BTreeMap<String, BTreeSet<(Time, Id)>>,
}

impl Cancelled {
    /// Adds a cancelled request. If it is here already, its time does not change.
    pub(crate) fn insert(&mut self, id: &Id, method: &str, now: Time) {
        if !self.requests.contains_key(id) {
            let id = id.detached();
            self.by_method.entry(method.to_owned()).or_default().insert((now, id.clone()));
            self.requests.insert(id, (now, method.to_owned()));
        }
    }

    /// Removes a request that was answered.
    pub(crate) fn remove(&mut self, id: &Id) {
        let Some((at, method)) = self.requests.remove(id) else { return };
        if let Some(requests) = self.by_method.get_mut(&method) {
            requests.remove(&(at, id.clone()));
            if requests.is_empty() {
                self.by_method.remove(&method);
            }
        }
    }

    /// Keeps only the requests that are still pending.
    pub(crate) fn retain(&mut self, is_pending: impl Fn(&Id) -> bool) {
        let gone: Vec<Id> = self.requests.keys().filter(|it| !is_pending(it)).cloned().collect();
        gone.iter().for_each(|id| self.remove(id));
    }

    /// For each method, when its oldest request was cancelled.
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
    /// When the next cancelled request has to be answered on behalf of its component.
    pub(in crate::stages) fn cancel_deadline(&self) -> Option<Time> {
        let limit = self.rules.timeouts.cancel?;
        let seats = self.router.chain().seats();
        let due = seats.flat_map(|seat| self.cancel_timeouts(seat, limit));
        due.map(|(_, since, time)| since.plus(time)).min()
    }

    /// For each method with cancelled requests: since when the component should have stopped the oldest one, and the
    /// timeout for that.
    fn cancel_timeouts(&self, seat: Seat, limit: u64) -> impl Iterator<Item = (&str, Time, u64)> {
        let record = self.sessions.record(seat);
        let record = record.filter(|it| !it.cancelled().is_empty() && self.can_act(seat));
        record.into_iter().flat_map(move |record| {
            record.cancelled().oldest().map(move |(method, at)| {
                let since = self.should_have_stopped(seat, at, limit);
                // A component that has forwarded such a request can stop only after the next component. It gets
                // twice the time, because many old proxies do not forward the cancellation.
                let forwarded = self.router.has_open_request(seat, method);
                (method, since, if forwarded { limit.saturating_mul(2) } else { limit })
            })
        })
    }

    /// Answers the cancelled requests whose timeout has expired.
    pub(in crate::stages) fn answer_cancelled(&mut self) {
        let Some(limit) = self.rules.timeouts.cancel else { return };
        let now = self.cx.now;
        let mut overdue = Vec::new();
        for seat in self.router.chain().seats() {
            let Some(record) = self.sessions.record(seat) else { continue };
            for (method, since, time) in self.cancel_timeouts(seat, limit) {
                if since.plus(time) <= now {
                    let time = Time(now.0.saturating_sub(time));
                    let ids = record.cancelled().until(method, time);
                    overdue.push((seat, method.to_owned(), ids));
                }
            }
        }
        for (seat, method, ids) in overdue {
            let name = self.router.chain().describe(seat);
            let count = ids.len();
            let text = format!(
                "{name} did not stop {count} cancelled {method} in time; conductor answered with error {}",
                code::CANCELLED
            );
            self.warn(seat, text);
            for id in ids {
                self.answer_on_behalf(seat, &method, id);
            }
        }
    }

    /// Answers a cancelled request on behalf of a component. The late answer of the component is dropped. If it sets up
    /// a session, the session is closed.
    fn answer_on_behalf(&mut self, seat: Seat, method: &str, id: Id) {
        let setup = Some(method).filter(|it| MethodKind::of(it) == Some(MethodKind::SetUpSession));
        let setup = setup.and_then(|_| {
            let pending = self.pending_setup(seat, &id)?;
            Some((pending, self.sessions.record(seat)?.pending_setup(&id)?.clone()))
        });
        let cancelled = Outcome::error(code::CANCELLED, "the request was cancelled");
        let answer = Message::response(id.clone(), cancelled);
        self.send_on_behalf(Hop { seat, toward: Side::Editor }, answer);
        if let Some((pending, set_up)) = setup {
            self.orphans.await_answer(pending);
            if let Some(record) = self.sessions.record_mut(seat) {
                record.await_late_answer(&id, set_up);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_of_each_method_is_known() {
        let mut cancelled = Cancelled::default();
        let ids: Vec<Id> = (0..4).map(|it| Id::string(&format!("c:{it}"))).collect();
        for (number, (id, method)) in ids.iter().zip(["a", "b", "a", "b"]).enumerate() {
            cancelled.insert(id, method, Time(number as u64));
            // A second cancellation does not change the time.
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
