//! Which ids have been taken, of the last so many.
//!
//! A delivery may come twice: the id is what tells a receiver so. Bounded, as a receiver's own
//! table would be.

use std::collections::{HashSet, VecDeque};

/// The ids taken last.
#[derive(Debug)]
pub(crate) struct Seen {
    most: usize,
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    /// Remembers `most` ids.
    pub fn new(most: usize) -> Seen {
        Seen {
            most,
            ids: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Whether this id was taken before.
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Takes an id; false where it was taken before.
    pub fn take(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_once() {
        let mut seen = Seen::new(10);
        assert!(!seen.contains("a"));
        assert!(seen.take("a"));
        assert!(!seen.take("a"));
        assert!(seen.contains("a"));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut seen = Seen::new(2);
        for id in ["a", "b", "c"] {
            seen.take(id);
        }
        assert!(!seen.contains("a") && seen.contains("b") && seen.contains("c"));
        assert_eq!(seen.ids.len(), seen.order.len());
    }
}
