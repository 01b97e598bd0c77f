//! So many a second: the next slot, and not a window that empties at its edge.
//!
//! Virtual scheduling, as in the generic cell rate algorithm of ITU-T I.371: each release moves
//! the time of the next one on by the interval. What was not used is not saved up, apart from
//! what a late look has missed.

use crate::time::UnixMillis;
use std::time::Duration;

/// [`Pace::LATE`] in microseconds.
const LATE: i64 = 100_000;

/// Slots at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    interval_micros: i64,
    next_micros: i64,
    late_micros: i64,
}

impl Pace {
    /// A look may come so late without a slot being lost, where nothing else is said.
    pub const LATE: Duration = Duration::from_micros(LATE.unsigned_abs());

    /// Slots every `interval`, at least a microsecond, the first of them one interval after
    /// `now`: whoever had the lane before may just have used one.
    #[must_use]
    pub fn start(interval: Duration, now: UnixMillis) -> Pace {
        let interval_micros = i64::try_from(interval.as_micros())
            .unwrap_or(i64::MAX)
            .max(1);
        Pace {
            interval_micros,
            next_micros: micros(now).saturating_add(interval_micros),
            late_micros: LATE,
        }
    }

    /// Slots that a look misses by up to `late` are made up for: a rate that is asked for on the
    /// average, and no bound of the endpoint's, is kept on a machine that is busy too.
    #[must_use]
    pub fn making_up(self, late: Duration) -> Pace {
        Pace {
            late_micros: i64::try_from(late.as_micros()).unwrap_or(LATE),
            ..self
        }
    }

    /// Another interval from here on.
    #[must_use]
    pub fn with_interval(self, interval: Duration, now: UnixMillis) -> Pace {
        let fresh = Pace::start(interval, now);
        match fresh.interval_micros == self.interval_micros {
            true => self,
            false => Pace {
                late_micros: self.late_micros,
                ..fresh
            },
        }
    }

    /// How many slots there are at `now`.
    #[must_use]
    pub fn permit(&self, now: UnixMillis) -> u32 {
        let from = self.first(now);
        let late = micros(now).saturating_sub(from);
        if late < 0 {
            return 0;
        }
        u32::try_from(late / self.interval_micros + 1).unwrap_or(u32::MAX)
    }

    /// `n` slots were used.
    pub fn used(&mut self, n: u32, now: UnixMillis) {
        let spent = self.interval_micros.saturating_mul(i64::from(n));
        self.next_micros = self.first(now).saturating_add(spent);
    }

    /// When the next slot comes, rounded up to the millisecond.
    #[must_use]
    pub fn next(&self, now: UnixMillis) -> UnixMillis {
        UnixMillis(self.first(now).saturating_add(999).div_euclid(1_000))
    }

    /// The next slot, neither longer ago than a late look, nor farther ahead than an interval:
    /// a clock that jumped costs at most that.
    fn first(&self, now: UnixMillis) -> i64 {
        let now = micros(now);
        let ahead = now.saturating_add(self.interval_micros);
        self.next_micros
            .clamp(now.saturating_sub(self.late_micros).min(ahead), ahead)
    }
}

fn micros(at: UnixMillis) -> i64 {
    at.0.saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;

    fn at(millis: i64) -> UnixMillis {
        UnixMillis(NOW.0 + millis)
    }

    /// Releases in each of `seconds`, with a look every `tick` milliseconds.
    fn run(pace: &mut Pace, tick: usize, seconds: i64) -> Vec<u32> {
        let mut counts = vec![0; usize::try_from(seconds).unwrap()];
        for ms in (0..seconds * 1_000).step_by(tick) {
            let n = pace.permit(at(ms));
            pace.used(n, at(ms));
            counts[usize::try_from(ms / 1_000).unwrap()] += n;
        }
        counts
    }

    #[test]
    fn fifty_a_second_are_fifty_in_every_second_however_often_one_looks() {
        for tick in [1, 7, 20, 33, 90] {
            let mut pace = Pace::start(Duration::from_millis(20), NOW);
            let counts = run(&mut pace, tick, 20);
            assert!(
                counts[1..].iter().all(|n| (45..=55).contains(n)),
                "{tick}: {counts:?}"
            );
            let total: u32 = counts.iter().sum();
            assert!((990..=1_000).contains(&total), "{tick}: {total}");
        }
    }

    #[test]
    fn less_than_one_a_second_comes_too() {
        let mut pace = Pace::start(Duration::from_secs(4), NOW);
        assert_eq!(run(&mut pace, 10, 17).iter().sum::<u32>(), 4);
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let mut pace = Pace::start(Duration::from_millis(20), NOW);
        let after_a_minute = at(60_000);
        assert!(pace.permit(after_a_minute) <= 6);
        pace.used(pace.permit(after_a_minute), after_a_minute);
        assert_eq!(pace.permit(after_a_minute), 0);
        assert!(pace.next(after_a_minute) <= at(60_020));
    }

    #[test]
    fn a_rate_that_is_made_up_for_is_kept_by_late_looks() {
        let bound = Pace::start(Duration::from_millis(5), NOW);
        let asked = bound.making_up(Duration::from_millis(500));
        for (mut pace, most) in [(bound, 110), (asked, 200)] {
            let counts = run(&mut pace, 200, 20);
            assert!(counts[1..].iter().all(|n| *n <= most), "{counts:?}");
            if most == 200 {
                assert!(counts[1..].iter().all(|n| *n == 200), "{counts:?}");
            }
        }
        // A pause is not a late look.
        assert_eq!(asked.permit(at(60_000)), 101);
    }

    #[test]
    fn bo_04_a_clock_that_jumps_back_costs_one_interval() {
        let mut pace = Pace::start(Duration::from_millis(20), at(3_600_000));
        assert_eq!(pace.permit(NOW), 0);
        assert!(pace.next(NOW) <= at(20));
        pace.used(0, NOW);
        assert_eq!(pace.permit(at(20)), 1);
    }

    #[test]
    fn another_rate_is_in_force_at_once_and_the_same_one_changes_nothing() {
        let mut slow = Pace::start(Duration::from_secs(60), NOW);
        slow.used(0, NOW);
        let fast = slow.with_interval(Duration::from_millis(10), NOW);
        assert_eq!(fast.permit(at(10)), 1);
        assert_eq!(slow.with_interval(Duration::from_secs(60), at(5)), slow);
    }
}
