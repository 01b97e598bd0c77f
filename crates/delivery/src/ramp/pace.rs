//! The rate at which deliveries are let go.
//!
//! It grows by a share of itself: doubling in a second until the first sign of distress, then
//! slowly, and the faster the longer there has been no other sign. It never runs far ahead of
//! what has been answered well. After a sign it falls below the rate of good answers, which
//! under overload *is* what the endpoint can bear (TCP Westwood).

use std::f64::consts::LN_2;

/// A ramp begins with so many a second.
const FIRST: f64 = 10.0;
/// It never falls below so many a second.
const LOWEST: f64 = 1.0;
/// So many a second may be tried without a single good answer for it.
const UNPROVEN: f64 = 10.0;
/// What a sign of distress leaves of the rate of good answers.
const BACK_OFF: f64 = 0.9;
/// Growth right after a sign, as an exponent for a second,
const SLOW_GROWTH: f64 = 0.05;
/// which becomes e times as much in so many milliseconds, up to doubling.
const GROWTH_SCALE_MS: f64 = 4_330.0;
/// Growth back to what had been answered well before the sign,
const RETURN_GROWTH: f64 = 0.2;
/// up to this part of it.
const RETURN_TO: f64 = 0.95;
/// The rate does not grow for longer than this between two looks, in milliseconds.
const LONGEST_GROWTH_MS: u64 = 250;
/// Unused releases are saved up for this time and no longer, in seconds: an owner that looks
/// every 20 ms loses nothing, one that was away does not make up for it.
const SAVED_UP: f64 = 0.025;

/// A rate, and how many releases it has earned that were not used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    per_second: f64,
    credit: f64,
    looked_at: u64,
    distress_at: Option<u64>,
    /// Up to this rate it grows quickly after a sign.
    ceiling: f64,
}

impl Pace {
    pub(super) fn start() -> Pace {
        Pace {
            per_second: FIRST,
            credit: 1.0,
            looked_at: 0,
            distress_at: None,
            ceiling: 0.0,
        }
    }

    /// Time has passed. `proven` is good answers a second of late; the rate grows only when
    /// `may_grow`.
    pub(super) fn advance(&mut self, at: u64, proven: f64, may_grow: bool) {
        let step = at.saturating_sub(self.looked_at);
        self.credit = self.credit_at(at);
        self.looked_at = at;
        let growth = self.growth(at);
        if may_grow {
            let seconds = step.min(LONGEST_GROWTH_MS) as f64 / 1_000.0;
            self.per_second *= (growth * seconds).exp();
        }
        // At most twice what was proven while the rate doubles, closer to it later.
        let bound = (1.0 + growth / LN_2) * proven + UNPROVEN;
        self.per_second = self.per_second.clamp(LOWEST, bound);
    }

    /// How fast the rate may grow, as an exponent for a second.
    fn growth(&self, at: u64) -> f64 {
        let Some(distress_at) = self.distress_at else {
            return LN_2;
        };
        let calm = at.saturating_sub(distress_at) as f64;
        let slow = (SLOW_GROWTH * (calm / GROWTH_SCALE_MS).exp()).min(LN_2);
        if self.per_second < self.ceiling * RETURN_TO {
            slow.max(RETURN_GROWTH)
        } else {
            slow
        }
    }

    /// A sign of distress, while `good` a second are answered well. Up to `ceiling` the rate
    /// may grow quickly again.
    pub(super) fn back_off(&mut self, at: u64, good: f64, ceiling: f64) {
        self.ceiling = ceiling;
        self.per_second = self.per_second.min(BACK_OFF * good).max(LOWEST);
        self.credit = self.credit.min(1.0);
        self.distress_at = Some(at);
    }

    /// Releases that have been earned, whole and in parts, if nothing changes until `at`.
    fn credit_at(&self, at: u64) -> f64 {
        let seconds = at.saturating_sub(self.looked_at) as f64 / 1_000.0;
        let most = 1.0 + self.per_second * SAVED_UP;
        (self.credit + self.per_second * seconds).min(most)
    }

    /// How many the pace allows at once.
    pub(super) fn allows(&self) -> u32 {
        (self.credit + 1e-6) as u32
    }

    /// Milliseconds from `at` until it allows one.
    pub(super) fn wait(&self, at: u64) -> u64 {
        let missing = 1.0 - self.credit_at(at);
        (missing * 1_000.0 / self.per_second).ceil().max(0.0) as u64
    }

    pub(super) fn spend(&mut self, releases: u32) {
        self.credit = (self.credit - f64::from(releases)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases in each second when everything is answered well at once.
    fn releases(pace: &mut Pace, from: u64, seconds: usize) -> Vec<u32> {
        let mut each = vec![0; seconds];
        for (second, count) in each.iter_mut().enumerate() {
            for at in (0..1_000).step_by(5) {
                pace.advance(from + second as u64 * 1_000 + at, 1e6, true);
                *count += pace.allows();
                pace.spend(pace.allows());
            }
        }
        each
    }

    #[test]
    fn it_doubles_in_a_second_until_a_sign_of_distress_and_then_creeps() {
        let mut pace = Pace::start();
        let each = releases(&mut pace, 0, 6);
        assert!(each[0] <= 16, "{each:?}");
        let doubles = |pair: &[u32]| pair[1].abs_diff(2 * pair[0]) <= 4;
        assert!(each.windows(2).all(doubles), "{each:?}");
        pace.back_off(6_000, 500.0, 0.0);
        let each = releases(&mut pace, 6_000, 12);
        assert!((440..=480).contains(&each[0]), "{each:?}");
        assert!(each[2] < 550, "{each:?}");
        assert!(each[11] > 2 * each[7], "{each:?}");
    }

    #[test]
    fn it_returns_soon_to_what_was_well_before() {
        let mut pace = Pace::start();
        releases(&mut pace, 0, 7);
        pace.back_off(7_000, 300.0, 500.0);
        let each = releases(&mut pace, 7_000, 4);
        assert!((460..530).contains(&each[3]), "{each:?}");
    }

    #[test]
    fn without_evidence_it_is_a_trickle() {
        let mut pace = Pace::start();
        for at in 0..60_000 {
            pace.advance(at, 0.0, true);
        }
        assert!(pace.per_second <= UNPROVEN);
        for at in 60_000..120_000 {
            pace.back_off(at, 0.0, 0.0);
            pace.advance(at, 0.0, false);
        }
        assert!((pace.per_second - LOWEST).abs() < 1e-9);
        assert!(pace.wait(120_000) <= 1_000);
    }

    #[test]
    fn who_was_away_does_not_make_up_for_it() {
        let mut pace = Pace::start();
        releases(&mut pace, 0, 6);
        pace.advance(60_000, 1e6, true);
        assert!(f64::from(pace.allows()) <= 1.0 + pace.per_second * SAVED_UP);
    }
}
