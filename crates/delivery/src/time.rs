//! Wall-clock instants as they travel in messages.

use std::ops::Add;
use std::time::Duration;

/// A point in time, in milliseconds since the Unix epoch.
///
/// All arithmetic saturates: a hostile `Retry-After` or a clock that jumped can at worst
/// make a wait long or short, never panic or wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// The time from `earlier` to here; zero when `earlier` is in fact later.
    #[must_use]
    pub fn since(self, earlier: UnixMillis) -> Duration {
        let millis = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// The time from here until `later`; zero when it has passed.
    #[must_use]
    pub fn until(self, later: UnixMillis) -> Duration {
        later.since(self)
    }

    /// Whole seconds since the epoch, as `webhook-timestamp` wants them.
    #[must_use]
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Whether this is the zero value, which messages use for "not set".
    #[must_use]
    pub fn is_unset(self) -> bool {
        self.0 == 0
    }
}

impl Add<Duration> for UnixMillis {
    type Output = UnixMillis;

    fn add(self, wait: Duration) -> UnixMillis {
        UnixMillis(
            self.0
                .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

/// The milliseconds of a duration, saturating at `u64::MAX`.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bo_04_clock_arithmetic_saturates() {
        assert_eq!(UnixMillis(5).since(UnixMillis(9)), Duration::ZERO);
        assert_eq!(UnixMillis(i64::MAX) + Duration::MAX, UnixMillis(i64::MAX));
        assert_eq!(
            UnixMillis(i64::MIN).until(UnixMillis(i64::MAX)).as_millis(),
            i64::MAX as u128
        );
        assert_eq!(UnixMillis(-1).as_secs(), -1);
    }
}
