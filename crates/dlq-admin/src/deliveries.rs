//! What happened to one event, endpoint by endpoint.

mod find;

use crate::app::{App, bad_parameter, tenant_of};
use crate::attempts::parse;
use crate::view::{AttemptRecord, delivery_state, next_attempt};
use axum::Json;
use axum::extract::State;
use find::{Asked, Found};
use posthorn_broker::Logged;
use posthorn_delivery::{Attempt, DeadLetter, EventId, Tenant};
use posthorn_http_api::time::{parse_rfc3339, to_rfc3339};
use posthorn_http_api::{Identity, Problem, Query};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which event.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveriesQuery {
    /// `evt_…`.
    event: String,
    /// Whose; the search is narrower with it.
    tenant: Option<String>,
    /// Attempts recorded at this time (RFC 3339) or later.
    since: Option<String>,
    /// Attempts recorded before this time (RFC 3339).
    until: Option<String>,
}

/// The deliveries of an event.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Deliveries {
    /// One for each endpoint that an attempt is recorded for.
    items: Vec<DeliveryView>,
    /// Always `null`: they come on one page.
    next_cursor: Option<String>,
    /// How many items there are.
    count: usize,
    /// How many there are in all; `null` where the log was not searched to its end.
    total: Option<u64>,
    /// Whether the log was searched as far as was asked for; false when the search met its
    /// bound and attempts may be missing. It goes on with `since` at `searched_until`, or where
    /// that is `null` with `until` at `searched_since`.
    complete: bool,
    /// From when on the log was searched; `null` from its beginning, or from the event's.
    searched_since: Option<String>,
    /// Up to when it was; `null` to its end.
    searched_until: Option<String>,
}

/// What happened to an event at one endpoint.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DeliveryView {
    event_id: String,
    tenant: String,
    /// `ep_…`.
    endpoint: String,
    /// The event's type.
    #[serde(rename = "type")]
    event_type: String,
    /// `delivered`, `retrying`, `dead`, `replaying` or `skipped`.
    state: &'static str,
    /// The earliest time of the next attempt, while one is to come.
    next_attempt_at: Option<String>,
    /// `dl_…`, when it has died.
    dead_letter: Option<String>,
    /// Oldest first.
    attempts: Vec<AttemptRecord>,
}

/// What happened to an event: for each endpoint its state and every attempt.
///
/// A delivery that has not been attempted yet is not in the list. The search begins where the
/// event was accepted, which ids of events by HTTP without an `Idempotency-Key` tell, and every
/// dead letter does; for another id it begins with the newest attempt, unless `since` says
/// where. It looks at 50,000 records, for two seconds at most; `complete` says whether that was
/// all.
#[utoipa::path(
    get,
    path = "/v1/deliveries",
    tag = "attempts",
    operation_id = "list_deliveries",
    params(DeliveriesQuery),
    responses(
        (status = 200, description = "The deliveries", body = Deliveries),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_deliveries(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<DeliveriesQuery>,
) -> Result<Json<Deliveries>, Problem> {
    let event = parse("event", Some(&query.event), EventId::parse).map_err(bad_parameter)?;
    let tenant = parse("tenant", query.tenant.as_deref(), Tenant::parse_any);
    let since = parse("since", query.since.as_deref(), parse_rfc3339).map_err(bad_parameter)?;
    let until = parse("until", query.until.as_deref(), parse_rfc3339).map_err(bad_parameter)?;
    let asked = Asked {
        event: event.ok_or_else(|| Problem::not_found("event"))?,
        tenant: tenant_of(&caller, tenant.map_err(bad_parameter)?.as_ref())?,
        since,
        until,
    };
    let mut found = find::find(&app.store, &asked).await?;
    found
        .attempts
        .retain(|_, record| caller.sees(record.value.tenant.as_str()));
    let mut items = Vec::new();
    for attempts in found.by_endpoint().into_values() {
        items.extend(view(&app, &found, &attempts).await?);
    }
    Ok(Json(Deliveries {
        next_cursor: None,
        count: items.len(),
        total: found.complete.then_some(items.len() as u64),
        items,
        complete: found.complete,
        searched_since: found.since.map(to_rfc3339),
        searched_until: found.until.map(to_rfc3339),
    }))
}

async fn view(
    app: &App,
    found: &Found,
    attempts: &[&Logged<Attempt>],
) -> Result<Option<DeliveryView>, Problem> {
    let Some(last) = attempts.last().map(|record| &record.value) else {
        return Ok(None);
    };
    let key = (last.tenant.clone(), last.endpoint_id.clone());
    let letter = match found.letters.get(&key) {
        Some(letter) => Some(letter.clone()),
        // Its endpoint has been deleted, or there are too many endpoints to ask for all.
        None => find::letter(&app.store, &key.0, &last.event_id, &key.1).await?,
    };
    Ok(Some(DeliveryView {
        event_id: last.event_id.to_string(),
        tenant: last.tenant.to_string(),
        endpoint: last.endpoint_id.to_string(),
        event_type: last.event_type.to_string(),
        state: delivery_state(last, letter.as_ref()),
        next_attempt_at: next_attempt(last).map(to_rfc3339),
        dead_letter: letter.as_ref().map(|DeadLetter { id, .. }| id.to_string()),
        attempts: attempts
            .iter()
            .map(|record| AttemptRecord::from(*record))
            .collect(),
    }))
}
