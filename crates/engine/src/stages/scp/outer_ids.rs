//! The ids of panels and comments on the outer pipe.
//!
//! The outer peer gets an id as its owner has written it, if no other owner uses the same id there. Otherwise it gets the
//! id with its mark. So the table answers two questions: who owns an id without a mark, and which ids keep their mark.
//!
//! An id is free again when the outer peer has handled a `clear`: when it has answered the request, or a while after a
//! notification. Before that, a message about the old panel may still be on its way.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::Id;
use acp_wire::scp::{Action, Kind};
use router::{Seat, Time};

/// How many ids without a mark are remembered, and how many conflicts. When a table is full, new ids keep their mark.
const MAX_IDS: usize = 4096;

/// The longest id that is remembered, in bytes. A longer id of a component always keeps its mark.
const MAX_LENGTH: usize = 1024;

/// How long an id stays reserved after a `clear` that is not answered, in milliseconds.
const RESERVED: u64 = 60_000;

/// The ids on the outer pipe. The owner [`Seat::OUTER`] is the component behind the outer pipe, in proxy mode.
#[derive(Debug, Default)]
pub(super) struct OuterIds {
    /// The ids without a mark.
    plain: BTreeMap<Key, Entry>,
    /// The ids that were shown with their mark, because another owner used the same id. They keep it until they are
    /// cleared: the outer peer knows the panel by that id.
    marked: BTreeSet<(Key, Seat)>,
    /// The `clear` requests that have not been answered, at most one for each id.
    clearing: Vec<(Id, Key)>,
    /// Whether an id has not been remembered. From then on an unknown id of a component keeps its mark, because it
    /// may have been shown so before.
    has_overflowed: bool,
}

/// An id without its mark.
type Key = (Kind, String);

/// The use of an id without a mark.
#[derive(Debug)]
struct Entry {
    owner: Seat,
    /// When the id is free, after a `clear` that is not answered.
    free_at: Option<Time>,
}

/// A message to the outer peer, for [`OuterIds::leaves_plain`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving<'a> {
    pub(super) owner: Seat,
    pub(super) kind: Kind,
    pub(super) action: Action,
    /// The id without its mark, unescaped.
    pub(super) id: &'a str,
    /// The id of the request. `None` for a notification.
    pub(super) request: Option<&'a Id>,
}

impl OuterIds {
    /// The owner of an id without a mark.
    pub(super) fn owner(&self, kind: Kind, id: &str) -> Option<Seat> {
        self.plain.get(&(kind, id.to_owned())).map(|entry| entry.owner)
    }

    /// Whether a message leaves with the id as its owner has written it. Otherwise the id keeps its mark.
    pub(super) fn leaves_plain(&mut self, now: Time, leaving: Leaving<'_>) -> bool {
        let Leaving { owner, kind, action, id, request } = leaving;
        // An id from behind the outer pipe is unknown only if no component uses it.
        let unknown_is_plain = owner == Seat::OUTER;
        if id.len() > MAX_LENGTH {
            return unknown_is_plain;
        }
        let key = (kind, id.to_owned());
        let is_free = |entry: &Entry| entry.free_at.is_some_and(|time| time <= now);
        if self.plain.get(&key).is_some_and(is_free) {
            self.plain.remove(&key);
        }
        match self.plain.get_mut(&key) {
            Some(entry) if entry.owner == owner => {
                match action {
                    Action::Show => {
                        entry.free_at = None;
                        self.clearing.retain(|(_, it)| *it != key);
                    }
                    Action::Clear => self.clear(now, key, request),
                    Action::Get | Action::Use => {}
                }
                true
            }
            None if !self.marked.contains(&(key.clone(), owner)) => match action {
                Action::Show => self.reserve(now, key, owner) || unknown_is_plain,
                _ => !self.has_overflowed || unknown_is_plain,
            },
            _ => {
                self.keep_mark(key, owner, action);
                false
            }
        }
    }

    /// Handles an answer of the outer peer. The id that it has cleared is free.
    pub(super) fn answered(&mut self, id: &Id) {
        if self.clearing.is_empty() {
            return;
        }
        if let Some(at) = self.clearing.iter().position(|(it, _)| it == id) {
            let (_, key) = self.clearing.swap_remove(at);
            self.plain.remove(&key);
        }
    }

    fn clear(&mut self, now: Time, key: Key, request: Option<&Id>) {
        self.clearing.retain(|(_, it)| *it != key);
        match request {
            Some(id) => self.clearing.push((id.detached(), key)),
            None => {
                if let Some(entry) = self.plain.get_mut(&key) {
                    entry.free_at = Some(now.plus(RESERVED));
                }
            }
        }
    }

    /// Remembers the owner of an id without a mark. Returns `false` if the table is full.
    fn reserve(&mut self, now: Time, key: Key, owner: Seat) -> bool {
        if self.plain.len() >= MAX_IDS {
            self.plain.retain(|_, entry| entry.free_at.is_none_or(|time| time > now));
        }
        self.has_overflowed |= self.plain.len() >= MAX_IDS;
        if !self.has_overflowed {
            self.plain.insert(key, Entry { owner, free_at: None });
        }
        !self.has_overflowed
    }

