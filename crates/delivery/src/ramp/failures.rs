//! Are there more failures than this endpoint usually has?
//!
//! An endpoint that fails one request in ten because of what is in them fails one in ten at
//! any rate; to slow down for it would never end. One that fails because of the rate did not
//! fail before the rate rose. So a burst of failures is held against the share that is usual
//! in this ramp, and counts as a sign of distress when chance does not explain it.

/// What the usual share starts from: so many good answers, which nobody has seen.
const PRIOR: f64 = 50.0;
/// So many standard deviations above the usual is more than chance.
const DEVIATIONS: f64 = 3.0;
/// The burst is made of the last second's answers, but of no fewer than these.
const FEWEST_RECENT: f64 = 25.0;
/// The usual is remembered over ten times as many.
const USUAL_FACTOR: f64 = 10.0;

/// Answers, the older ones fading.
#[derive(Clone, Copy, Debug, Default)]
struct Fading {
    good: f64,
    bad: f64,
}

impl Fading {
    fn add(&mut self, good: bool, memory: f64) {
        let keep = 1.0 - 1.0 / memory;
        self.good = self.good * keep + f64::from(u8::from(good));
        self.bad = self.bad * keep + f64::from(u8::from(!good));
    }
}

/// The failures of late beside the usual share of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    usual: Fading,
    recent: Fading,
}

impl Failures {
    /// Counts an answer; `rate` is answers a second of late. One that is `stale` was asked
    /// before the last back-off and says nothing about what that has brought.
    pub(super) fn add(&mut self, good: bool, rate: f64, stale: bool) {
        let memory = rate.max(FEWEST_RECENT);
        self.usual.add(good, memory * USUAL_FACTOR);
        if !stale {
            self.recent.add(good, memory);
        }
    }

    /// Whether there are more failures of late than chance would make of the usual share.
    pub(super) fn is_unusual(&self) -> bool {
        let usual_share = self.usual.bad / (self.usual.good + self.usual.bad + PRIOR);
        let expected = (self.recent.good + self.recent.bad) * usual_share;
        self.recent.bad > expected + DEVIATIONS * (expected + 1.0).sqrt()
    }

    /// The share of failures of late, from 0 to 1.
    pub(super) fn recent_share(&self) -> f64 {
        self.recent.bad / (self.recent.good + self.recent.bad).max(1.0)
    }

    /// The rate was lowered: what follows is judged by itself.
    pub(super) fn forget_recent(&mut self) {
        self.recent = Fading::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    #[test]
    fn four_failures_at_the_start_are_unusual_and_three_are_not() {
        let mut failures = Failures::default();
        for _ in 0..3 {
            failures.add(false, 10.0, false);
        }
        assert!(!failures.is_unusual());
        failures.add(false, 10.0, false);
        assert!(failures.is_unusual());
    }

    #[test]
    fn a_steady_tenth_is_usual_and_a_jump_from_it_is_not() {
        let mut rng = Pcg64::seed_from_u64(3);
        let mut failures = Failures::default();
        let mut alarms = 0;
        for _ in 0..20_000 {
            failures.add(rng.random_bool(0.9), 500.0, false);
            alarms += u32::from(failures.is_unusual());
        }
        assert!(alarms < 200, "{alarms} of 20,000 answers");
        failures.forget_recent();
        let after = (1..).find(|n| {
            failures.add(n % 2 == 0, 500.0, false);
            failures.is_unusual()
        });
        assert!(after < Some(60), "half of them fail: told after {after:?}");
    }

    #[test]
    fn what_was_asked_before_the_back_off_does_not_count_as_recent() {
        let mut failures = Failures::default();
        for _ in 0..100 {
            failures.add(false, 10.0, true);
        }
        assert!(!failures.is_unusual());
    }
}
