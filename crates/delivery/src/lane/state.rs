//! What everybody knows of an active lane.

use crate::endpoint::DisabledReason;
use crate::ids::Tenant;
use crate::time::UnixMillis;

/// Why a lane is active: the words of the API and of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneReason {
    /// The breaker is open.
    BreakerOpen,
    /// A probe is on its way.
    Probing,
    /// The endpoint is well again and eased back in.
    Ramp,
    /// The endpoint asked for quiet.
    RetryAfter,
    /// As many requests are in flight as may be.
    InFlight,
    /// So many a second and no more.
    RateLimit,
    /// One after the other, in the order of the events.
    Fifo,
    /// Disabled by an operator.
    Paused,
    /// Disabled because its breaker had been open for days.
    Disabled,
    /// Disabled because it answered 410.
    Gone,
    /// An operator sends again.
    Replay,
    /// Live traffic goes first.
    BehindLive,
    /// What is left is let go.
    Draining,
}

impl LaneReason {
    /// All of them.
    pub const ALL: [LaneReason; 13] = [
        LaneReason::BreakerOpen,
        LaneReason::Probing,
        LaneReason::Ramp,
        LaneReason::RetryAfter,
        LaneReason::InFlight,
        LaneReason::RateLimit,
        LaneReason::Fifo,
        LaneReason::Paused,
        LaneReason::Disabled,
        LaneReason::Gone,
        LaneReason::Replay,
        LaneReason::BehindLive,
        LaneReason::Draining,
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LaneReason::BreakerOpen => "breaker_open",
            LaneReason::Probing => "probing",
            LaneReason::Ramp => "ramp",
            LaneReason::RetryAfter => "retry_after",
            LaneReason::InFlight => "in_flight",
            LaneReason::RateLimit => "rate_limit",
            LaneReason::Fifo => "fifo",
            LaneReason::Paused => "paused",
            LaneReason::Disabled => "disabled",
            LaneReason::Gone => "gone",
            LaneReason::Replay => "replay",
            LaneReason::BehindLive => "behind_live",
            LaneReason::Draining => "draining",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<LaneReason> {
        LaneReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
    }

    /// The reason of a lane whose endpoint is disabled.
    #[must_use]
    pub fn of_disabled(reason: DisabledReason) -> LaneReason {
        match reason {
            DisabledReason::Paused => LaneReason::Paused,
            DisabledReason::Breaker => LaneReason::Disabled,
            DisabledReason::Gone => LaneReason::Gone,
        }
    }

    /// Whether nothing at all is let go under it.
    #[must_use]
    pub fn is_hold(self) -> bool {
        matches!(
            self,
            LaneReason::BreakerOpen
                | LaneReason::RetryAfter
                | LaneReason::Paused
                | LaneReason::Disabled
                | LaneReason::Gone
        )
    }
}

/// An active lane. The key is absent while its endpoint flows freely.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneState {
    /// Whose endpoint.
    pub tenant: Tenant,
    /// Why it is active.
    pub reason: LaneReason,
    /// Nothing is let go before; unset where that is not known.
    pub hold_until: UnixMillis,
    /// When it became active.
    pub since: UnixMillis,
    /// Rises at opening and whenever a hold begins. What was let go carries it, so that what
    /// was let go before a hold is told from what may be sent now.
    pub epoch: u64,
    /// Rises whenever its token is taken; who took it last owns it.
    pub owner: u64,
    /// What a replay job asked for; 0 where nobody asked.
    pub rate_per_second: u32,
}

impl LaneState {
    /// A lane that becomes active at `now`. Epochs of one endpoint do not repeat because they
    /// begin at the clock, which moves on between a closing and the next opening.
    #[must_use]
    pub fn open(tenant: &Tenant, reason: LaneReason, until: UnixMillis, now: UnixMillis) -> Self {
        LaneState {
            tenant: tenant.clone(),
            reason,
            hold_until: until,
            since: now,
            epoch: u64::try_from(now.0).unwrap_or(0).max(1),
            owner: 0,
            rate_per_second: 0,
        }
    }

    /// The state after its token was taken by somebody.
    #[must_use]
    pub fn taken(&self) -> LaneState {
        LaneState {
            owner: self.owner.saturating_add(1),
            ..self.clone()
        }
    }

    /// Whether both are the state of one lane under one owner. Owners count from 1 in each
    /// opening of a lane, so the number alone may be that of an owner of an earlier one.
    #[must_use]
    pub fn is_owned_as(&self, other: &LaneState) -> bool {
        self.owner == other.owner && self.since == other.since
    }

    /// The state under another reason; `None` when there is nothing to tell.
    #[must_use]
    pub fn moved(&self, reason: LaneReason, until: UnixMillis) -> Option<LaneState> {
        if self.reason == reason && self.hold_until == until {
            return None;
        }
        let begins = reason.is_hold() && self.reason != reason;
        Some(LaneState {
            reason,
            hold_until: until,
            epoch: self.epoch.saturating_add(u64::from(begins)),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;
    use std::time::Duration;

    fn opened() -> LaneState {
        let tenant = Tenant::parse("acme").unwrap();
        LaneState::open(&tenant, LaneReason::InFlight, UnixMillis(0), NOW)
    }

    #[test]
    fn the_epoch_rises_when_a_hold_begins_and_not_when_it_goes_on() {
        let lane = opened();
        let until = NOW + Duration::from_secs(30);
        let held = lane.moved(LaneReason::BreakerOpen, until).unwrap();
        assert_eq!(held.epoch, lane.epoch + 1);
        let longer = held
            .moved(LaneReason::BreakerOpen, until + Duration::from_secs(1))
            .unwrap();
        assert_eq!(longer.epoch, held.epoch);
        let ramp = longer.moved(LaneReason::Ramp, UnixMillis(0)).unwrap();
        assert_eq!(ramp.epoch, held.epoch);
        assert_eq!(ramp.moved(LaneReason::Ramp, UnixMillis(0)), None);
    }

    #[test]
    fn every_takeover_raises_the_owner_and_nothing_else() {
        let lane = opened();
        let taken = lane.taken();
        assert_eq!(taken.owner, lane.owner + 1);
        assert_eq!(LaneState { owner: 0, ..taken }, lane);
    }

    #[test]
    fn an_owner_of_an_earlier_opening_owns_nothing_of_a_later_one() {
        let first = opened().taken();
        let later = LaneState {
            since: NOW + Duration::from_millis(1),
            ..opened()
        };
        assert_eq!(first.owner, later.taken().owner);
        assert!(!first.is_owned_as(&later.taken()));
        assert!(!first.is_owned_as(&first.taken()));
        let held = first.moved(LaneReason::BreakerOpen, NOW).unwrap();
        assert!(first.is_owned_as(&held));
    }

    #[test]
    fn names_are_read_back() {
        for reason in LaneReason::ALL {
            assert_eq!(LaneReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(LaneReason::parse("broken"), None);
    }
}
