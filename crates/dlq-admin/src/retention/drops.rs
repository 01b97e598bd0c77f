//! How many messages the limits have dropped since this process began.

use metrics::counter;
use posthorn_broker::{Kept, StreamName};
use posthorn_delivery::UnixMillis;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The streams that drop what is old.
pub const KEEPING: [StreamName; 4] = [
    StreamName::Archive,
    StreamName::Attempts,
    StreamName::Dlq,
    StreamName::Audit,
];

/// A message may go so much before its age is at the limit: two looks, and what clocks differ.
const SLACK: Duration = Duration::from_secs(30);
/// A stream that holds so much of its limit of bytes may just have dropped something for it.
const NEARLY_FULL: (u64, u64) = (9, 10);

/// Which limit dropped something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// It was too old.
    Age,
    /// The stream was too large: it might have been kept for longer.
    Bytes,
    /// Its tenant was over his budget.
    TenantBudget,
}

impl Limit {
    /// All of them.
    pub const ALL: [Limit; 3] = [Limit::Age, Limit::Bytes, Limit::TenantBudget];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::Age => "age",
            Limit::Bytes => "bytes",
            Limit::TenantBudget => "tenant_budget",
        }
    }
}

/// What was dropped; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Drops {
    counts: Arc<Mutex<HashMap<(StreamName, Limit), u64>>>,
}

impl Drops {
    /// Shows each count, at 0, so that the first drop is a rise.
    pub fn begin(&self) {
        for stream in KEEPING {
            for limit in Limit::ALL {
                if limit != Limit::TenantBudget || stream == StreamName::Dlq {
                    self.add(stream, limit, 0);
                }
            }
        }
    }

    /// Counts.
    pub fn add(&self, stream: StreamName, limit: Limit, count: u64) {
        let mut counts = self.counts.lock().expect("no holder panics");
        *counts.entry((stream, limit)).or_default() += count;
        counter!("posthorn_dropped_by_limit_total",
            "stream" => stream.token(), "limit" => limit.as_str())
        .increment(count);
    }

    /// How many there were.
    #[must_use]
    pub fn of(&self, stream: StreamName, limit: Limit) -> u64 {
        let counts = self.counts.lock().expect("no holder panics");
        counts.get(&(stream, limit)).copied().unwrap_or(0)
    }
}

/// What happened to a stream between two looks, beside its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Messages that took the place of an earlier one on their subject.
    pub again: u64,
    /// Messages that were removed by this process.
    pub removed: u64,
}

/// How many messages the limits of a stream have dropped between two looks, and which limit.
///
/// Everything that was stored and is not there has gone: by a limit, or because it was replaced
/// or removed by somebody. What others remove while a limit is at work is taken for its doing.
#[must_use]
pub fn dropped(before: &Kept, after: &Kept, known: Known, now: UnixMillis) -> (u64, Limit) {
    let stored = after.last_sequence.saturating_sub(before.last_sequence);
    let expected = before.messages + stored.saturating_sub(known.again);
    let gone = expected
        .saturating_sub(after.messages)
        .saturating_sub(known.removed);
    let limit = at_work(before, after, now);
    (limit.map_or(0, |_| gone), limit.unwrap_or(Limit::Age))
}

fn at_work(before: &Kept, after: &Kept, now: UnixMillis) -> Option<Limit> {
    let stands = before.oldest.is_some() && before.oldest == after.oldest;
    if stands {
        return None;
    }
    let reached_its_age = |age: Duration| {
        let oldest = before.oldest.map(|at| now.since(at));
        oldest.is_some_and(|oldest| oldest.saturating_add(SLACK) >= age)
    };
    if before.max_age.is_some_and(reached_its_age) {
        return Some(Limit::Age);
    }
    let (part, whole) = NEARLY_FULL;
    let full = |limit: u64| after.bytes >= limit / whole * part;
    after.max_bytes.is_some_and(full).then_some(Limit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn kept(messages: u64, last_sequence: u64, oldest_day: i64) -> Kept {
        Kept {
            messages,
            bytes: messages * 100,
            last_sequence,
            oldest: Some(UnixMillis(oldest_day * DAY)),
            created: UnixMillis(0),
            max_age: Some(Duration::from_secs(30 * 86_400)),
            max_bytes: None,
        }
    }

    fn at(day: i64) -> UnixMillis {
        UnixMillis(day * DAY)
    }

    #[test]
    fn what_is_too_old_is_dropped_by_age() {
        let none = Known::default();
        let after = kept(80, 120, 11);
        let found = dropped(&kept(100, 100, 10), &after, none, at(40));
        assert_eq!(found, (40, Limit::Age));
    }

    #[test]
    fn what_a_full_stream_drops_is_dropped_by_bytes() {
        let full = |kept: Kept| Kept {
            max_bytes: Some(10_000),
            ..kept
        };
        let (before, after) = (full(kept(100, 100, 10)), full(kept(100, 150, 11)));
        let found = dropped(&before, &after, Known::default(), at(12));
        assert_eq!(found, (50, Limit::Bytes));
        let empty = Kept {
            oldest: None,
            ..full(kept(0, 0, 0))
        };
        let found = dropped(&empty, &after, Known::default(), at(12));
        assert_eq!(
            found,
            (50, Limit::Bytes),
            "filled and overflown between two looks"
        );
    }

    #[test]
    fn what_is_replaced_or_removed_was_not_dropped() {
        let replaced = Known {
            again: 20,
            removed: 0,
        };
        let (before, after) = (kept(100, 100, 10), kept(100, 120, 11));
        assert_eq!(dropped(&before, &after, replaced, at(40)).0, 0);
        let removed = Known {
            again: 0,
            removed: 40,
        };
        let after = kept(60, 100, 11);
        assert_eq!(dropped(&before, &after, removed, at(40)).0, 0);
        // Nothing is old and nothing is full: an operator has purged.
        assert_eq!(dropped(&before, &after, Known::default(), at(12)).0, 0);
    }
}
