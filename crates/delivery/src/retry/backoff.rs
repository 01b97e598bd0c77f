//! Capped exponential backoff.
//!
//! `ceiling(attempt) = min(max_delay, base * factor^(attempt - 1))`, saturating: the ceiling
//! of attempt four billion is `max_delay`, not a small number that wrapped around.

use std::time::Duration;

/// The shortest base: 1 ms.
pub const MIN_BASE: Duration = Duration::from_millis(1);
/// The longest single delay: 7 days.
pub const MAX_DELAY: Duration = Duration::from_secs(7 * 86_400);
/// Bounds of the factor, in thousandths: 1 (a constant delay) or 1.1 to 10.
pub const FACTOR_MILLI: (u32, u32) = (1_100, 10_000);

/// An exponential schedule, before jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    factor_milli: u32,
    max_delay: Duration,
}

impl Backoff {
    /// A schedule that begins at `base` and multiplies by `factor_milli / 1000` up to
    /// `max_delay`.
    ///
    /// Returns `None` when `base` is under 1 ms or over `max_delay`, when `max_delay` is over
    /// 7 days, or when the factor is neither 1 nor between 1.1 and 10.
    #[must_use]
    pub fn try_new(base: Duration, factor_milli: u32, max_delay: Duration) -> Option<Backoff> {
        let factor_ok =
            factor_milli == 1_000 || (FACTOR_MILLI.0..=FACTOR_MILLI.1).contains(&factor_milli);
        let range_ok = base >= MIN_BASE && base <= max_delay && max_delay <= MAX_DELAY;
        (factor_ok && range_ok).then_some(Backoff {
            base,
            factor_milli,
            max_delay,
        })
    }

    /// The first delay's ceiling.
    #[must_use]
    pub fn base(&self) -> Duration {
        self.base
    }

    /// The factor in thousandths.
    #[must_use]
    pub fn factor_milli(&self) -> u32 {
        self.factor_milli
    }

    /// The cap.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        self.max_delay
    }

    /// The ceiling of the delay after `attempt` (from 1; 0 counts as 1).
    #[must_use]
    pub fn ceiling(&self, attempt: u32) -> Duration {
        if self.factor_milli == 1_000 {
            return self.base;
        }
        let cap = self.max_delay.as_nanos();
        let mut nanos = self.base.as_nanos();
        // Growth by at least a tenth a step reaches any cap within some 350 steps.
        for _ in 1..attempt {
            if nanos >= cap {
                return self.max_delay;
            }
            nanos = nanos.saturating_mul(u128::from(self.factor_milli)) / 1_000;
        }
        Duration::from_nanos(u64::try_from(nanos.min(cap)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_schedule_doubles_to_an_hour() {
        let backoff =
            Backoff::try_new(Duration::from_secs(2), 2_000, Duration::from_secs(3_600)).unwrap();
        let seconds: Vec<u64> = (1..=13).map(|n| backoff.ceiling(n).as_secs()).collect();
        assert_eq!(
            seconds,
            [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]
        );
        assert_eq!(backoff.ceiling(0), backoff.ceiling(1));
    }

    proptest! {
        #[test]
        fn no_ceiling_is_above_the_cap_and_none_falls(
            base in 1_u64..=604_800_000, more in 0_u64..=604_800_000,
            factor in prop_oneof![Just(1_000_u32), 1_100_u32..=10_000],
            attempt in any::<u32>(),
        ) {
            let base = Duration::from_millis(base);
            let cap = (base + Duration::from_millis(more)).min(MAX_DELAY);
            let backoff = Backoff::try_new(base, factor, cap).unwrap();
            let here = backoff.ceiling(attempt);
            prop_assert!(here >= base && here <= cap);
            prop_assert!(backoff.ceiling(attempt.saturating_add(1)) >= here);
        }
    }
}
