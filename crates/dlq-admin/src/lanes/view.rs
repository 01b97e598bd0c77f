//! How a lane is shown.

use crate::view::time_if_set;
use posthorn_delivery::{
    Endpoint, LaneId, LaneKind, LaneReason, LaneState, RateLimit, Tenant, UnixMillis,
};
use posthorn_http_api::time::to_rfc3339;
use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;

/// An active lane.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct LaneView {
    /// `ep_…`.
    endpoint: String,
    /// `null` of what is left of an endpoint that has been deleted.
    tenant: Option<String>,
    /// `live`: what was published; `replay`: what is sent again.
    kind: &'static str,
    /// Why it is active: `breaker_open`, `probing`, `ramp`, `retry_after`, `in_flight`,
    /// `rate_limit`, `fifo`, `paused`, `disabled`, `gone`, `replay`, `behind_live` or
    /// `draining`.
    reason: &'static str,
    /// Since when.
    since: Option<String>,
    /// Nothing is let go before; `null` where that is not known.
    hold_until: Option<String>,
    /// Deliveries that wait in it.
    depth: u64,
    /// When the event at its head was accepted; `null` when it is empty.
    oldest: Option<String>,
    /// At most so many deliveries a second are let go: of a replay job's rate and the
    /// endpoint's limit the lower; `null` where neither says anything.
    #[schema(value_type = Option<f64>)]
    rate_per_second: Option<Number>,
    /// Rises whenever another scheduler begins to look after it.
    owner: Option<u64>,
}

/// A lane as it is known: by its key, by what lies in it, or by both.
pub(super) struct Known {
    pub lane: LaneId,
    pub tenant: Option<Tenant>,
    pub state: Option<LaneState>,
    pub depth: u64,
}

impl Known {
    /// What lies in a lane without a key is what its last owner left: it is let go.
    pub fn reason(&self) -> LaneReason {
        let state = self.state.as_ref();
        state.map_or(LaneReason::Draining, |state| state.reason)
    }

    pub fn view(&self, endpoint: Option<&Endpoint>, oldest: Option<UnixMillis>) -> LaneView {
        let state = self.state.as_ref();
        let limit = endpoint.and_then(|endpoint| endpoint.rate_limit);
        LaneView {
            endpoint: self.lane.endpoint.to_string(),
            tenant: self.tenant.as_ref().map(Tenant::to_string),
            kind: match self.lane.kind {
                LaneKind::Live => "live",
                LaneKind::Replay => "replay",
            },
            reason: self.reason().as_str(),
            since: state.and_then(|state| time_if_set(state.since)),
            hold_until: state.and_then(|state| time_if_set(state.hold_until)),
            depth: self.depth,
            oldest: oldest.map(to_rfc3339),
            rate_per_second: rate(state.map_or(0, |state| state.rate_per_second), limit),
            owner: state.map(|state| state.owner),
        }
    }
}

/// In thousandths a rate is exact, and a whole one is shown as such.
fn rate(asked: u32, limit: Option<RateLimit>) -> Option<Number> {
    let asked = (asked > 0).then(|| u64::from(asked) * 1_000);
    let limit = limit.map(|limit| u64::from(limit.milli()));
    let milli = asked.into_iter().chain(limit).min()?;
    if milli % 1_000 == 0 {
        return Some(Number::from(milli / 1_000));
    }
    Number::from_f64(milli as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::EndpointId;

    #[test]
    fn the_lower_rate_counts_and_none_is_none() {
        let limit = |rate| RateLimit::per_second(rate).ok();
        let shown = |asked, limit| rate(asked, limit).map(|number| number.to_string());
        assert_eq!(shown(0, None), None);
        assert_eq!(shown(50, None).as_deref(), Some("50"));
        assert_eq!(shown(50, limit(20.0)).as_deref(), Some("20"));
        assert_eq!(shown(10, limit(20.0)).as_deref(), Some("10"));
        assert_eq!(shown(0, limit(0.5)).as_deref(), Some("0.5"));
    }

    #[test]
    fn a_lane_without_a_key_is_shown_as_what_is_left() {
        let known = Known {
            lane: LaneId::replay(&EndpointId::from_bits(7)),
            tenant: None,
            state: None,
            depth: 3,
        };
        let view = known.view(None, Some(UnixMillis(1_000)));
        assert_eq!(
            (view.kind, view.reason, view.depth),
            ("replay", "draining", 3)
        );
        assert_eq!((view.since, view.owner, view.tenant), (None, None, None));
        assert_eq!(view.oldest.as_deref(), Some("1970-01-01T00:00:01.000Z"));
    }
}
