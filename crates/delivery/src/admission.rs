//! The decision before an attempt: may this delivery be sent now?

use crate::breaker::{BreakerPolicy, BreakerState, Phase, claim};
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::lane::LaneReason;
use crate::time::UnixMillis;
use std::time::Duration;

/// A probe's lease outlives the endpoint's timeout by this much, so that a slow answer is
/// still the probe's answer.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send it.
    Allow {
        /// The generation that the attempt starts under.
        generation: u64,
        /// Whether it is the probe.
        probe: bool,
    },
    /// Write this state over the one that was read; if it is taken, send the probe.
    Claim(Box<BreakerState>),
    /// Hold it at least until then.
    Hold {
        /// The end of what it waits for.
        until: UnixMillis,
        /// What it waits for.
        reason: LaneReason,
    },
    /// Its `max_age` has passed.
    Expired,
}

/// Decides whether `delivery` may be attempted at `now`.
#[must_use]
pub fn admit(
    delivery: &Delivery,
    endpoint: &Endpoint,
    breaker: &BreakerState,
    now: UnixMillis,
) -> Admission {
    if delivery.is_over(endpoint, now) {
        return Admission::Expired;
    }
    if let Some(reason) = endpoint.disabled_reason() {
        return Admission::Hold {
            until: now,
            reason: LaneReason::of_disabled(reason),
        };
    }
    let breaker = breaker.for_target(endpoint.target_epoch);
    if breaker.hold_until > now {
        return Admission::Hold {
            until: breaker.hold_until,
            reason: LaneReason::RetryAfter,
        };
    }
    let lease = endpoint.timeout + LEASE_MARGIN;
    gate(
        &breaker,
        endpoint.breaker.as_ref(),
        delivery.message_id().as_str(),
        lease,
        now,
    )
}

/// The breaker's part of the decision.
#[must_use]
pub fn gate(
    breaker: &BreakerState,
    policy: Option<&BreakerPolicy>,
    delivery: &str,
    lease: Duration,
    now: UnixMillis,
) -> Admission {
    let allow = |probe| Admission::Allow {
        generation: breaker.generation,
        probe,
    };
    if policy.is_none() {
        return allow(false);
    }
    match (breaker.phase, &breaker.probe) {
        (Phase::Closed, _) => allow(false),
        (Phase::Open, _) if now < breaker.open_until => Admission::Hold {
            until: breaker.open_until,
            reason: LaneReason::BreakerOpen,
        },
        (Phase::HalfOpen, Some(probe)) if probe.delivery == delivery => allow(true),
        (Phase::HalfOpen, Some(probe)) if now < probe.lease_until => Admission::Hold {
            until: probe.lease_until,
            reason: LaneReason::Probing,
        },
        _ => Admission::Claim(Box::new(claim(breaker, delivery, lease, now))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::{hold, open_by_hand};
    use crate::endpoint::DisabledReason;
    use crate::testing::{NOW, delivery, endpoint};

    fn open(until: UnixMillis) -> BreakerState {
        open_by_hand(&BreakerState::default(), until, NOW)
    }

    #[test]
    fn a_healthy_endpoint_is_admitted_under_generation_zero() {
        let admitted = admit(&delivery(), &endpoint(), &BreakerState::default(), NOW);
        assert_eq!(
            admitted,
            Admission::Allow {
                generation: 0,
                probe: false
            }
        );
    }

    #[test]
    fn open_holds_and_then_one_delivery_claims_the_probe() {
        let until = NOW + Duration::from_secs(30);
        let state = open(until);
        let held = admit(&delivery(), &endpoint(), &state, NOW);
        assert_eq!(
            held,
            Admission::Hold {
                until,
                reason: LaneReason::BreakerOpen
            }
        );
        let Admission::Claim(claimed) = admit(&delivery(), &endpoint(), &state, until) else {
            panic!("the probe is claimed")
        };
        let again = admit(&delivery(), &endpoint(), &claimed, until);
        assert_eq!(
            again,
            Admission::Allow {
                generation: claimed.generation,
                probe: true
            }
        );
        let other = delivery().next_hop();
        let lease = claimed.probe.as_ref().unwrap().lease_until;
        let waits = Admission::Hold {
            until: lease,
            reason: LaneReason::Probing,
        };
        assert_eq!(admit(&other, &endpoint(), &claimed, until), waits);
        assert!(matches!(
            admit(&other, &endpoint(), &claimed, lease),
            Admission::Claim(_)
        ));
    }

    #[test]
    fn a_retry_after_hold_counts_even_without_a_breaker() {
        let mut endpoint = endpoint();
        endpoint.breaker = None;
        let until = NOW + Duration::from_secs(5);
        let state = hold(&open(NOW + Duration::from_secs(90)), until);
        let held = admit(&delivery(), &endpoint, &state, NOW);
        assert_eq!(
            held,
            Admission::Hold {
                until,
                reason: LaneReason::RetryAfter
            }
        );
        assert!(matches!(
            admit(&delivery(), &endpoint, &state, until),
            Admission::Allow { .. }
        ));
    }

    #[test]
    fn max_age_bounds_what_waits_behind_a_breaker_but_not_a_pause() {
        let mut old = delivery();
        old.expires_at = NOW;
        let state = open(NOW + Duration::from_secs(30));
        assert_eq!(admit(&old, &endpoint(), &state, NOW), Admission::Expired);
        let mut paused = endpoint();
        paused.disabled = Some((DisabledReason::Paused, UnixMillis(NOW.0 - 1_000)));
        old.pauses_known = Some(Duration::ZERO);
        assert!(matches!(
            admit(&old, &paused, &state, NOW),
            Admission::Hold { .. }
        ));
        old.held = crate::pause::MAX_HOLD;
        assert_eq!(admit(&old, &paused, &state, NOW), Admission::Expired);
    }
}
