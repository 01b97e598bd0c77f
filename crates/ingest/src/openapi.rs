//! `GET /v1/openapi.json`: what this API is, and what a receiver gets.

use axum::{Extension, Json};
use std::sync::Arc;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, ObjectBuilder, OpenApi, PathItem, PathsBuilder, Required,
    ResponseBuilder, Type,
};

/// What is said before any route.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Posthorn ingest",
        description = "Publish events and manage the endpoints that get them. Errors are \
                       application/problem+json (RFC 9457) with a stable `type`.",
        license(name = "Apache-2.0")
    ),
    tags(
        (name = "Events", description = "Publishing"),
        (name = "Endpoints", description = "Who gets what, and how"),
        (name = "Secrets", description = "How endpoints' secrets are stored"),
        (name = "About", description = "This document"),
    )
)]
struct Head;

/// The document before its routes: the key, and the call that a receiver gets.
pub(crate) fn document() -> OpenApi {
    let mut document = Head::openapi();
    let key = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme("key", key);
    let hook = PathItem::new(HttpMethod::Post, outbound());
    document.webhooks = Some(PathsBuilder::new().path("delivery", hook).build());
    document
}

/// The headers of a delivery, with what they are.
const OUTBOUND: [(&str, &str, Required); 8] = [
    (
        "webhook-id",
        "The event's id, the same on every attempt",
        Required::True,
    ),
    (
        "webhook-timestamp",
        "When this attempt was made, unix seconds",
        Required::True,
    ),
    (
        "webhook-signature",
        "Separated by spaces: v1,… (HMAC-SHA256) and v1a,… (Ed25519), one for each live secret",
        Required::False,
    ),
    ("idempotency-key", "The same as webhook-id", Required::True),
    (
        "webhook-attempt",
        "1 for the first attempt, then 2, and so on",
        Required::True,
    ),
    ("traceparent", "W3C trace context", Required::True),
    (
        "x-hub-signature-256",
        "Where the endpoint signs as hub: sha256=hex(HMAC(secret, timestamp + body))",
        Required::False,
    ),
    (
        "x-webhook-timestamp",
        "Where the endpoint signs as hub: when this attempt was made, unix seconds",
        Required::False,
    ),
];

fn outbound() -> utoipa::openapi::path::Operation {
    let text = || ObjectBuilder::new().schema_type(Type::String).build();
    let header = |(name, what, required): (&str, &str, Required)| -> Parameter {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(required)
            .description(Some(what))
            .schema(Some(text()))
            .build()
    };
    let payload = ContentBuilder::new().schema(Some(text())).build();
    let body = RequestBodyBuilder::new()
        .content("*/*", payload)
        .description(Some("The payload as it was published, byte for byte"))
        .build();
    let answer = |what: &str| ResponseBuilder::new().description(what).build();
    OperationBuilder::new()
        .summary(Some(
            "What an endpoint gets for each event that it subscribed to",
        ))
        .operation_id(Some("delivery"))
        .parameters(Some(OUTBOUND.map(header)))
        .request_body(Some(body))
        .response("2XX", answer("Delivered"))
        .response("410", answer("The endpoint is gone: it is disabled"))
        .response("429", answer("Later: Retry-After holds the whole endpoint"))
        .response("503", answer("Later: Retry-After holds the whole endpoint"))
        .response(
            "default",
            answer("Tried again, or given up for a permanent status"),
        )
        .build()
}

/// This document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    tag = "About",
    responses((status = 200, body = Object, description = "OpenAPI"))
)]
pub(crate) async fn openapi(Extension(document): Extension<Arc<OpenApi>>) -> Json<OpenApi> {
    Json(document.as_ref().clone())
}
