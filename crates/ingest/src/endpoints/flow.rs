//! How fast an endpoint gets its deliveries, in which order, and how many may wait for it.

use super::fields::{Errors, Fields};
use super::view::number_of_milli;
use posthorn_delivery::endpoint::limits::{MAX_BACKLOG, MAX_IN_FLIGHT};
use posthorn_delivery::{Endpoint, Ordering, RateLimit};
use serde::Serialize;
use serde_json::Number;
use utoipa::ToSchema;

/// Requests in flight where nothing is said.
const DEFAULT_IN_FLIGHT: u32 = 32;

/// These settings of an endpoint, each within its bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    ordering: Ordering,
    rate_limit: Option<RateLimit>,
    max_in_flight: u32,
    max_backlog: u64,
}

impl Flow {
    /// Makes them an endpoint's.
    pub(crate) fn apply_to(&self, endpoint: &mut Endpoint) {
        endpoint.ordering = self.ordering;
        endpoint.rate_limit = self.rate_limit;
        endpoint.max_in_flight = self.max_in_flight;
        endpoint.max_backlog = self.max_backlog;
    }
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            ordering: Ordering::None,
            rate_limit: None,
            max_in_flight: DEFAULT_IN_FLIGHT,
            max_backlog: MAX_BACKLOG,
        }
    }
}

/// In which order an endpoint gets its deliveries.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Ordering)]
pub(crate) enum OrderingView {
    /// As they come; a retry lets others pass.
    None,
    /// One after the other, in the order in which the events were accepted; a retry holds up all
    /// that follow.
    Fifo,
}

impl From<Ordering> for OrderingView {
    fn from(ordering: Ordering) -> OrderingView {
        match ordering {
            Ordering::None => OrderingView::None,
            Ordering::Fifo => OrderingView::Fifo,
        }
    }
}

/// A bound of the requests a second, over all dispatchers together.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RateLimit)]
pub(crate) struct RateLimitView {
    /// Requests a second, kept to the thousandth.
    #[schema(value_type = f64, minimum = 0.01, maximum = 10000, example = 50)]
    per_second: Number,
}

impl From<RateLimit> for RateLimitView {
    fn from(limit: RateLimit) -> RateLimitView {
        let per_second = number_of_milli(limit.milli());
        RateLimitView { per_second }
    }
}

/// Reads them; what is not said is at its default.
pub(crate) fn read(fields: &Fields<'_>, errors: &mut Errors) -> Flow {
    let default = Flow::default();
    let ordering = read_ordering(fields, errors);
    let rate_limit = read_rate_limit(fields, errors);
    let max_in_flight = fields.number("max_in_flight", (1, MAX_IN_FLIGHT), errors);
    let max_backlog = fields.number("max_backlog", (1, MAX_BACKLOG), errors);
    Flow {
        ordering: ordering.unwrap_or(default.ordering),
        rate_limit,
        max_in_flight: max_in_flight.unwrap_or(default.max_in_flight),
        max_backlog: max_backlog.unwrap_or(default.max_backlog),
    }
}

fn read_ordering(fields: &Fields<'_>, errors: &mut Errors) -> Option<Ordering> {
    let given = fields.get("ordering")?;
    let ordering = given.as_str().and_then(Ordering::parse);
    if ordering.is_none() {
        errors.add("ordering", "is none or fifo");
    }
    ordering
}

fn read_rate_limit(fields: &Fields<'_>, errors: &mut Errors) -> Option<RateLimit> {
    let object = fields.object("rate_limit", errors)?;
    let fields = Fields::new("rate_limit.", object, &["per_second"], errors);
    let Some(given) = fields.get("per_second") else {
        errors.add("rate_limit.per_second", "is needed");
        return None;
    };
    let limit = given.as_f64().map(RateLimit::per_second);
    let Some(Ok(limit)) = limit else {
        errors.add(
            "rate_limit.per_second",
            "is a number from 0.01 to 10000, kept to the thousandth",
        );
        return None;
    };
    Some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KNOWN: [&str; 4] = ["ordering", "rate_limit", "max_in_flight", "max_backlog"];

    fn read_json(value: &Value) -> (Flow, Errors) {
        let mut errors = Errors::default();
        let fields = Fields::new("", value.as_object().unwrap(), &KNOWN, &mut errors);
        let flow = read(&fields, &mut errors);
        (flow, errors)
    }

    #[test]
    fn what_is_within_its_bounds_is_taken() {
        for (rate, milli) in [
            (json!(0.01), 10),
            (json!(0.5), 500),
            (json!(50), 50_000),
            (json!(33.333), 33_333),
            (json!(10_000), 10_000_000),
        ] {
            let (flow, errors) = read_json(&json!({"rate_limit": {"per_second": rate}}));
            assert!(errors.is_empty());
            assert_eq!(flow.rate_limit.unwrap().milli(), milli, "{rate}");
            let shown = serde_json::to_value(RateLimitView::from(flow.rate_limit.unwrap()));
            assert_eq!(shown.unwrap(), json!({ "per_second": rate }));
        }
        let (flow, errors) = read_json(&json!({"ordering": "fifo", "max_backlog": 1}));
        assert!(errors.is_empty());
        assert_eq!((flow.ordering, flow.max_backlog), (Ordering::Fifo, 1));
    }

    #[test]
    fn a_rule_that_is_broken_is_named_with_its_field() {
        for (document, field, rule) in [
            (json!({"ordering": "lifo"}), "ordering", "none or fifo"),
            (json!({"ordering": "FIFO"}), "ordering", "none or fifo"),
            (json!({"ordering": true}), "ordering", "none or fifo"),
            (json!({"rate_limit": 50}), "rate_limit", "an object"),
            (
                json!({"rate_limit": {}}),
                "rate_limit.per_second",
                "is needed",
            ),
            (
                json!({"rate_limit": {"per_second": null}}),
                "rate_limit.per_second",
                "is needed",
            ),
            (
                json!({"rate_limit": {"per_second": 50, "burst": 5}}),
                "rate_limit.burst",
                "no such field",
            ),
            (json!({"max_backlog": 0}), "max_backlog", "from 1 to"),
            (json!({"max_backlog": 1_000_001}), "max_backlog", "1000000"),
            (json!({"max_backlog": 5.5}), "max_backlog", "a whole number"),
            (json!({"max_backlog": "5"}), "max_backlog", "a whole number"),
        ] {
            let problem = read_json(&document).1.into_problem();
            let said = problem.errors();
            assert_eq!(said.len(), 1, "{document}");
            assert_eq!(said[0].field, field);
            assert!(said[0].detail.contains(rule), "{}", said[0].detail);
        }
    }

    #[test]
    fn a_rate_outside_of_its_bounds_is_refused() {
        for rate in [
            json!(0),
            json!(-1),
            json!(0.009),
            json!(10_000.1),
            json!(1e300),
            json!("50"),
            json!([50]),
        ] {
            let (flow, errors) = read_json(&json!({"rate_limit": {"per_second": rate}}));
            assert_eq!(flow.rate_limit, None);
            let problem = errors.into_problem();
            assert_eq!(problem.field(), Some("rate_limit.per_second"), "{rate}");
        }
    }
}
