//! Whether an endpoint may be sent to now: the same gate that a dispatcher asks, asked before
//! anything is let go.

use super::LaneReason;
use crate::admission::{Admission, LEASE_MARGIN, gate};
use crate::breaker::BreakerState;
use crate::endpoint::Endpoint;
use crate::time::UnixMillis;
use std::time::Duration;

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Nothing may be sent before `until`.
    Shut {
        /// Why.
        reason: LaneReason,
        /// Not known of a pause: then it is when to look again.
        until: UnixMillis,
    },
    /// Exactly one may be sent.
    Probe,
    /// That one is on its way; its answer moves the breaker, or the end of its lease does.
    Probing {
        /// The end of the lease.
        until: UnixMillis,
    },
    /// Deliveries may be sent.
    Flow,
    /// It has been deleted: whatever is let go is dead-lettered without a request.
    Deleted,
}

/// A pause ends by a call that wakes the lane. The look is for a call that died half-way.
const PAUSE_LOOK: Duration = Duration::from_secs(60);

/// How `endpoint` stands at `now`; `None` is a deleted one.
#[must_use]
pub fn stand(endpoint: Option<&Endpoint>, breaker: &BreakerState, now: UnixMillis) -> Stand {
    let Some(endpoint) = endpoint else {
        return Stand::Deleted;
    };
    if let Some(reason) = endpoint.disabled_reason() {
        return Stand::Shut {
            reason: LaneReason::of_disabled(reason),
            until: now + PAUSE_LOOK,
        };
    }
    let breaker = breaker.for_target(endpoint.target_epoch);
    if breaker.hold_until > now {
        return Stand::Shut {
            reason: LaneReason::RetryAfter,
            until: breaker.hold_until,
        };
    }
    let lease = endpoint.timeout + LEASE_MARGIN;
    match gate(&breaker, endpoint.breaker.as_ref(), "", lease, now) {
        Admission::Hold {
            until,
            reason: LaneReason::Probing,
        } => Stand::Probing { until },
        Admission::Hold { until, .. } => Stand::Shut {
            reason: LaneReason::BreakerOpen,
            until,
        },
        Admission::Claim(_) => Stand::Probe,
        Admission::Allow { .. } | Admission::Expired => Stand::Flow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::{claim, hold, open_by_hand};
    use crate::endpoint::DisabledReason;
    use crate::testing::{NOW, endpoint};

    const LATER: UnixMillis = UnixMillis(NOW.0 + 30_000);

    #[test]
    fn an_endpoint_that_is_well_or_has_no_breaker_flows() {
        let well = BreakerState::default();
        assert_eq!(stand(Some(&endpoint()), &well, NOW), Stand::Flow);
        let mut without = endpoint();
        without.breaker = None;
        let open = open_by_hand(&well, LATER, NOW);
        assert_eq!(stand(Some(&without), &open, NOW), Stand::Flow);
        assert_eq!(stand(None, &open, NOW), Stand::Deleted);
    }

    #[test]
    fn cb_01_an_open_breaker_lets_nothing_go_and_then_one() {
        let open = open_by_hand(&BreakerState::default(), LATER, NOW);
        let shut = Stand::Shut {
            reason: LaneReason::BreakerOpen,
            until: LATER,
        };
        assert_eq!(stand(Some(&endpoint()), &open, NOW), shut);
        assert_eq!(stand(Some(&endpoint()), &open, LATER), Stand::Probe);
        let lease = Duration::from_secs(20);
        let probing = claim(&open, "m1", lease, LATER);
        let until = LATER + lease;
        assert_eq!(
            stand(Some(&endpoint()), &probing, LATER),
            Stand::Probing { until }
        );
        assert_eq!(stand(Some(&endpoint()), &probing, until), Stand::Probe);
    }

    #[test]
    fn the_target_of_a_breaker_that_knew_another_is_not_held() {
        let open = open_by_hand(&BreakerState::default(), LATER, NOW);
        let mut moved = endpoint();
        moved.target_epoch = 1;
        assert_eq!(stand(Some(&moved), &open, NOW), Stand::Flow);
    }

    #[test]
    fn quiet_that_was_asked_for_and_a_pause_are_shut() {
        let quiet = hold(&BreakerState::default(), LATER);
        let shut = Stand::Shut {
            reason: LaneReason::RetryAfter,
            until: LATER,
        };
        assert_eq!(stand(Some(&endpoint()), &quiet, NOW), shut);
        let mut paused = endpoint();
        paused.disabled = Some((DisabledReason::Paused, NOW));
        let Stand::Shut { reason, until } = stand(Some(&paused), &quiet, NOW) else {
            panic!("a pause shuts")
        };
        assert_eq!((reason, until), (LaneReason::Paused, NOW + PAUSE_LOOK));
    }
}
