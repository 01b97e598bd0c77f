//! `POST /v1/tenants/{tenant}/events/{type}`.

use super::accept::{Submission, accept};
use super::headers::Declared;
use crate::app::App;
use crate::path::{Params, event_type, publishing_tenant};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use posthorn_broker::Patience;
use posthorn_http_api::{Identity, Problem, read_body};
use serde::Serialize;
use utoipa::ToSchema;

/// An event that is stored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    /// The event's id, which receivers see as `webhook-id`.
    #[schema(example = "evt_018f2c4e0a5b7cc3b1d2a3f4e5a6b7c8")]
    pub id: String,
    /// The same `Idempotency-Key` was accepted before, with this id.
    pub duplicate: bool,
}

/// Publish an event.
///
/// The body, byte for byte, is what receivers get, with its `Content-Type`. `ce-*` headers
/// (CloudEvents in binary mode) and `traceparent` go through. The answer comes after the broker
/// has stored the event; after any other answer the same request may be repeated, without
/// harm where it has an `Idempotency-Key`.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/events/{type}",
    tag = "Events",
    params(
        ("tenant" = String, Path, description = "Whose event it is: `[a-z0-9][a-z0-9_-]{0,62}`"),
        ("type" = String, Path, description = "Up to 16 tokens of `[A-Za-z0-9_-]`, separated by dots"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 256 characters of visible ASCII; for 24 hours the same key of the same tenant is the same event"),
        ("Deliver-At" = Option<String>, Header, description = "RFC 3339, at most 30 days ahead: not delivered before"),
    ),
    request_body(content = Vec<u8>, content_type = "*/*", description = "The payload"),
    responses(
        (status = 202, body = Accepted, description = "Stored"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A name or a header breaks its rule"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "Not permitted"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Another tenant"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Over the payload limit, which the detail states"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The key was used for another body"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away or full; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn publish(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, kind)): Params<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let tenant = publishing_tenant(&caller, &tenant)?;
    let event_type = event_type(&kind)?;
    let declared = Declared::read(request.headers(), posthorn_wiring::now())?;
    let payload = read_body(request.into_body(), app.max_payload).await?;
    let submission = Submission {
        tenant,
        event_type,
        key: declared.key,
        content_type: declared.content_type,
        headers: declared.cloud_event,
        parent: declared.parent,
        deliver_at: declared.deliver_at,
        only_endpoint: None,
        payload,
    };
    let event = accept(&app, submission, Patience::CALLER).await?;
    let answer = Accepted {
        id: event.id.to_string(),
        duplicate: event.duplicate,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}
