//! A stream backwards: newest first, in windows of sequences.
//!
//! The broker reads forwards only. To show the newest first, a reader asks for the window of
//! sequences below the last, shows it backwards and goes on below it. Where matches are rare
//! the window doubles, so the one letter among ten million messages is found in some twenty
//! requests; where they are dense it is as wide as one answer can hold. Over a stretch
//! without any the broker can be asked for the next one below, and the walk leaps there.

use posthorn_broker::Below;
use std::ops::RangeInclusive;

/// How many messages one request brings where they may be large. With payloads of 256 KiB that
/// is 64 MiB.
pub const BATCH: usize = 256;
/// How many small ones it brings at most: a search that goes on for long asks for more at once.
const MOST: u64 = 1_000;

/// A walk from a sequence downwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The highest sequence not yet seen; below `first` when there is none.
    high: u64,
    first: u64,
    width: u64,
    leaps: bool,
}

const NARROWEST: u64 = BATCH as u64;
/// An empty window of so many sequences is reason to ask where the next message is.
const LONG: u64 = 4 * NARROWEST;

impl Walk {
    /// A walk over the sequences `first..below`; `first` is at least 1.
    #[must_use]
    pub fn new(first: u64, below: u64) -> Walk {
        Walk {
            high: below.saturating_sub(1),
            first: first.max(1),
            width: NARROWEST,
            leaps: true,
        }
    }

    /// The window to read next; `None` at the end.
    #[must_use]
    pub fn window(&self) -> Option<RangeInclusive<u64>> {
        (self.high >= self.first).then(|| {
            let low = self.high.saturating_sub(self.width - 1).max(self.first);
            low..=self.high
        })
    }

    /// How many messages to ask for.
    #[must_use]
    pub fn most(&self) -> usize {
        usize::try_from(self.width.clamp(NARROWEST, MOST)).unwrap_or(BATCH)
    }

    /// Takes the answer to [`Walk::window`], which was asked for [`Walk::most`] messages from the
    /// window's beginning: ascending, possibly going on beyond its end, and with `more` behind
    /// it. Returns the messages of the window in descending order, or `None` when the answer did
    /// not reach the window's end; then a narrower window comes next.
    pub fn answered<M>(
        &mut self,
        mut answer: Vec<M>,
        more: bool,
        sequence: impl Fn(&M) -> u64,
    ) -> Option<Vec<M>> {
        let short = answer.last().is_none_or(|last| sequence(last) < self.high);
        // The narrowest holds no more than one answer does.
        if more && short && self.width > NARROWEST {
            self.width = (self.width / 4).max(NARROWEST);
            return None;
        }
        answer.retain(|message| sequence(message) <= self.high);
        let low = self.window().map_or(self.first, |window| *window.start());
        self.high = low.saturating_sub(1);
        if answer.len() < BATCH / 4 {
            self.width = self.width.saturating_mul(2);
        } else if self.width < MOST {
            self.width = (self.width * 2).min(MOST);
        }
        answer.reverse();
        Some(answer)
    }

    /// Whether to ask for the next message below, after a window that held none.
    #[must_use]
    pub fn wants_leap(&self) -> bool {
        self.leaps && self.width > LONG && self.high >= self.first
    }

    /// Goes on from where the next message below is, which was asked for below [`Walk::below`].
    pub fn leap(&mut self, below: Below) {
        match below {
            Below::At(sequence) => {
                self.high = self.high.min(sequence);
                self.width = NARROWEST;
            }
            Below::Nothing => self.high = self.first.saturating_sub(1),
            Below::Unknown => self.leaps = false,
        }
    }

    /// Where another walk goes on: below this.
    #[must_use]
    pub fn below(&self) -> u64 {
        self.high.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// What the broker answers: up to `most` from `from` on, ascending.
    fn read(stream: &BTreeSet<u64>, from: u64, most: usize) -> (Vec<u64>, bool) {
        let mut after = stream.range(from..);
        let answer: Vec<u64> = after.by_ref().take(most).copied().collect();
        (answer, after.next().is_some())
    }

    fn newest_below(stream: &BTreeSet<u64>, below: u64) -> Below {
        let found = stream.range(..below).next_back();
        found.map_or(Below::Nothing, |sequence| Below::At(*sequence))
    }

    fn walk(stream: &BTreeSet<u64>, first: u64, below: u64, leaps: bool) -> (Vec<u64>, usize) {
        let mut walk = Walk::new(first, below);
        let (mut seen, mut requests) = (Vec::new(), 0);
        while let Some(window) = walk.window() {
            requests += 1;
            assert!(requests < 10_000, "the walk does not end");
            let (answer, more) = read(stream, *window.start(), walk.most());
            let Some(messages) = walk.answered(answer, more, |s| *s) else {
                continue;
            };
            if messages.is_empty() && walk.wants_leap() {
                requests += 1;
                let below = match leaps {
                    true => newest_below(stream, walk.below()),
                    false => Below::Unknown,
                };
                walk.leap(below);
            }
            seen.extend(messages);
        }
        (seen, requests)
    }

    #[test]
    fn a_rare_match_is_found_in_few_requests() {
        let stream = BTreeSet::from([5]);
        for (leaps, most) in [(true, 7), (false, 25)] {
            let (seen, requests) = walk(&stream, 1, 10_000_001, leaps);
            assert_eq!(seen, [5]);
            assert!(requests < most, "{requests} requests");
        }
    }

    #[test]
    fn a_dense_stretch_after_a_sparse_one_loses_nothing() {
        let stream: BTreeSet<u64> = (1..=5_000).chain([1_000_000]).collect();
        for leaps in [true, false] {
            let (seen, requests) = walk(&stream, 1, 1_000_001, leaps);
            let newest_first: Vec<u64> = stream.iter().rev().copied().collect();
            assert_eq!(seen, newest_first);
            assert!(requests < 60, "{requests} requests");
        }
    }

    #[test]
    fn nothing_is_asked_of_an_empty_stream() {
        assert_eq!(Walk::new(1, 1).window(), None);
        assert_eq!(Walk::new(0, 0).window(), None);
        assert_eq!(Walk::new(9, 5).window(), None);
    }

    #[test]
    fn messages_that_cannot_be_read_do_not_hide_the_others() {
        // A whole answer was left out by the reader, and there is more behind it.
        let mut walk = Walk::new(1, 1_001);
        assert_eq!(walk.answered(Vec::<u64>::new(), true, |s| *s), Some(vec![]));
        assert_eq!(walk.window(), Some(233..=744));
        assert_eq!(walk.answered(Vec::<u64>::new(), true, |s| *s), None);
        assert_eq!(walk.window(), Some(489..=744));
    }

    proptest! {
        #[test]
        fn every_message_is_seen_once_newest_first(
            runs in prop::collection::vec((1_u64..400_000, 1_u64..900), 0..12),
            below in 1_u64..2_000_000,
            first in 1_u64..50_000,
            leaps: bool,
        ) {
            let mut stream = BTreeSet::new();
            let mut at = 0;
            for (gap, length) in runs {
                at += gap;
                stream.extend(at..at + length);
                at += length;
            }
            let (seen, _) = walk(&stream, first, below, leaps);
            let wanted: Vec<u64> = stream.range(first..below.max(first)).rev().copied().collect();
            prop_assert_eq!(seen, wanted);
        }
    }
}
