//! Creating, listing, showing, changing and deleting endpoints.

use super::change;
use super::document::{self, WRITABLE};
use super::fields::Object;
use super::merge::merge;
use super::store;
use super::view::EndpointView;
use crate::app::App;
use crate::events::uuid_v7;
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthorn_delivery::{Endpoint, EndpointId};
use posthorn_http_api::{Action, Identity, Json, List, Paging, Problem, Query};
use posthorn_runtime::rng::rng;
use posthorn_wiring::now;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// What may be said about an endpoint. Only `url` is needed; what is left out or null is at its
/// default, but a `breaker` that is null is off.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the field reader reads")]
pub(crate) struct EndpointDocument {
    /// `http` or `https`, at most 2048 bytes, to an address that may be called. A password is
    /// stored sealed and shown as `***`.
    #[schema(example = "https://example.com/hooks")]
    url: String,
    /// Which types it gets: NATS wildcards, at most 64. Left out is all.
    #[schema(example = json!(["invoice.*"]))]
    event_types: Option<Vec<String>>,
    /// For people, at most 1024 characters.
    description: Option<String>,
    /// Sent with every request, at most 32. None that Posthorn sets itself. Values are stored
    /// sealed and shown as `***`.
    headers: Option<BTreeMap<String, String>>,
    /// `v1`, `v1a`, `hub`, `svix`; several for a migration.
    #[schema(example = json!(["v1"]))]
    signatures: Option<Vec<String>>,
    /// `whsec_` and padded standard base64 of 24 to 64 bytes. Made when it is left out.
    secret: Option<String>,
    /// `false` is the same as a pause.
    enabled: Option<bool>,
    /// `none`, or `fifo`: one after the other, in the order in which the events were accepted.
    ordering: Option<super::flow::OrderingView>,
    /// What is left out is the preset's.
    #[schema(value_type = Option<super::retry::RetryView>)]
    retry: Option<Object>,
    /// Bound of one whole exchange, 100ms to 60s.
    #[schema(example = "15s")]
    timeout: Option<String>,
    /// Bound of the requests a second, over all dispatchers together; null is none.
    rate_limit: Option<super::flow::RateLimitView>,
    /// Requests in flight at a time, over all dispatchers together. It is 1 where `ordering` is
    /// `fifo`.
    #[schema(example = 32, minimum = 1, maximum = 1024)]
    max_in_flight: Option<u32>,
    /// Deliveries that may wait for it; what comes beyond is given up as `backlog_full`.
    #[schema(example = 1_000_000, minimum = 1, maximum = 1_000_000)]
    max_backlog: Option<u64>,
    /// When to stop trying for a while; null is never.
    breaker: Option<super::view::BreakerView>,
}

