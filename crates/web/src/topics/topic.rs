//! One topic: its entries, and its last changes.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::{Change, Entry, ToPage};

/// How many changes are kept for pages that were away.
const MAX_CHANGES: usize = 10_000;
/// How many bytes of changes are kept, about.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// An ordered list of entries with ids.
#[derive(Debug, Default)]
pub struct Topic {
    /// The entries by their place. Places only grow.
    entries: BTreeMap<u64, (String, Entry)>,
    places: BTreeMap<String, u64>,
    /// The lengths of texts that grow, by place, so that they are counted only once.
    lengths: BTreeMap<u64, u64>,
    next_place: u64,
    /// The number of changes so far.
    at: u64,
    ring: VecDeque<(Change, usize)>,
    ring_bytes: usize,
}

impl Topic {
    /// The entry with this id.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(self.places.get(id)?).map(|(_, entry)| entry)
    }

    /// The entries in their order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (&str, &Entry)> {
        self.entries.values().map(|(id, entry)| (id.as_str(), entry))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts an entry: a new one at the end, or a changed one at its place. An entry that is the same changes nothing.
    pub fn put(&mut self, id: &str, entry: Entry) {
        if self.get(id) == Some(&entry) {
            return;
        }
        let place = match self.places.get(id) {
            Some(place) => *place,
            None => {
                self.next_place += 1;
                self.places.insert(id.to_owned(), self.next_place);
                self.next_place
            }
        };
        self.lengths.remove(&place);
        self.entries.insert(place, (id.to_owned(), entry.clone()));
        let size = size_of(&entry);
        self.record(Change::Put { id: id.to_owned(), entry: Box::new(entry) }, size);
    }

    /// Appends to the text of an entry. Does nothing if the entry does not exist or has no text.
    pub fn append(&mut self, id: &str, text: &str) {
        let Some(place) = self.places.get(id) else { return };
        let Some((_, entry)) = self.entries.get_mut(place) else { return };
        let Some(whole) = entry.text_mut().filter(|_| !text.is_empty()) else { return };
        let length = self.lengths.entry(*place).or_insert_with(|| utf16_len(whole));
        let offset = *length;
        *length += utf16_len(text);
        whole.push_str(text);
        let change = Change::Append { id: id.to_owned(), offset, text: text.to_owned() };
        self.record(change, text.len());
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: &str) {
        if let Some(place) = self.places.remove(id) {
            self.entries.remove(&place);
            self.lengths.remove(&place);
            self.record(Change::Del { id: id.to_owned() }, 0);
        }
    }

    /// Removes the oldest entry, except for these.
    pub fn remove_oldest(&mut self, keep: impl Fn(&Entry) -> bool) {
        let oldest = self.entries.values().find(|(_, entry)| !keep(entry));
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.remove(&id);
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.lengths.clear();
        self.ring.clear();
        self.ring_bytes = 0;
        // No page has this position, so each gets a snapshot.
        self.at += 1;
    }

    fn record(&mut self, change: Change, size: usize) {
        let size = size + 64;
        self.at += 1;
        self.ring.push_back((change, size));
        self.ring_bytes += size;
        while self.ring.len() > MAX_CHANGES || self.ring_bytes > MAX_BYTES {
            let Some((_, size)) = self.ring.pop_front() else { break };
            self.ring_bytes -= size;
        }
    }

    /// What a page with this position has not seen, with its new position. `None` if it has seen everything.
    pub fn news(&self, name: &str, at: Option<u64>) -> Option<(ToPage, u64)> {
        let oldest = self.at - self.ring.len() as u64;
        match at {
            Some(at) if at == self.at => None,
            Some(from) if (oldest..self.at).contains(&from) => {
                let skip = usize::try_from(from - oldest).unwrap_or(usize::MAX);
                let changes = join(self.ring.iter().skip(skip).map(|(change, _)| change));
                let inc = ToPage::Inc { topic: name.to_owned(), from, at: self.at, changes };
                Some((inc, self.at))
            }
            _ => {
                let entries = self.entries.values().cloned().collect();
                Some((ToPage::Snap { topic: name.to_owned(), at: self.at, entries }, self.at))
            }
        }
    }
}

