//! Overdue work is let go at a bounded rate.
//!
//! After an outage everything that fell due meanwhile is due at once; a broker hands 40,000
//! redeliveries over within a second. Receivers did nothing to deserve that, so what is more
//! than a second late passes here: each takes the next slot of a virtual clock, plus jitter.

use crate::time::{UnixMillis, millis};
use rand::{Rng, RngExt};
use std::time::Duration;

/// What is late by no more than this passes freely: 1 s.
pub const TIMELY: Duration = Duration::from_secs(1);

/// A virtual clock of release slots.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    interval_micros: u64,
    next_micros: i64,
}

impl Pacer {
    /// A pacer of `per_second` slots a second (at least 1, at most 1,000,000).
    #[must_use]
    pub fn new(per_second: u32) -> Pacer {
        Pacer {
            interval_micros: 1_000_000 / u64::from(per_second.clamp(1, 1_000_000)),
            next_micros: 0,
        }
    }

    /// The time of the next free slot, never before `now`, with up to half a second of jitter
    /// on top.
    pub fn slot(&mut self, now: UnixMillis, rng: &mut impl Rng) -> UnixMillis {
        let now_micros = now.0.saturating_mul(1_000);
        let at = self.next_micros.max(now_micros);
        self.next_micros =
            at.saturating_add(i64::try_from(self.interval_micros).unwrap_or(i64::MAX));
        let jitter = rng.random_range(0..=millis(Duration::from_millis(500)));
        UnixMillis(at / 1_000) + Duration::from_millis(jitter)
    }
}

/// Whether something due at `not_before` is late enough to be paced.
#[must_use]
pub fn is_overdue(not_before: UnixMillis, now: UnixMillis) -> bool {
    now.since(not_before) > TIMELY
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    #[test]
    fn five_thousand_at_once_take_ten_seconds_at_500_a_second() {
        let mut rng = Pcg64::seed_from_u64(1);
        let mut pacer = Pacer::new(500);
        let mut per_second = [0_u32; 12];
        for _ in 0..5_000 {
            let slot = pacer.slot(NOW, &mut rng);
            assert!(slot >= NOW);
            per_second[usize::try_from(slot.since(NOW).as_secs()).unwrap()] += 1;
        }
        assert!(per_second[..10].iter().all(|n| *n <= 600), "{per_second:?}");
        assert!(per_second[9] > 300 && per_second[11] == 0, "{per_second:?}");
    }

    #[test]
    fn an_idle_pacer_saves_nothing_up() {
        let mut rng = Pcg64::seed_from_u64(1);
        let mut pacer = Pacer::new(1);
        pacer.slot(NOW, &mut rng);
        let later = NOW + Duration::from_secs(100);
        assert!(pacer.slot(later, &mut rng) >= later);
        assert!(pacer.slot(later, &mut rng) >= later + Duration::from_secs(1));
    }

    #[test]
    fn a_second_is_timely() {
        assert!(!is_overdue(NOW, NOW + TIMELY));
        assert!(is_overdue(NOW, NOW + TIMELY + Duration::from_millis(1)));
        assert!(!is_overdue(NOW + TIMELY, NOW));
    }
}
