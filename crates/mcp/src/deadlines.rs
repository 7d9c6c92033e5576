//! A table of deadlines that finds the earliest one without looking at all of them.

use std::collections::{BTreeMap, BTreeSet};

use router::Time;

/// Deadlines, by key and by time. A key has at most one.
#[derive(Debug)]
pub(crate) struct Deadlines<K> {
    by_key: BTreeMap<K, Time>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Deadlines { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Deadlines<K> {
    /// Sets the deadline of a key and replaces its previous one.
    pub(crate) fn insert(&mut self, key: K, time: Time) {
        self.remove(&key);
        self.by_time.insert((time, key.clone()));
        self.by_key.insert(key, time);
    }

    /// Removes the deadline of a key, if it has one.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some((key, time)) = self.by_key.remove_entry(key) {
            self.by_time.remove(&(time, key));
        }
    }

    /// Whether a key has a deadline.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// The earliest deadline.
    pub(crate) fn first(&self) -> Option<Time> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Removes and returns the keys whose deadline has passed, earliest first.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<K> {
        let mut due = Vec::new();
        while self.first().is_some_and(|time| time <= now) {
            let Some((_, key)) = self.by_time.pop_first() else { break };
            self.by_key.remove(&key);
            due.push(key);
        }
        due
    }

    /// Keeps only the deadlines of matching keys.
    pub(crate) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.by_key.retain(|key, _| keep(key));
        self.by_time.retain(|(_, key)| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_due_once_in_the_order_of_their_deadlines() {
        let mut deadlines = Deadlines::default();
        for (key, time) in [("a", 30), ("b", 10), ("c", 20), ("d", 20), ("b", 25)] {
            deadlines.insert(key, Time(time));
        }
        deadlines.remove(&"d");
        deadlines.remove(&"e");
        assert_eq!((deadlines.first(), deadlines.take_due(Time(19))), (Some(Time(20)), vec![]));
        assert_eq!(deadlines.take_due(Time(25)), ["c", "b"]);
        assert!(deadlines.contains(&"a") && !deadlines.contains(&"b"));
        deadlines.retain(|key| *key != "a");
        assert_eq!(deadlines.first(), None);
    }
}
