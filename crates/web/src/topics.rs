//! The state that pages follow: topics with entries.
//!
//! A change is kept in a ring, so that a page that was away gets only what it missed. A page has no queue: it has a
//! position in each topic, and reads from there when it is able to. So a slow page costs nothing but its position.

mod topic;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::protocol::{Entry, ToPage};
pub use topic::Topic;

/// All topics of a server. A clone is another handle.
#[derive(Debug, Clone)]
pub struct Topics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    topics: Mutex<BTreeMap<String, Topic>>,
    /// Counts the changes, to wake the pages.
    changes: watch::Sender<u64>,
}

impl Default for Topics {
    fn default() -> Topics {
        let shared = Shared { topics: Mutex::default(), changes: watch::channel(0).0 };
        Topics { shared: Arc::new(shared) }
    }
}

impl Topics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Topic>> {
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a topic, which is created if it does not exist.
    pub fn change<T>(&self, topic: &str, act: impl FnOnce(&mut Topic) -> T) -> T {
        let mut topics = self.lock();
        let topic = match topics.contains_key(topic) {
            true => topics.get_mut(topic),
            false => Some(topics.entry(topic.to_owned()).or_default()),
        };
        let result = act(topic.expect("it exists"));
        drop(topics);
        self.shared.changes.send_modify(|count| *count += 1);
        result
    }

    /// Puts an entry: a new one at the end, or a changed one at its place.
    pub fn put(&self, topic: &str, id: &str, entry: Entry) {
        self.change(topic, |it| it.put(id, entry));
    }

    /// Appends to the text of an entry.
    pub fn append(&self, topic: &str, id: &str, text: &str) {
        self.change(topic, |it| it.append(id, text));
    }

    /// Removes an entry.
    pub fn remove(&self, topic: &str, id: &str) {
        self.change(topic, |it| it.remove(id));
    }

    /// An entry, if it exists.
    pub fn get(&self, topic: &str, id: &str) -> Option<Entry> {
        self.lock().get(topic)?.get(id).cloned()
    }

    /// Whether an entry exists.
    pub fn contains(&self, topic: &str, id: &str) -> bool {
        self.lock().get(topic).is_some_and(|it| it.get(id).is_some())
    }

    /// Removes a whole topic. A page that follows it gets an empty one.
    pub fn clear(&self, topic: &str) {
        self.change(topic, Topic::clear);
    }

    /// What a page with this position has not seen of a topic: `None` if it has seen everything. A topic that does not
    /// exist is empty.
    pub fn news(&self, topic: &str, at: Option<u64>) -> Option<(ToPage, u64)> {
        match self.lock().get(topic) {
            Some(found) => found.news(topic, at),
            None => Topic::default().news(topic, at),
        }
    }

    /// Wakes up when something has changed.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}
