//! The one place that reads the wall clock.
//!
//! Policies take `now` as an argument; a service reads it here once per decision, so that a test
//! can replay any moment and a clock that jumps cannot be seen half-way through a decision.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z by the wall clock, negative before it.
///
/// The wall clock may step in either direction. Elapsed time is measured with
/// `tokio::time::Instant` instead.
#[must_use]
pub fn now_unix_millis() -> i64 {
    unix_millis(SystemTime::now())
}

fn unix_millis(at: SystemTime) -> i64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_on_both_sides_of_the_epoch_are_signed() {
        assert_eq!(unix_millis(UNIX_EPOCH), 0);
        let span = Duration::from_micros(1_234_567);
        assert_eq!(unix_millis(UNIX_EPOCH + span), 1_234);
        assert_eq!(unix_millis(UNIX_EPOCH - span), -1_234);
    }

    #[test]
    fn the_clock_is_after_this_was_written() {
        assert!(now_unix_millis() > 1_700_000_000_000);
    }
}