/// A new endpoint, with the only answer that shows its secret unasked.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedEndpoint {
    /// The endpoint.
    #[serde(flatten)]
    endpoint: EndpointView,
    /// What its deliveries are signed with.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: String,
}

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// Items of the page, 1 to 500; 50 where nothing is said.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Create an endpoint.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
    ),
    request_body = EndpointDocument,
    responses(
        (status = 201, body = CreatedEndpoint, description = "Created; the secret is shown this once"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Too large"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Fields break their rules; `errors` names each"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Identity,
    Params(tenant): Params<String>,
    Json(document): Json<Object>,
) -> Result<Response, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let draft = document::read(document, None, &app.egress)?;
    let endpoint = {
        let (now, rng) = (now(), &mut rng());
        let id = EndpointId::from_bits(uuid_v7(now, rng));
        change::created(tenant, id, draft, now, rng)
    };
    let place = (&endpoint.tenant, &endpoint.id);
    let work = store::insert(&app, &endpoint);
    app.act(&caller, Action::EndpointCreate, place, work)
        .await?;
    let place = format!("/v1/tenants/{}/endpoints/{}", endpoint.tenant, endpoint.id);
    let secret = newest_secret(&endpoint);
    let body = CreatedEndpoint {
        endpoint: EndpointView::of(&app.vault, &endpoint, now()),
        secret,
    };
    let mut response = (StatusCode::CREATED, axum::Json(body)).into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// The text of the secret that has no end.
pub(crate) fn newest_secret(endpoint: &Endpoint) -> String {
    let newest = endpoint.secrets.first();
    newest.map_or_else(String::new, |secret| secret.text.reveal().to_owned())
}

/// List a tenant's endpoints, oldest first.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/endpoints",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        PageParams,
    ),
    responses(
        (status = 200, body = List<EndpointView>, description = "A page of the tenant's endpoints"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Identity,
    Params(tenant): Params<String>,
    Query(page): Query<PageParams>,
) -> Result<axum::Json<List<EndpointView>>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let paging = Paging::try_new(page.limit, page.cursor.as_deref())?;
    let all = store::all(&app, &tenant).await?;
    let now = now();
    let after = paging.after().unwrap_or_default();
    let rest = || all.iter().filter(|endpoint| endpoint.id.as_str() > after);
    let items: Vec<EndpointView> = rest()
        .take(paging.limit())
        .map(|endpoint| EndpointView::of(&app.vault, endpoint, now))
        .collect();
    let more = rest().nth(paging.limit()).is_some();
    let next = items.last().map(|last| last.id.clone()).filter(|_| more);
    Ok(axum::Json(List::new(
        items,
        next.as_deref(),
        Some(all.len() as u64),
    )))
}

/// Show an endpoint.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/endpoints/{id}",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    responses(
        (status = 200, body = EndpointView, description = "The endpoint"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
) -> Result<axum::Json<EndpointView>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let found = store::load(&app, &tenant, &endpoint_id(&id)?).await?;
    Ok(axum::Json(EndpointView::of(
        &app.vault,
        &found.value,
        now(),
    )))
}

/// Change an endpoint.
///
/// A JSON merge patch (RFC 7396) of the endpoint as it is shown. A new `retry.preset` begins
/// `retry` anew; a new `retry.schedule` replaces what it stands for. A new `secret` replaces the
/// old one at once: to let both sign for a while, rotate it. `***` in place of a header's value,
/// or of the password of a URL at the same server and user, leaves what is stored as it is.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}/endpoints/{id}",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    request_body(content((EndpointDocument = "application/json"), (EndpointDocument = "application/merge-patch+json"))),
    responses(
        (status = 200, body = EndpointView, description = "Changed; in force for every event acknowledged from now on"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Others change it at the same time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Too large"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Fields break their rules; `errors` names each"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn patch(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
    Json(patch): Json<Object>,
) -> Result<axum::Json<EndpointView>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let change = |endpoint: &Endpoint| patched(&app, endpoint, &patch);
    let work = store::update(&app, &tenant, &id, change);
    let place = (&tenant, &id);
    let endpoint = app
        .act(&caller, Action::EndpointChange, place, work)
        .await?;
    Ok(axum::Json(EndpointView::of(&app.vault, &endpoint, now())))
}

fn patched(app: &App, endpoint: &Endpoint, patch: &Object) -> Result<Endpoint, Problem> {
    let now = now();
    let endpoint = &store::open(app, endpoint)?;
    let shown = match serde_json::to_value(EndpointView::of(&app.vault, endpoint, now)) {
        Ok(Value::Object(shown)) => shown,
        _ => return Err(Problem::internal()),
    };
    let document = merge(&shown, &WRITABLE, patch)?;
    let draft = document::read(document, Some(endpoint), &app.egress)?;
    Ok(change::patched(endpoint, draft, now, &mut rng()))
}

/// Delete an endpoint.
///
/// What waits for it is given up as `endpoint_deleted` when it is next met.
#[utoipa::path(
    delete,
    path = "/v1/tenants/{tenant}/endpoints/{id}",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    responses(
        (status = 204, description = "Deleted"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
) -> Result<StatusCode, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let (place, work) = ((&tenant, &id), store::remove(&app, &tenant, &id));
    app.act(&caller, Action::EndpointDelete, place, work)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
