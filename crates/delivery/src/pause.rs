//! Time paused or disabled does not count against `max_age`.
//!
//! An endpoint carries how long it has been disabled so far, a delivery how much of that it
//! has been credited with. The difference is credited whenever somebody looks at it, wherever
//! it waited meanwhile.

use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::time::UnixMillis;
use std::time::Duration;

/// More than this is not credited: 30 days.
pub const MAX_HOLD: Duration = Duration::from_secs(30 * 86_400);

impl Endpoint {
    /// How long it has been disabled until `now`, all times together.
    #[must_use]
    pub fn disabled_for(&self, now: UnixMillis) -> Duration {
        let current = self
            .disabled
            .map_or(Duration::ZERO, |(_, since)| now.since(since));
        self.disabled_before.saturating_add(current)
    }

    /// Enables it, and remembers how long it was disabled.
    pub fn enable(&mut self, now: UnixMillis) {
        self.disabled_before = self.disabled_for(now);
        self.disabled = None;
    }
}

impl Delivery {
    /// Whether it will never be sent any more: its life is over, and no pause that is still
    /// credited keeps it.
    #[must_use]
    pub fn is_over(&self, endpoint: &Endpoint, now: UnixMillis) -> bool {
        now >= self.ends_at(endpoint, now)
    }

    /// When its life ends, as it looks at `now`: later by every pause that is still to be
    /// credited.
    #[must_use]
    pub fn ends_at(&self, endpoint: &Endpoint, now: UnixMillis) -> UnixMillis {
        let total = endpoint.disabled_for(now);
        let owed = self
            .pauses_known
            .map_or(Duration::ZERO, |known| total.saturating_sub(known));
        let credit = owed.min(MAX_HOLD.saturating_sub(self.held));
        self.expires_at + credit
    }

    /// Moves the end of its life by what its endpoint has been disabled since it was last
    /// looked at, up to [`MAX_HOLD`] altogether.
    pub fn credit_pauses(&mut self, endpoint: &Endpoint, now: UnixMillis) {
        let total = endpoint.disabled_for(now);
        let Some(known) = self.pauses_known else {
            self.pauses_known = Some(total);
            return;
        };
        let left = MAX_HOLD.saturating_sub(self.held);
        let credit = total.saturating_sub(known).min(left);
        self.held += credit;
        self.expires_at = self.expires_at + credit;
        self.pauses_known = Some(known.max(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::DisabledReason;
    use crate::testing::{NOW, delivery, endpoint};

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_pause_stops_the_clock_of_max_age_however_often_one_looks() {
        let (mut endpoint, mut waiting) = (endpoint(), delivery());
        let life = NOW.until(waiting.expires_at);
        waiting.credit_pauses(&endpoint, NOW);
        endpoint.disabled = Some((DisabledReason::Paused, NOW + DAY));
        for hours in 25..=48 {
            waiting.credit_pauses(&endpoint, NOW + Duration::from_secs(hours * 3_600));
        }
        endpoint.enable(NOW + DAY * 3);
        waiting.credit_pauses(&endpoint, NOW + DAY * 4);
        assert_eq!(waiting.held, DAY * 2);
        assert_eq!(NOW.until(waiting.expires_at), life + DAY * 2);
    }

    #[test]
    fn pauses_before_its_time_are_not_credited_and_thirty_days_are_the_most() {
        let (mut endpoint, mut waiting) = (endpoint(), delivery());
        endpoint.disabled_before = DAY * 7;
        waiting.credit_pauses(&endpoint, NOW);
        assert_eq!(waiting.held, Duration::ZERO);
        endpoint.disabled = Some((DisabledReason::Paused, NOW));
        waiting.credit_pauses(&endpoint, NOW + DAY * 300);
        assert_eq!(waiting.held, MAX_HOLD);
    }

    #[test]
    fn a_delivery_is_over_when_its_life_is_and_not_while_a_pause_keeps_it() {
        let (mut endpoint, mut waiting) = (endpoint(), delivery());
        waiting.credit_pauses(&endpoint, NOW);
        let end = waiting.expires_at;
        assert!(!waiting.is_over(&endpoint, UnixMillis(end.0 - 1)));
        assert!(waiting.is_over(&endpoint, end));
        endpoint.disabled = Some((DisabledReason::Paused, NOW + DAY));
        assert!(!waiting.is_over(&endpoint, end + DAY * 20));
        assert!(waiting.is_over(&endpoint, end + MAX_HOLD));
    }

    #[test]
    fn bo_04_a_clock_that_jumps_back_takes_nothing_away() {
        let (mut endpoint, mut waiting) = (endpoint(), delivery());
        waiting.credit_pauses(&endpoint, NOW);
        endpoint.disabled = Some((DisabledReason::Paused, NOW));
        waiting.credit_pauses(&endpoint, NOW + DAY);
        waiting.credit_pauses(&endpoint, NOW);
        waiting.credit_pauses(&endpoint, NOW + DAY);
        assert_eq!(waiting.held, DAY);
    }
}
