//! The time that has passed in a ramp, from a clock that may be set.
//!
//! Everything in a ramp is about durations of seconds. Held against a wall clock that was put
//! back an hour they would stop it for an hour, and one that was put forward would let go at
//! once what belongs to an hour. So a ramp counts its own milliseconds.

use crate::time::{UnixMillis, millis};
use std::time::Duration;

/// The longest time that is believed to have passed between two looks at the clock.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// Milliseconds since the ramp began. They never go back, and a jump of the clock counts as
/// nothing when it goes back and as a second at most when it goes forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    seen: UnixMillis,
    millis: u64,
}

impl Passed {
    pub(super) fn start(now: UnixMillis) -> Passed {
        Passed {
            seen: now,
            millis: 0,
        }
    }

    /// Milliseconds from the beginning to the last look at the clock.
    pub(super) fn millis(&self) -> u64 {
        self.millis
    }

    /// Milliseconds from the beginning to `now`.
    pub(super) fn at(&self, now: UnixMillis) -> u64 {
        let step = now.since(self.seen).min(LONGEST_STEP);
        self.millis.saturating_add(millis(step))
    }

    /// Looks at the clock, and returns the milliseconds since the ramp began.
    pub(super) fn advance(&mut self, now: UnixMillis) -> u64 {
        self.millis = self.at(now);
        self.seen = now;
        self.millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bo_04_a_jump_of_the_clock_is_a_short_step_or_none() {
        let mut passed = Passed::start(UnixMillis(1_000_000));
        assert_eq!(passed.advance(UnixMillis(1_000_250)), 250);
        assert_eq!(passed.advance(UnixMillis(-5)), 250, "an hour back");
        assert_eq!(passed.advance(UnixMillis(5)), 260, "and on from there");
        assert_eq!(passed.advance(UnixMillis(i64::MAX)), 1_260);
        assert_eq!(passed.advance(UnixMillis(i64::MIN)), 1_260);
    }
}
