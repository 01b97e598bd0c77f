//! What happened to one event, endpoint by endpoint.

use crate::app::{App, bad_parameter, tenant_of};
use crate::attempts::parse;
use crate::scan::{Look, newest};
use crate::view::{AttemptRecord, delivery_state, next_attempt};
use axum::Json;
use axum::extract::State;
use posthorn_broker::Logged;
use posthorn_delivery::{Attempt, DeadLetter, EndpointId, EventId, LetterId, Tenant};
use posthorn_http_api::time::to_rfc3339;
use posthorn_http_api::{Identity, Problem, Query};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// The most attempts of one event that are shown.
const MAX_ATTEMPTS: usize = 1_000;

/// Which event.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveriesQuery {
    /// `evt_…`.
    event: String,
    /// Whose; the search is narrower with it.
    tenant: Option<String>,
}

/// The deliveries of an event.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Deliveries {
    /// One for each endpoint that an attempt is recorded for.
    items: Vec<DeliveryView>,
    /// How many items there are.
    count: usize,
    /// Whether the whole log was searched; false when the search was cut off and older attempts
    /// may be missing.
    complete: bool,
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
/// A delivery that has not been attempted yet is not in the list. The search looks at the
/// newest 50,000 records beside which the event's own lie; `complete` says whether that was
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
    let event = event.ok_or_else(|| Problem::not_found("event"))?;
    let asked = parse("tenant", query.tenant.as_deref(), Tenant::parse_any);
    let tenant = tenant_of(&caller, asked.map_err(bad_parameter)?.as_ref())?;
    let token = tenant.as_ref().map_or("*", Tenant::as_str);
    let subject = app.store.broker().names().attempts_of_event(token, &event);
    let page = newest(
        app.store.attempts(),
        &subject,
        None,
        MAX_ATTEMPTS,
        |record| match record.value.event_id == event && caller.sees(record.value.tenant.as_str()) {
            true => Look::Take,
            false => Look::Pass,
        },
    )
    .await?;
    let mut items = Vec::new();
    for attempts in by_endpoint(page.items).into_values() {
        items.extend(view(&app, &attempts).await?);
    }
    Ok(Json(Deliveries {
        count: items.len(),
        items,
        complete: page.next.is_none(),
    }))
}

type Key = (Tenant, EndpointId);

/// Each endpoint's attempts, oldest first, from a list that is newest first.
fn by_endpoint(newest_first: Vec<Logged<Attempt>>) -> BTreeMap<Key, Vec<Logged<Attempt>>> {
    let mut found: BTreeMap<Key, Vec<Logged<Attempt>>> = BTreeMap::new();
    for record in newest_first.into_iter().rev() {
        let key = (
            record.value.tenant.clone(),
            record.value.endpoint_id.clone(),
        );
        found.entry(key).or_default().push(record);
    }
    found
}

async fn view(app: &App, attempts: &[Logged<Attempt>]) -> Result<Option<DeliveryView>, Problem> {
    let Some(last) = attempts.last().map(|record| &record.value) else {
        return Ok(None);
    };
    let id = LetterId::of(&last.tenant, &last.event_id, &last.endpoint_id);
    let names = app.store.broker().names();
    let subject = names.letter(last.tenant.as_str(), Some(&last.endpoint_id), &id);
    let letter = app.store.letters().last(&subject).await?;
    let letter = letter.map(|found| found.value);
    Ok(Some(DeliveryView {
        event_id: last.event_id.to_string(),
        tenant: last.tenant.to_string(),
        endpoint: last.endpoint_id.to_string(),
        event_type: last.event_type.to_string(),
        state: delivery_state(last, letter.as_ref()),
        next_attempt_at: next_attempt(last).map(to_rfc3339),
        dead_letter: letter.as_ref().map(|DeadLetter { id, .. }| id.to_string()),
        attempts: attempts.iter().map(AttemptRecord::from).collect(),
    }))
}
