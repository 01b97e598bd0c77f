//! The log of attempts over HTTP.

use crate::app::{App, bad_parameter, tenant_of};
use crate::filter::FilterError;
use crate::scan::{EVERYTHING, Search, newest};
use crate::view::{AttemptRecord, Searched};
use axum::Json;
use axum::extract::State;
use posthorn_broker::Names;
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Attempt, EndpointId, EventId, Tenant, UnixMillis};
use posthorn_http_api::time::parse_rfc3339;
use posthorn_http_api::{Identity, Paging, Problem, Query};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which attempts, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AttemptsQuery {
    /// For this endpoint.
    endpoint: Option<String>,
    /// Of this tenant.
    tenant: Option<String>,
    /// Of this event.
    event: Option<String>,
    /// Answered with this HTTP status.
    status: Option<u16>,
    /// Begun at this time (RFC 3339) or later.
    since: Option<String>,
    /// Begun before this time (RFC 3339).
    until: Option<String>,
    /// Attempts of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Attempts, newest first.
///
/// The newest of a tenant, of an endpoint and before a time are found at once, however many
/// attempts there are. For an event or a status a page looks at 50,000 of the attempts that
/// the other parameters leave, and for two seconds at most: where that ends before the page is
/// full, `complete` is false, and the search goes on with `next_cursor`.
#[utoipa::path(
    get,
    path = "/v1/attempts",
    tag = "attempts",
    operation_id = "list_attempts",
    params(AttemptsQuery),
    responses(
        (status = 200, description = "A page", body = Searched<AttemptRecord>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_attempts(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<AttemptsQuery>,
) -> Result<Json<Searched<AttemptRecord>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let mut filter = AttemptFilter::try_new(&query).map_err(bad_parameter)?;
    filter.tenant = tenant_of(&caller, filter.tenant.as_ref())?;
    let subject = filter.subject(app.store.broker().names());
    let search = Search::page(&subject, paging.after_number()?);
    let search = search.between(filter.since, filter.until);
    let page = newest(app.store.attempts(), &search, paging.limit(), |attempt| {
        filter.matches(&attempt.value)
    })
    .await?;
    let items = page.items.iter().map(AttemptRecord::from).collect();
    Ok(Json(Searched::new(items, page.next, None, page.complete)))
}

#[derive(Debug)]
struct AttemptFilter {
    tenant: Option<Tenant>,
    endpoint: Option<EndpointId>,
    event: Option<EventId>,
    status: Option<u16>,
    since: Option<UnixMillis>,
    until: Option<UnixMillis>,
}

impl AttemptFilter {
    fn try_new(query: &AttemptsQuery) -> Result<AttemptFilter, FilterError> {
        if query.status.is_some_and(|s| !(100..=599).contains(&s)) {
            return Err(broken("status", "an HTTP status is from 100 to 599"));
        }
        Ok(AttemptFilter {
            tenant: parse("tenant", query.tenant.as_deref(), Tenant::parse_any)?,
            endpoint: parse("endpoint", query.endpoint.as_deref(), EndpointId::parse)?,
            event: parse("event", query.event.as_deref(), EventId::parse)?,
            status: query.status,
            since: parse("since", query.since.as_deref(), parse_rfc3339)?,
            until: parse("until", query.until.as_deref(), parse_rfc3339)?,
        })
    }

    /// The narrowest subject that holds all matches: the attempts of an event lie in one of
    /// the shards, those of an endpoint in all shards of that endpoint.
    fn subject(&self, names: &Names) -> String {
        let tenant = self.tenant.as_ref().map_or("*", Tenant::as_str);
        match (&self.tenant, &self.endpoint, &self.event) {
            (Some(tenant), Some(endpoint), Some(event)) => names.attempt(tenant, endpoint, event),
            (_, Some(endpoint), _) => names.attempts_of_endpoint(tenant, endpoint.as_str()),
            (_, None, Some(event)) => names.attempts_of_event(tenant, event),
            (Some(tenant), None, None) => names.attempts_of_tenant(tenant.as_str()),
            (None, None, None) => EVERYTHING.to_owned(),
        }
    }

    fn matches(&self, attempt: &Attempt) -> bool {
        let status = |want| attempt.result == AttemptResult::Status(want);
        (self.tenant.as_ref()).is_none_or(|tenant| *tenant == attempt.tenant)
            && (self.endpoint.as_ref()).is_none_or(|id| *id == attempt.endpoint_id)
            && (self.event.as_ref()).is_none_or(|event| *event == attempt.event_id)
            && self.status.is_none_or(status)
            && self.since.is_none_or(|since| attempt.at >= since)
            && self.until.is_none_or(|until| attempt.at < until)
    }
}

pub(crate) fn parse<T, E: ToString>(
    field: &'static str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, FilterError> {
    let parsed = text.map(parse).transpose();
    parsed.map_err(|rule| broken(field, &rule.to_string()))
}

fn broken(field: &'static str, rule: &str) -> FilterError {
    FilterError {
        field,
        rule: rule.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(tenant: Option<&str>, endpoint: bool, event: bool) -> AttemptsQuery {
        AttemptsQuery {
            tenant: tenant.map(str::to_owned),
            endpoint: endpoint.then(|| EndpointId::from_bits(7).to_string()),
            event: event.then(|| EventId::from_bits(3).to_string()),
            ..AttemptsQuery::default()
        }
    }

    #[test]
    fn dlq_05_the_subject_is_never_wider_than_the_tenant() {
        let names = Names::new("p");
        for (endpoint, event) in [(true, true), (true, false), (false, true), (false, false)] {
            let asked = query(Some("acme"), endpoint, event);
            let filter = AttemptFilter::try_new(&asked).unwrap();
            let subject = filter.subject(&names);
            assert!(subject.starts_with("p.attempts.acme."), "{subject}");
        }
        for wide in ["*", ">", "a.b"] {
            let refused = AttemptFilter::try_new(&query(Some(wide), true, true)).unwrap_err();
            assert_eq!(refused.field, "tenant");
        }
    }

    #[test]
    fn every_bad_parameter_is_named() {
        let bad = |query| AttemptFilter::try_new(&query).unwrap_err().field;
        let base = AttemptsQuery::default;
        let text = || Some("x".to_owned());
        assert_eq!(
            bad(AttemptsQuery {
                endpoint: text(),
                ..base()
            }),
            "endpoint"
        );
        assert_eq!(
            bad(AttemptsQuery {
                event: text(),
                ..base()
            }),
            "event"
        );
        assert_eq!(
            bad(AttemptsQuery {
                since: text(),
                ..base()
            }),
            "since"
        );
        assert_eq!(
            bad(AttemptsQuery {
                until: text(),
                ..base()
            }),
            "until"
        );
        assert_eq!(
            bad(AttemptsQuery {
                status: Some(600),
                ..base()
            }),
            "status"
        );
    }
}
