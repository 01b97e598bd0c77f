//! How much waits in a lane, without asking for every delivery.
//!
//! Counting costs a request. The farther the bound is away, the longer a count is good: even
//! if all appenders together add as fast as a broker can store, they do not get there sooner.

use std::time::Duration;
use tokio::time::Instant;

/// More than this is added to one lane by nobody, in deliveries a second.
const FASTEST: u64 = 20_000;
/// A count is not older than this, however far away the bound is.
const OLDEST: Duration = Duration::from_secs(10);
/// So close to the bound appends go one by one.
const LITTLE: u64 = 64;

/// How far away the bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Margin {
    /// Far enough to append without a look.
    Plenty,
    /// One at a time, each after a look.
    Little,
    /// Reached, or not known well enough: it has to be counted.
    None,
}

/// The last count, and what was added here since.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    counted: u64,
    at: Option<Instant>,
    added: u64,
}

impl Backlog {
    /// `depth` deliveries were in the lane at `now`.
    pub fn counted(&mut self, depth: u64, now: Instant) {
        *self = Backlog {
            counted: depth,
            at: Some(now),
            added: 0,
        };
    }

    /// Takes room for one, on the strength of the last count.
    pub fn take(&mut self, bound: u64, now: Instant) -> Margin {
        let margin = bound.saturating_sub(self.counted + self.added);
        let good_for = Duration::from_millis(margin * 1_000 / FASTEST).min(OLDEST);
        let good = self.at.is_some_and(|at| now.duration_since(at) < good_for);
        if !good || margin <= LITTLE {
            return Margin::None;
        }
        self.added += 1;
        Margin::Plenty
    }

    /// Takes room for one, right after a count.
    pub fn take_counted(&mut self, bound: u64) -> Margin {
        let margin = bound.saturating_sub(self.counted);
        if margin == 0 {
            return Margin::None;
        }
        self.added += 1;
        match margin > LITTLE {
            true => Margin::Plenty,
            false => Margin::Little,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_bound_needs_a_count_now_and_then_and_a_near_one_always() {
        let now = Instant::now();
        let mut backlog = Backlog::default();
        assert_eq!(backlog.take(1_000_000, now), Margin::None, "never counted");
        backlog.counted(10, now);
        assert_eq!(backlog.take(1_000_000, now), Margin::Plenty);
        let later = now + OLDEST;
        assert_eq!(backlog.take(1_000_000, later), Margin::None, "too old");
        assert_eq!(backlog.take(20, now), Margin::None, "too near");
        assert_eq!(backlog.take_counted(20), Margin::Little);
        assert_eq!(backlog.take_counted(10), Margin::None);
    }

    #[test]
    fn what_is_added_uses_up_the_margin() {
        let now = Instant::now();
        let mut backlog = Backlog::default();
        backlog.counted(0, now);
        let taken = (0..1_000)
            .take_while(|_| backlog.take(500, now) == Margin::Plenty)
            .count();
        assert_eq!(taken as u64, 500 - LITTLE);
    }
}
