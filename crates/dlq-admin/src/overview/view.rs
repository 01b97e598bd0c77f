//! How the overview is shown.

use super::recent::{Gauges, Point, STEP};
use posthorn_delivery::{Tenant, UnixMillis};
use posthorn_http_api::time::to_rfc3339;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What flows, waits and was given up.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Overview {
    /// The one tenant that it is about; `null` is all.
    tenant: Option<String>,
    /// When the streams were last looked at; `null` right after a start.
    at: Option<String>,
    /// What the streams hold, all tenants together; `null` for one tenant.
    streams: Option<Streams>,
    endpoints: EndpointCounts,
    lanes: LaneCounts,
    /// Seconds of a step of the series.
    step_seconds: u32,
    /// The steps of the last quarter of an hour that have ended, oldest first.
    series: Vec<PointView>,
}

/// What the streams hold.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Streams {
    /// Events that were ever accepted.
    accepted_total: u64,
    /// Attempts that were ever recorded.
    attempts_total: u64,
    /// Deliveries that are being attempted, or may be at once.
    due: u64,
    /// Deliveries and events that wait for a time.
    waiting: u64,
    /// Deliveries that wait in lanes.
    held: u64,
    /// Letters that are dead or being replayed.
    dead_letters: u64,
    /// For how long the oldest due thing has been due.
    oldest_due_seconds: f64,
}

/// Endpoints, counted.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct EndpointCounts {
    pub(super) total: u64,
    /// Paused by hand, disabled by their breaker, or gone.
    pub(super) disabled: u64,
    /// Whose breaker is open or probing.
    pub(super) breakers_open: u64,
}

/// Active lanes, counted.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct LaneCounts {
    pub(super) active: u64,
    /// By the reason why they are.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub(super) by_reason: BTreeMap<&'static str, u64>,
}

/// One step. What is not known is `null`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PointView {
    /// When it began.
    at: String,
    /// Events accepted a second.
    accepted: Option<f64>,
    /// Attempts a second that were delivered.
    delivered: Option<f64>,
    /// Attempts a second that failed.
    failed: Option<f64>,
    /// Half of the attempts took no longer, milliseconds.
    latency_p50_ms: Option<u32>,
    /// 95 of 100 attempts took no longer, milliseconds.
    latency_p95_ms: Option<u32>,
    waiting: Option<u64>,
    held: Option<u64>,
    dead_letters: Option<u64>,
    oldest_due_seconds: Option<f64>,
}

impl Overview {
    pub(super) fn new(
        tenant: Option<&Tenant>,
        points: &[Point],
        now: Option<(UnixMillis, Gauges)>,
        endpoints: EndpointCounts,
        lanes: LaneCounts,
    ) -> Overview {
        let whole = tenant.is_none();
        Overview {
            tenant: tenant.map(Tenant::to_string),
            at: now.map(|(at, _)| to_rfc3339(at)),
            streams: now.filter(|_| whole).map(|(_, gauges)| gauges.into()),
            endpoints,
            lanes,
            step_seconds: u32::try_from(STEP / 1_000).unwrap_or(0),
            series: points.iter().map(|p| PointView::new(p, whole)).collect(),
        }
    }
}

impl From<Gauges> for Streams {
    fn from(gauges: Gauges) -> Streams {
        Streams {
            accepted_total: gauges.accepted,
            attempts_total: gauges.attempts,
            due: gauges.due,
            waiting: gauges.waiting,
            held: gauges.held,
            dead_letters: gauges.dead,
            oldest_due_seconds: thousandths(gauges.oldest_due.as_secs_f64()),
        }
    }
}

impl PointView {
    fn new(point: &Point, whole: bool) -> PointView {
        let seconds = STEP as f64 / 1_000.0;
        let tally = point.tally.as_ref();
        let gauges = point.gauges.filter(|_| whole);
        PointView {
            at: to_rfc3339(point.at),
            accepted: point.accepted.filter(|_| whole).map(thousandths),
            delivered: tally.map(|tally| thousandths(tally.delivered / seconds)),
            failed: tally.map(|tally| thousandths(tally.failed / seconds)),
            latency_p50_ms: tally.and_then(|tally| tally.latency(50)),
            latency_p95_ms: tally.and_then(|tally| tally.latency(95)),
            waiting: gauges.map(|gauges| gauges.waiting),
            held: gauges.map(|gauges| gauges.held),
            dead_letters: gauges.map(|gauges| gauges.dead),
            oldest_due_seconds: gauges.map(|g| thousandths(g.oldest_due.as_secs_f64())),
        }
    }
}

fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dlq_05_of_one_tenant_nothing_of_all_is_shown() {
        let gauges = Gauges {
            accepted: 7,
            held: 3,
            ..Gauges::default()
        };
        let point = Point {
            accepted: Some(1.0),
            gauges: Some(gauges),
            ..Point::default()
        };
        let acme = Tenant::parse("acme").unwrap();
        let show = |tenant| {
            let now = Some((UnixMillis(0), gauges));
            let (endpoints, lanes) = (EndpointCounts::default(), LaneCounts::default());
            let points = std::slice::from_ref(&point);
            serde_json::to_value(Overview::new(tenant, points, now, endpoints, lanes)).unwrap()
        };
        let one = show(Some(&acme));
        assert!(one["streams"].is_null() && one["series"][0]["accepted"].is_null());
        assert!(one["series"][0]["held"].is_null());
        let all = show(None);
        assert_eq!(all["streams"]["accepted_total"], 7);
        assert_eq!(all["series"][0]["held"], 3);
    }
}
