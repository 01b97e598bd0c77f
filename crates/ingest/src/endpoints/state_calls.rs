//! Pausing and resuming an endpoint.

use super::change;
use super::store;
use super::view::EndpointView;
use crate::app::App;
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::Json;
use axum::extract::State;
use posthorn_delivery::Endpoint;
use posthorn_http_api::{Action, Identity, Problem};
use posthorn_wiring::now;

/// Pause an endpoint: its events wait. One that is disabled already stays so for its reason.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints/{id}/pause",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    responses(
        (status = 200, body = EndpointView, description = "The endpoint as it is now"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Others change it at the same time"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
) -> Result<Json<EndpointView>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let change = |endpoint: &Endpoint| Ok(change::paused(endpoint, now()));
    let work = store::update(&app, &tenant, &id, change);
    let place = (&tenant, &id);
    let endpoint = app.act(&caller, Action::EndpointPause, place, work).await?;
    Ok(Json(EndpointView::of(&app.vault, &endpoint, now())))
}

/// Resume an endpoint, whatever it was disabled for.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints/{id}/resume",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    responses(
        (status = 200, body = EndpointView, description = "The endpoint as it is now"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Others change it at the same time"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
) -> Result<Json<EndpointView>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let change = |endpoint: &Endpoint| Ok(change::resumed(endpoint, now()));
    let work = store::update(&app, &tenant, &id, change);
    let place = (&tenant, &id);
    let endpoint = app
        .act(&caller, Action::EndpointResume, place, work)
        .await?;
    Ok(Json(EndpointView::of(&app.vault, &endpoint, now())))
}
