//! How an endpoint is shown to an operator.

use crate::breakers::BreakerView;
use crate::overview::recent::Tally;
use crate::view::time_if_set;
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{
    BreakerState, Endpoint, EndpointId, LaneId, LaneReason, LaneState, UnixMillis,
};
use posthorn_http_api::time::to_rfc3339;
use serde::Serialize;
use utoipa::ToSchema;

/// An endpoint, and how it is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EndpointHealth {
    /// `ep_…`.
    id: String,
    tenant: String,
    /// For people.
    description: String,
    /// Which types it gets.
    event_types: Vec<String>,
    /// `healthy`: attempts succeed. `failing`: its breaker is not closed, or half of its attempts
    /// fail. `held`: it asked for quiet, or is eased back in. `disabled`. `quiet`: nothing was
    /// attempted in the last quarter of an hour.
    health: &'static str,
    /// Whether it gets its deliveries now.
    enabled: bool,
    /// Why not: `paused`, `breaker` or `gone`.
    disabled_reason: Option<&'static str>,
    /// Since when not.
    disabled_since: Option<String>,
    /// Whether it has a breaker at all (`breaker: null` is off).
    has_breaker: bool,
    breaker: BreakerView,
    /// What waits of what was published; `null` while it flows freely.
    lane: Option<LaneSummary>,
    /// What waits of what is sent again; `null` where nothing is.
    replay_lane: Option<LaneSummary>,
    /// Attempts of the last quarter of an hour.
    recent: RecentView,
    created_at: String,
}

/// An active lane of an endpoint.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LaneSummary {
    /// Why it is active.
    reason: &'static str,
    since: Option<String>,
    /// Nothing is let go before; `null` where that is not known.
    hold_until: Option<String>,
    /// Deliveries that wait in it.
    pub(super) depth: u64,
    /// When the event at its head was accepted; `null` when it is empty.
    oldest: Option<String>,
}

/// What the last quarter of an hour was like.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RecentView {
    /// Attempts that were delivered; where many are made, an estimate.
    delivered: u64,
    /// Attempts that failed; where many are made, an estimate.
    failed: u64,
    latency_p50_ms: Option<u32>,
    latency_p95_ms: Option<u32>,
    last_failure_at: Option<String>,
    /// An HTTP status or the name of a failure.
    last_failure: Option<String>,
}

impl From<&Tally> for RecentView {
    fn from(tally: &Tally) -> RecentView {
        let failure = tally.last_failure.as_ref();
        RecentView {
            delivered: whole(tally.delivered),
            failed: whole(tally.failed),
            latency_p50_ms: tally.latency(50),
            latency_p95_ms: tally.latency(95),
            last_failure_at: failure.map(|(at, _)| to_rfc3339(*at)),
            last_failure: failure.map(|(_, what)| what.clone()),
        }
    }
}

/// A weight is never negative, and far below 2^52.
fn whole(weight: f64) -> u64 {
    weight.round() as u64
}

impl From<&LaneState> for LaneSummary {
    fn from(state: &LaneState) -> LaneSummary {
        LaneSummary {
            reason: state.reason.as_str(),
            since: time_if_set(state.since),
            hold_until: time_if_set(state.hold_until),
            depth: 0,
            oldest: None,
        }
    }
}

impl LaneSummary {
    pub(super) fn set_oldest(&mut self, oldest: Option<UnixMillis>) {
        self.oldest = oldest.map(to_rfc3339);
    }
}

impl EndpointHealth {
    /// Without the depths of its lanes, which are asked for where it is shown.
    pub(super) fn new(
        endpoint: &Endpoint,
        breaker: &BreakerState,
        (live, replay): (Option<&LaneState>, Option<&LaneState>),
        recent: Option<&Tally>,
        now: UnixMillis,
    ) -> EndpointHealth {
        EndpointHealth {
            id: endpoint.id.to_string(),
            tenant: endpoint.tenant.to_string(),
            description: endpoint.description.clone(),
            event_types: endpoint.event_types.iter().map(|p| p.to_string()).collect(),
            health: health(endpoint, breaker.phase, live, recent),
            enabled: endpoint.disabled.is_none(),
            disabled_reason: endpoint.disabled.map(|(reason, _)| reason.as_str()),
            disabled_since: endpoint.disabled.map(|(_, since)| to_rfc3339(since)),
            has_breaker: endpoint.breaker.is_some(),
            breaker: BreakerView::new(endpoint, breaker, now),
            lane: live.map(LaneSummary::from),
            replay_lane: replay.map(LaneSummary::from),
            recent: recent.map(RecentView::from).unwrap_or_default(),
            created_at: to_rfc3339(endpoint.created_at),
        }
    }

