//! Every metric: its name, kind, unit, labels and meaning.
//!
//! No metric has a tenant or an endpoint as a label: customers would then decide how many series
//! a monitoring system has to keep.

use metrics::Unit;

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution in buckets.
    Histogram,
}

/// One metric of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its Prometheus name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Unit,
    /// The labels it always carries.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

macro_rules! contract {
    ($($(#[$doc:meta])* $id:ident = $kind:ident $unit:ident $name:literal $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: &str = $name;
        )*
        /// All of them, in the order of the documentation.
        pub const ALL: &[Metric] = &[$(
            Metric { name: $id, kind: Kind::$kind, unit: Unit::$unit, labels: &$labels, help: $help },
        )*];
    };
}

contract! {
    EVENTS_ACCEPTED_TOTAL = Counter Count "posthorn_events_accepted_total" [],
        "Events accepted by HTTP: stored, and acknowledged to their publisher.";
    DELIVERIES_CREATED_TOTAL = Counter Count "posthorn_deliveries_created_total" [],
        "Deliveries made from events, one for each endpoint that subscribed.";
    ATTEMPTS_TOTAL = Counter Count "posthorn_attempts_total" ["outcome", "status_class"],
        "Attempts settled, by outcome and status class (`2xx` to `5xx`, `none` without a response).";
    ATTEMPT_DURATION_SECONDS = Histogram Seconds "posthorn_attempt_duration_seconds" [],
        "Time of one HTTP exchange with an endpoint.";
    DELIVERY_LATENCY_SECONDS = Histogram Seconds "posthorn_delivery_latency_seconds" [],
        "Time from the acceptance of an event to the 2xx of an endpoint.";
    RETRIES_WAITING = Gauge Count "posthorn_retries_waiting" [],
        "Deliveries that wait for the time of their next attempt.";
    LANES_ACTIVE = Gauge Count "posthorn_lanes_active" ["reason"],
        "Lanes that are active, by reason: endpoints whose deliveries do not flow freely.";
    LANE_DEPTH = Gauge Count "posthorn_lane_depth" [],
        "Deliveries that wait in lanes, all lanes together.";
    LANE_RELEASES_TOTAL = Counter Count "posthorn_lane_releases_total" [],
        "Deliveries let go from lanes; of an ordered one, every attempt.";
    LANES_REPAIRED_TOTAL = Counter Count "posthorn_lanes_repaired_total" [],
        "Lanes that nobody owned and that were given a token, as after a kill between two steps.";
    BREAKERS_OPEN = Gauge Count "posthorn_breakers_open" [],
        "Endpoints whose circuit breaker is open or half open.";
    DEAD_LETTERS_TOTAL = Counter Count "posthorn_dead_letters_total" ["reason"],
        "Deliveries given up, by reason.";
    OLDEST_DUE_SECONDS = Gauge Seconds "posthorn_oldest_due_seconds" [],
        "Age of the oldest delivery that is due and not sent: the alarm for silence.";
    IN_FLIGHT = Gauge Count "posthorn_in_flight" [],
        "HTTP requests to endpoints that are being made now.";
    BROKER_PUBLISH_FAILURES_TOTAL = Counter Count "posthorn_broker_publish_failures_total" [],
        "Publishes that NATS did not acknowledge at the first try.";
    KV_OPERATIONS_TOTAL = Counter Count "posthorn_kv_operations_total" ["bucket", "op"],
        "Operations on key-value buckets.";
    HOLDS_TOTAL = Counter Count "posthorn_holds_total" ["reason"],
        "Deliveries that a dispatcher put into a lane instead of sending them, by reason.";
    SKIPPED_TOTAL = Counter Count "posthorn_skipped_total" ["reason"],
        "Matches of an event and an endpoint that made no delivery, by reason.";
    RETRY_RELEASE_LATENESS_SECONDS = Histogram Seconds "posthorn_retry_release_lateness_seconds" [],
        "How late after its due time a retry was released.";
    RETRIES_NEAR_FULL = Gauge Count "posthorn_retries_near_full" [],
        "1 while the consumer of what is due soon is nearly full, else 0.";
    OVERDUE_PACED_TOTAL = Counter Count "posthorn_overdue_paced_total" [],
        "Retries found overdue by more than a second and given a new time, as after an outage.";
    UNSCOPED_MESSAGE_IDS_TOTAL = Counter Count "posthorn_unscoped_message_ids_total" [],
        "Events published over NATS whose Nats-Msg-Id does not begin with their tenant.";
    OPERATIONAL_EVENTS_TOTAL = Counter Count "posthorn_operational_events_total" ["kind"],
        "Operational events published for tenant `_posthorn`, by the type of the event.";
    OPERATIONAL_EVENT_FAILURES_TOTAL = Counter Count "posthorn_operational_event_failures_total" [],
        "Operational events that could not be published and were given up.";
    ENDPOINTS_FAILING = Gauge Count "posthorn_endpoints_failing" [],
        "Endpoints whose circuit breaker has not been closed for `POSTHORN_ALARM_FAILING_AFTER`.";
    ENDPOINTS_DISABLED_TOTAL = Counter Count "posthorn_endpoints_disabled_total" ["reason"],
        "Endpoints that Posthorn has disabled by itself, by reason (`gone`, `breaker`).";
    DROPPED_BY_LIMIT_TOTAL = Counter Count "posthorn_dropped_by_limit_total" ["stream", "limit"],
        "Messages dropped from a stream that keeps history, by limit: `age`, `bytes`, `tenant_budget`.";
    LAST_SUCCESS_TIMESTAMP_SECONDS = Gauge Seconds "posthorn_last_success_timestamp_seconds" [],
        "Unix time of the last 2xx of any endpoint.";
}

/// Tells the installed recorder what each metric means.
pub(super) fn describe() {
    for metric in ALL {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}