    /// Handles a message whose id keeps its mark.
    fn keep_mark(&mut self, key: Key, owner: Seat, action: Action) {
        match action {
            Action::Show if self.marked.len() < MAX_IDS => {
                self.marked.insert((key, owner));
            }
            Action::Show => self.has_overflowed = true,
            Action::Clear => {
                self.marked.remove(&(key, owner));
            }
            Action::Get | Action::Use => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with a clock.
    #[derive(Default)]
    struct Table(OuterIds, Time);

    impl Table {
        /// Whether the id of a notification leaves plain.
        fn notify(&mut self, owner: u16, action: Action, id: &str) -> bool {
            self.send(owner, action, id, None)
        }

        fn send(&mut self, owner: u16, action: Action, id: &str, request: Option<&Id>) -> bool {
            let (owner, kind) = (Seat(owner), Kind::Panel);
            self.0.leaves_plain(self.1, Leaving { owner, kind, action, id, request })
        }
    }

    #[test]
    fn the_first_owner_gets_the_id_and_the_second_one_keeps_its_mark() {
        let mut table = Table::default();
        assert!(table.notify(1, Action::Show, "a") && !table.notify(2, Action::Show, "a"));
        assert!(table.notify(1, Action::Get, "a") && !table.notify(2, Action::Get, "a"));
        assert_eq!(table.0.owner(Kind::Panel, "a"), Some(Seat(1)));
        // A panel and a comment do not conflict.
        assert_eq!(table.0.owner(Kind::Comment, "a"), None);
        let (owner, kind) = (Seat(2), Kind::Comment);
        let comment = Leaving { owner, kind, action: Action::Show, id: "a", request: None };
        assert!(table.0.leaves_plain(Time(0), comment));
    }

    #[test]
    fn a_panel_that_was_shown_with_a_mark_keeps_it_until_it_is_cleared() {
        let mut table = Table::default();
        let clear = Id::from(1);
        assert!(table.notify(1, Action::Show, "a") && !table.notify(2, Action::Show, "a"));
        assert!(table.send(1, Action::Clear, "a", Some(&clear)));
        table.0.answered(&clear);
        assert_eq!(table.0.owner(Kind::Panel, "a"), None);
        assert!(!table.notify(2, Action::Show, "a") && !table.notify(2, Action::Get, "a"));
        assert!(table.notify(3, Action::Show, "a"), "the id is free");
        assert!(!table.notify(2, Action::Clear, "a") && table.0.marked.is_empty());
    }

    #[test]
    fn an_id_is_free_when_its_clear_is_answered() {
        let mut table = Table::default();
        let [first, second] = [1, 2].map(Id::from);
        assert!(table.notify(1, Action::Show, "a"));
        assert!(table.send(1, Action::Clear, "a", Some(&first)));
        assert!(!table.notify(2, Action::Get, "a"), "an event may be on its way");
        // It is shown again before the answer comes.
        assert!(table.notify(1, Action::Show, "a"));
        table.0.answered(&first);
        assert_eq!(table.0.owner(Kind::Panel, "a"), Some(Seat(1)));
        for _ in 0..10 {
            assert!(table.send(1, Action::Clear, "a", Some(&second)));
        }
        assert_eq!(table.0.clearing.len(), 1);
        table.0.answered(&Id::from(3));
        assert!(!table.notify(2, Action::Get, "a"));
        table.0.answered(&second);
        assert!(table.notify(2, Action::Show, "a"));
    }

    #[test]
    fn after_a_clear_without_an_answer_an_id_is_free_a_while_later() {
        let mut table = Table::default();
        assert!(table.notify(1, Action::Show, "a") && table.notify(1, Action::Clear, "a"));
        table.1 = Time(RESERVED - 1);
        assert!(!table.notify(2, Action::Get, "a"));
        table.1 = Time(RESERVED);
        assert!(table.notify(2, Action::Show, "a"));
        assert_eq!(table.0.owner(Kind::Panel, "a"), Some(Seat(2)));
        // Shown again in time, it is not free.
        assert!(table.notify(2, Action::Clear, "a") && table.notify(2, Action::Show, "a"));
        table.1 = Time(10 * RESERVED);
        assert!(!table.notify(1, Action::Show, "a"));
    }

    #[test]
    fn the_number_and_the_length_of_ids_are_limited() {
        let mut table = Table::default();
        let long = "x".repeat(MAX_LENGTH + 1);
        assert!(!table.notify(1, Action::Show, &long) && table.0.plain.is_empty());
        assert!(table.notify(0, Action::Show, &long), "no component uses it without a mark");
        let ids: Vec<String> = (0..2 * MAX_IDS).map(|number| number.to_string()).collect();
        let plain = ids.iter().filter(|id| table.notify(1, Action::Show, id)).count();
        assert_eq!((plain, table.0.plain.len()), (MAX_IDS, MAX_IDS));
        // An id that was shown with its mark keeps it, although there is space again.
        let clear = Id::from(1);
        assert!(table.send(1, Action::Clear, "0", Some(&clear)));
        table.0.answered(&clear);
        let last = ids.last().unwrap();
        assert!(!table.notify(1, Action::Show, last) && !table.notify(1, Action::Get, last));
        // The ids from behind the outer pipe stay as they are, unless a component uses them.
        assert!(table.notify(0, Action::Show, "new") && table.notify(0, Action::Get, "new"));
        assert!(!table.notify(0, Action::Show, "1"));
        ids.iter().for_each(|id| assert!(!table.notify(2, Action::Show, id)));
        assert!(table.0.marked.len() <= MAX_IDS && table.0.plain.len() <= MAX_IDS);
    }
}
