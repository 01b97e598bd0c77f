//! How long a held delivery waits, and what the wait costs it.
//!
//! A hold spends no attempt. Until a lane keeps what is held in order, each held delivery
//! waits on its own with a time of its own: the end of the hold plus a random part, because
//! all of them share that end and would otherwise come back in one instant.

use crate::admission::HoldReason;
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::time::{UnixMillis, millis};
use rand::{Rng, RngExt};
use std::time::Duration;

/// Time paused or disabled does not count against `max_age`, up to this: 30 days.
pub const MAX_HOLD: Duration = Duration::from_secs(30 * 86_400);

/// Bounds of the wait between two looks at a paused endpoint.
const PAUSE_LOOK: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// The successor of a delivery that is held for `reason` until at least `until`.
pub fn held(
    delivery: Delivery,
    endpoint: &Endpoint,
    reason: HoldReason,
    until: UnixMillis,
    now: UnixMillis,
    rng: &mut impl Rng,
) -> Delivery {
    if let HoldReason::Disabled(_) = reason {
        return paused(delivery, now, rng);
    }
    let base = until.max(now);
    let spread = millis(spread(endpoint, reason, now.until(base)));
    let wanted = base + Duration::from_millis(rng.random_range(0..=spread));
    // Not beyond the end of its life: then it is dead-lettered on time, not a hold later.
    let not_before = wanted.min(delivery.expires_at.max(now));
    delivery.deferred(not_before)
}

/// Over how long those who wait for the same thing are spread.
fn spread(endpoint: &Endpoint, reason: HoldReason, wait: Duration) -> Duration {
    let cooldown = endpoint
        .breaker
        .map_or(Duration::from_secs(30), |policy| policy.cooldown());
    match reason {
        HoldReason::BreakerOpen | HoldReason::Probing => cooldown,
        HoldReason::RetryAfter => {
            (wait / 10).clamp(Duration::from_secs(1), Duration::from_secs(300))
        }
        HoldReason::InFlight => wait.max(Duration::from_millis(20)),
        HoldReason::Disabled(_) => Duration::ZERO,
    }
}

/// Waits twice as long as it has waited already, within bounds: an hour's pause costs a look a
/// minute, a short one ends soon after it is lifted.
fn paused(mut delivery: Delivery, now: UnixMillis, rng: &mut impl Rng) -> Delivery {
    let look = delivery.held.clamp(PAUSE_LOOK.0, PAUSE_LOOK.1);
    let wait = Duration::from_millis(rng.random_range(millis(look) / 2..=millis(look)));
    let free = wait.min(MAX_HOLD.saturating_sub(delivery.held));
    delivery.held += wait;
    delivery.expires_at = delivery.expires_at.max(now) + free;
    delivery.deferred(now + wait)
}

/// Where a delivery above the in-flight cap finds its next free slot.
///
/// Slots come free at the endpoint's own pace, `cap / latency` a second; each held delivery
/// takes the next one. So what is over the cap comes back as fast as the endpoint works it
/// off, and a hanging endpoint spreads its backlog over minutes instead of having it knock
/// again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotClock {
    next: UnixMillis,
    fraction_micros: u64,
}

/// However slow an endpoint is, a held delivery looks again within 5 minutes.
const MAX_SLOT_WAIT: Duration = Duration::from_secs(300);

impl SlotClock {
    /// Takes the next slot of an endpoint that answers within `latency` with `cap` requests
    /// in flight.
    pub fn take(&mut self, latency: Duration, cap: u32, now: UnixMillis) -> UnixMillis {
        if self.next < now {
            *self = SlotClock {
                next: now,
                fraction_micros: 0,
            };
        }
        let step = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX) / u64::from(cap.max(1));
        let micros = self.fraction_micros.saturating_add(step);
        self.next = (self.next + Duration::from_millis(micros / 1_000)).min(now + MAX_SLOT_WAIT);
        self.fraction_micros = micros % 1_000;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, delivery, endpoint};
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    #[test]
    fn cb_04_a_hold_spends_no_attempt_and_moves_one_hop() {
        let mut rng = Pcg64::seed_from_u64(1);
        let until = NOW + Duration::from_secs(600);
        let before = delivery();
        let after = held(
            before.clone(),
            &endpoint(),
            HoldReason::BreakerOpen,
            until,
            NOW,
            &mut rng,
        );
        assert_eq!((after.attempt, after.hop, after.history.len()), (1, 1, 0));
        assert!(after.not_before >= until);
        assert_ne!(after.message_id(), before.message_id());
        assert_eq!(after.expires_at, before.expires_at);
    }

    #[test]
    fn cb_05_what_waits_for_the_same_time_is_spread() {
        let mut rng = Pcg64::seed_from_u64(2);
        let until = NOW + Duration::from_secs(60);
        let mut seconds = [0_u32; 30];
        for _ in 0..1_000 {
            let next = held(
                delivery(),
                &endpoint(),
                HoldReason::BreakerOpen,
                until,
                NOW,
                &mut rng,
            );
            let late = usize::try_from(next.not_before.since(until).as_secs()).unwrap();
            seconds[late.min(29)] += 1;
        }
        assert!(seconds.iter().all(|n| (10..=70).contains(n)), "{seconds:?}");
    }

    #[test]
    fn a_hold_never_outlives_the_delivery() {
        let mut rng = Pcg64::seed_from_u64(3);
        let far = NOW + Duration::from_secs(40 * 86_400);
        let next = held(
            delivery(),
            &endpoint(),
            HoldReason::RetryAfter,
            far,
            NOW,
            &mut rng,
        );
        assert_eq!(next.not_before, next.expires_at);
    }

    #[test]
    fn a_pause_stops_the_clock_of_max_age_for_thirty_days() {
        let mut rng = Pcg64::seed_from_u64(4);
        let mut now = NOW;
        let mut waiting = delivery();
        let life = now.until(waiting.expires_at);
        let paused = HoldReason::Disabled(crate::endpoint::DisabledReason::Paused);
        while now.since(NOW) < Duration::from_secs(86_400) {
            waiting = held(waiting, &endpoint(), paused, now, now, &mut rng);
            now = waiting.not_before;
        }
        assert_eq!(now.until(waiting.expires_at), life);
        assert!(waiting.hop < 3_000, "{} looks in a day", waiting.hop);
        waiting.held = MAX_HOLD;
        let last = held(waiting.clone(), &endpoint(), paused, now, now, &mut rng);
        assert_eq!(last.expires_at, waiting.expires_at);
    }

    #[test]
    fn slots_come_free_at_the_pace_of_the_endpoint() {
        let mut clock = SlotClock::default();
        let slots: Vec<u128> = (0..4)
            .map(|_| {
                clock
                    .take(Duration::from_millis(100), 10, NOW)
                    .since(NOW)
                    .as_millis()
            })
            .collect();
        assert_eq!(slots, [10, 20, 30, 40]);
        let mut fast = SlotClock::default();
        let thousandth = (0..1_000)
            .map(|_| fast.take(Duration::from_micros(500), 32, NOW))
            .last()
            .unwrap();
        assert_eq!(
            thousandth.since(NOW).as_millis(),
            15,
            "fractions of a millisecond add up"
        );
        let mut hanging = SlotClock::default();
        let far = (0..100_000)
            .map(|_| hanging.take(Duration::from_secs(15), 1, NOW))
            .last()
            .unwrap();
        assert_eq!(far.since(NOW), MAX_SLOT_WAIT);
    }
}
