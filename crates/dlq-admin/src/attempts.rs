//! The log of attempts over HTTP.

use crate::app::{App, bad_parameter, tenant_of};
use crate::filter::FilterError;
use crate::scan::{Look, newest};
use crate::view::AttemptRecord;
use axum::Json;
use axum::extract::State;
use posthorn_broker::{Logged, Names};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Attempt, EndpointId, EventId, Tenant, UnixMillis};
use posthorn_http_api::time::parse_rfc3339;
use posthorn_http_api::{Identity, List, Paging, Problem, Query};
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
    /// Attempts of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Attempts, newest first.
///
/// A page looks at 50,000 attempts at most: with a filter that matches next to none, it may
/// have fewer items than asked for, or none, and still a `next_cursor`.
#[utoipa::path(
    get,
    path = "/v1/attempts",
    tag = "attempts",
    operation_id = "list_attempts",
    params(AttemptsQuery),
    responses(
        (status = 200, description = "A page", body = List<AttemptRecord>),
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
) -> Result<Json<List<AttemptRecord>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let mut filter = AttemptFilter::try_new(&query).map_err(bad_parameter)?;
    filter.tenant = tenant_of(&caller, filter.tenant.as_ref())?;
    let subject = filter.subject(app.store.broker().names());
    let page = newest(
        app.store.attempts(),
        &subject,
        paging.after_number()?,
        paging.limit(),
        |attempt| filter.look(attempt),
    )
    .await?;
    let items = page.items.iter().map(AttemptRecord::from).collect();
    let next = page.next.map(|below| below.to_string());
    Ok(Json(List::new(items, next.as_deref(), None)))
}

#[derive(Debug)]
struct AttemptFilter {
    tenant: Option<Tenant>,
    endpoint: Option<EndpointId>,
    event: Option<EventId>,
    status: Option<u16>,
    since: Option<UnixMillis>,
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
            (_, None, None) => names.attempts_of_tenant(tenant),
        }
    }

    /// An attempt is recorded after it began, so below one that was recorded too early all
    /// began too early.
    fn look(&self, record: &Logged<Attempt>) -> Look {
        let attempt = &record.value;
        if self
            .since
            .is_some_and(|since| record.stored_at < since && attempt.at < since)
        {
            return Look::Stop;
        }
        let status = |want| attempt.result == AttemptResult::Status(want);
        let matches = (self.tenant.as_ref()).is_none_or(|tenant| *tenant == attempt.tenant)
            && (self.endpoint.as_ref()).is_none_or(|id| *id == attempt.endpoint_id)
            && (self.event.as_ref()).is_none_or(|event| *event == attempt.event_id)
            && self.status.is_none_or(status)
            && self.since.is_none_or(|since| attempt.at >= since);
        if matches { Look::Take } else { Look::Pass }
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
                status: Some(600),
                ..base()
            }),
            "status"
        );
    }
}
