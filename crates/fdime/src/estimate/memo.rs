//! Results that are needed again.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};

/// The results of a function for the arguments that it was called with last.
pub(super) struct Memo<K, V> {
    capacity: usize,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    values: HashMap<K, V>,
    /// The keys, oldest first.
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V: Clone> Memo<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        let entries = Entries { values: HashMap::new(), order: VecDeque::new() };
        Memo { capacity, entries: Mutex::new(entries) }
    }

    /// Returns the value of a key, which `compute` computes unless it is known.
    pub(super) fn get_or(&self, key: K, compute: impl FnOnce() -> V) -> V {
        if let Some(value) = self.lock().values.get(&key) {
            return value.clone();
        }
        let value = compute();
        let mut entries = self.lock();
        if entries.values.insert(key.clone(), value.clone()).is_none() {
            entries.order.push_back(key);
        }
        if entries.order.len() > self.capacity
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.values.remove(&oldest);
        }
        value
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(|error| error.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_values_are_kept() {
        let memo = Memo::new(2);
        let mut calls = Vec::new();
        for key in [1, 2, 1, 3, 1, 3] {
            let value = memo.get_or(key, || {
                calls.push(key);
                10 * key
            });
            assert_eq!(value, 10 * key);
        }
        assert_eq!(calls, [1, 2, 3, 1], "1 was forgotten when 3 came");
        assert_eq!(memo.lock().values.len(), 2);
    }
}