/// Joins changes of the same text, and leaves out what a later change replaces at once.
fn join<'a>(changes: impl Iterator<Item = &'a Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::new();
    for change in changes {
        match (joined.last_mut(), change) {
            (
                Some(Change::Append { id, text, .. }),
                Change::Append { id: next, text: more, .. },
            ) if id == next => text.push_str(more),
            (Some(Change::Put { id, entry }), Change::Put { id: next, entry: newer })
                if id == next =>
            {
                entry.clone_from(newer);
            }
            (Some(Change::Put { id, entry }), Change::Append { id: next, text, .. })
                if id == next =>
            {
                if let Some(whole) = entry.text_mut() {
                    whole.push_str(text);
                }
            }
            _ => joined.push(change.clone()),
        }
    }
    joined
}

/// The length of a text in the units of JavaScript.
fn utf16_len(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

/// About how many bytes an entry has.
fn size_of(entry: &Entry) -> usize {
    serde_json::to_vec(entry).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Entry {
        Entry::Note { text: text.to_owned() }
    }

    /// What a page does with the messages.
    fn apply(page: &mut Vec<(String, Entry)>, message: ToPage) {
        match message {
            ToPage::Snap { entries, .. } => *page = entries,
            ToPage::Inc { changes, .. } => {
                for change in changes {
                    match change {
                        Change::Put { id, entry } => match page.iter_mut().find(|it| it.0 == id) {
                            Some(found) => found.1 = *entry,
                            None => page.push((id, *entry)),
                        },
                        Change::Append { id, offset, text } => {
                            let found = page.iter_mut().find(|it| it.0 == id).expect("known");
                            let whole = found.1.text_mut().expect("a text");
                            assert_eq!(utf16_len(whole), offset);
                            whole.push_str(&text);
                        }
                        Change::Del { id } => page.retain(|it| it.0 != id),
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn contents(topic: &Topic) -> Vec<(String, Entry)> {
        topic.entries().map(|(id, entry)| (id.to_owned(), entry.clone())).collect()
    }

    #[test]
    fn a_page_that_reads_at_any_time_has_the_entries_of_the_topic() {
        for seed in 0..200_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut random = move |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let (mut topic, mut page, mut at) = (Topic::default(), Vec::new(), None);
            for _ in 0..300 {
                let id = format!("e{}", random(5));
                match random(8) {
                    0 => topic.put(&id, note("ä🎉")),
                    1 if random(20) == 0 => topic.clear(),
                    1 => topic.remove(&id),
                    7 => {
                        if let Some((message, position)) = topic.news("t", at) {
                            apply(&mut page, message);
                            at = Some(position);
                        }
                        assert_eq!(page, contents(&topic), "seed {seed}");
                    }
                    _ => topic.append(&id, "x🎉"),
                }
            }
        }
    }

    #[test]
    fn a_page_that_was_away_for_too_long_gets_everything() {
        let mut topic = Topic::default();
        topic.put("a", note(""));
        (0..2 * MAX_CHANGES).for_each(|_| topic.append("a", "x"));
        assert!(matches!(topic.news("t", Some(1)), Some((ToPage::Snap { .. }, _))));
        let recent = topic.at - 3;
        let Some((ToPage::Inc { changes, .. }, _)) = topic.news("t", Some(recent)) else {
            panic!("the changes are there")
        };
        assert_eq!(changes.len(), 1, "joined");
        // A position of another run.
        assert!(matches!(topic.news("t", Some(u64::MAX)), Some((ToPage::Snap { .. }, _))));
        let large = "y".repeat(MAX_BYTES);
        topic.put("b", note(&large));
        assert!(topic.ring.len() <= 1 && topic.ring_bytes <= MAX_BYTES + large.len());
    }
}
