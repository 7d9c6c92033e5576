//! The latest items of a kind, within a limit of memory.

use std::collections::VecDeque;

use serde_json::Value;

/// The maximum size of the items together.
const MAX_SIZE: usize = 16 * 1024 * 1024;

/// The latest items, each with a key. The oldest are dropped if there are too many or if they are too large. The latest
/// item is always kept.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    /// The key, the item and its size.
    items: VecDeque<(K, V, usize)>,
    max_count: usize,
    size: usize,
}

impl<K: PartialEq, V> Recent<K, V> {
    /// No items yet, and at most this many later.
    pub(crate) fn new(max_count: usize) -> Recent<K, V> {
        Recent { items: VecDeque::new(), max_count, size: 0 }
    }

    /// Adds an item with its approximate size in bytes.
    pub(crate) fn push(&mut self, key: K, item: V, size: usize) {
        self.items.push_back((key, item, size));
        self.size += size;
        while self.items.len() > 1 && (self.items.len() > self.max_count || self.size > MAX_SIZE) {
            self.size -= self.items.pop_front().map_or(0, |(_, _, size)| size);
        }
    }

    /// The item with this key.
    pub(crate) fn find(&self, key: &K) -> Option<&V> {
        self.items.iter().find(|(it, _, _)| it == key).map(|(_, item, _)| item)
    }

    /// The latest item.
    pub(crate) fn last(&self) -> Option<&V> {
        self.items.back().map(|(_, item, _)| item)
    }

    /// Removes the item with this key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.items.iter().position(|(it, _, _)| it == key)?;
        let (_, item, size) = self.items.remove(at)?;
        self.size -= size;
        Some(item)
    }
}

/// The approximate size of a value in memory.
pub(crate) fn size_of(value: &Value) -> usize {
    let within = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size_of).sum(),
        Value::Object(members) => members.iter().map(|(name, it)| name.len() + size_of(it)).sum(),
        _ => 0,
    };
    std::mem::size_of::<Value>() + within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_items_are_dropped_at_either_limit() {
        let mut recent = Recent::new(2);
        for key in 0..3 {
            recent.push(key, key * 10, 1);
        }
        assert_eq!((recent.find(&0), recent.find(&1), recent.last()), (None, Some(&10), Some(&20)));
        recent.push(3, 30, MAX_SIZE);
        assert_eq!((recent.find(&2), recent.last()), (None, Some(&30)));
        assert_eq!((recent.remove(&3), recent.size), (Some(30), 0));
        recent.push(4, 40, 2 * MAX_SIZE);
        assert_eq!(recent.last(), Some(&40), "the latest item is kept, however large it is");
    }

    #[test]
    fn the_size_of_a_value_contains_its_texts() {
        let value = serde_json::json!({ "a": ["x".repeat(1000), 1], "b": null });
        assert!((1000..1400).contains(&size_of(&value)), "{}", size_of(&value));
    }
}
