//! What one dispatcher makes of its own answers before it bothers the others with them.
//!
//! The count of consecutive failures is shared, and every change of it is a compare-and-swap
//! that all dispatchers contend for. An endpoint that answers thousands of requests a second
//! and fails one in ten would be written hundreds of times a second, and its successes, which
//! have to win the same race, would come too late to keep the count down: a busy endpoint that
//! is well would be cut off. So a success here takes back what has not been written yet, and a
//! single failure between successes is kept back until a second one follows it.

use crate::time::UnixMillis;
use std::time::Duration;

/// A success this recent makes a single failure an exception.
const RECENT: Duration = Duration::from_secs(10);
/// A breaker that opens after fewer failures is told of each at once.
const SMALL_THRESHOLD: u32 = 3;

/// The failures that this dispatcher has seen in a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streak {
    failures: u32,
    reported: u32,
    last_success: Option<UnixMillis>,
}

impl Streak {
    /// A success: the row begins anew.
    pub fn success(&mut self, now: UnixMillis) {
        *self = Streak {
            last_success: Some(now),
            ..Streak::default()
        };
    }

    /// One more failure. Returns how many are to be reported now: 0 when it is kept back, and
    /// with the next one those that were kept back as well. A dead endpoint is reported from
    /// its first failure where it has not answered well in the last 10 s, else from its second.
    pub fn failure(&mut self, threshold: u32, now: UnixMillis) -> u32 {
        self.failures = self.failures.saturating_add(1);
        let recently = self.last_success.is_some_and(|at| now.since(at) < RECENT);
        if self.failures == 1 && recently && threshold >= SMALL_THRESHOLD {
            return 0;
        }
        let fresh = self.failures - self.reported;
        self.reported = self.failures;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000_000);

    #[test]
    fn a_dead_endpoint_is_reported_from_its_first_failure() {
        let mut streak = Streak::default();
        let reports: Vec<u32> = (0..4).map(|_| streak.failure(5, NOW)).collect();
        assert_eq!(reports, [1, 1, 1, 1]);
    }

    #[test]
    fn one_that_was_well_a_moment_ago_is_reported_from_its_second_and_none_is_forgotten() {
        let mut streak = Streak::default();
        streak.success(NOW);
        let reports: Vec<u32> = (0..4).map(|_| streak.failure(5, NOW)).collect();
        assert_eq!(reports, [0, 2, 1, 1]);
        streak.success(NOW);
        let later = NOW + RECENT;
        assert_eq!(streak.failure(5, later), 1, "it was well too long ago");
    }

    #[test]
    fn an_endpoint_that_fails_now_and_then_is_hardly_ever_reported() {
        let mut streak = Streak::default();
        let mut reported = 0;
        for n in 0..1_000 {
            match n % 10 {
                0 => reported += streak.failure(5, NOW),
                _ => streak.success(NOW),
            }
        }
        assert_eq!(reported, 1, "only the very first, before any success");
    }

    #[test]
    fn a_breaker_that_opens_at_once_is_told_at_once() {
        let mut streak = Streak::default();
        streak.success(NOW);
        assert_eq!(streak.failure(2, NOW), 1);
    }
}