    /// Whether somebody should look at it.
    pub(super) fn is_in_trouble(&self) -> bool {
        matches!(self.health, "failing" | "held" | "disabled")
    }

    /// Its place in a list.
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.tenant, self.id)
    }

    /// Its active lanes.
    pub(super) fn lanes_mut(&mut self) -> Vec<(LaneId, &mut LaneSummary)> {
        let Ok(id) = EndpointId::parse(&self.id) else {
            return Vec::new();
        };
        let live = self.lane.as_mut().map(|lane| (LaneId::live(&id), lane));
        let replay = (self.replay_lane.as_mut()).map(|lane| (LaneId::replay(&id), lane));
        live.into_iter().chain(replay).collect()
    }
}

fn health(
    endpoint: &Endpoint,
    phase: Phase,
    live: Option<&LaneState>,
    recent: Option<&Tally>,
) -> &'static str {
    if endpoint.disabled.is_some() {
        return "disabled";
    }
    if phase != Phase::Closed {
        return "failing";
    }
    let eased = |reason: LaneReason| reason.is_hold() || reason == LaneReason::Ramp;
    if live.is_some_and(|lane| eased(lane.reason)) {
        return "held";
    }
    match recent {
        Some(tally) if tally.failed > 0.0 && tally.failed >= tally.delivered => "failing",
        Some(tally) if tally.delivered > 0.0 => "healthy",
        _ => "quiet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::breaker::BreakerPolicy;
    use posthorn_delivery::endpoint::limits::MAX_BACKLOG;
    use posthorn_delivery::endpoint::{DisabledReason, Hidden};
    use posthorn_delivery::{Ordering, Pattern, RetryPolicy, Tenant};
    use std::time::Duration;

    /// One whose URL and header hold what must never be shown.
    fn endpoint(tenant: &str, bits: u128) -> Endpoint {
        Endpoint {
            id: EndpointId::from_bits(bits),
            tenant: Tenant::parse(tenant).unwrap(),
            url: Hidden::new("https://user:pw@h.example/services/T/tok?key=abc".to_owned()),
            event_types: vec![Pattern::all()],
            description: String::new(),
            headers: vec![("x-auth".to_owned(), Hidden::new("header-token".to_owned()))],
            signatures: vec!["v1".to_owned()],
            secrets: Vec::new(),
            key_pairs: Vec::new(),
            disabled: None,
            disabled_before: Duration::ZERO,
            ordering: Ordering::None,
            rate_limit: None,
            max_backlog: MAX_BACKLOG,
            retry: RetryPolicy::default(),
            timeout: Duration::from_secs(15),
            max_in_flight: 32,
            breaker: Some(BreakerPolicy::default()),
            target_epoch: 0,
            created_at: UnixMillis(1),
            updated_at: UnixMillis(1),
        }
    }

    fn tally(delivered: f64, failed: f64) -> Tally {
        Tally {
            delivered,
            failed,
            ..Tally::default()
        }
    }

    #[test]
    fn the_worst_is_said_first() {
        let plain = endpoint("acme", 7);
        let paused = Endpoint {
            disabled: Some((DisabledReason::Paused, UnixMillis(1))),
            ..plain.clone()
        };
        let lane = |reason| {
            let acme = Tenant::parse("acme").unwrap();
            LaneState::open(&acme, reason, UnixMillis(0), UnixMillis(1))
        };
        let (ramp, busy) = (lane(LaneReason::Ramp), lane(LaneReason::InFlight));
        let (well, ill) = (tally(9.0, 1.0), tally(1.0, 1.0));
        let closed = Phase::Closed;
        assert_eq!(
            health(&paused, Phase::Open, Some(&ramp), Some(&ill)),
            "disabled"
        );
        assert_eq!(
            health(&plain, Phase::Open, Some(&ramp), Some(&well)),
            "failing"
        );
        assert_eq!(health(&plain, closed, Some(&ramp), Some(&well)), "held");
        assert_eq!(health(&plain, closed, Some(&busy), Some(&well)), "healthy");
        assert_eq!(health(&plain, closed, None, Some(&ill)), "failing");
        assert_eq!(health(&plain, closed, None, None), "quiet");
    }

    #[test]
    fn dlq_06_neither_url_nor_header_nor_secret_is_shown() {
        let endpoint = endpoint("acme", 7);
        let state = BreakerState::default();
        let view = EndpointHealth::new(&endpoint, &state, (None, None), None, UnixMillis(5));
        let shown = serde_json::to_string(&view).unwrap();
        assert!(!shown.contains("h.example") && !shown.contains("header-token"));
        assert_eq!(view.key(), format!("acme.{}", endpoint.id));
    }
}
