//! One span and one id for each request.
//!
//! The span holds the route's template and never the path or query as sent: ids are in the
//! template's places, and a mistyped path may hold anything.

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::Next;
use axum::response::Response;
use posthorn_runtime::trace::{Traceparent, link};
use rand::RngExt;
use tracing::{Instrument, Span};

/// The header of a request's id.
pub(crate) const REQUEST_ID: &str = "x-request-id";
/// The longest id that is taken from a caller.
const MAX_ID: usize = 128;

/// Gives the request an id and a span, and the response the id.
pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let id = request_id(&request);
    let span = span_of(&request, &id);
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("status", status.as_u16());
    if status.is_server_error() {
        tracing::warn!(parent: &span, status = status.as_u16(), "request failed");
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    // Answers hold secrets and state: no cache keeps one unless its handler says that it may.
    let no_store = || HeaderValue::from_static("no-store");
    headers.entry(CACHE_CONTROL).or_insert_with(no_store);
    response
}

/// A span that continues the caller's trace.
fn span_of(request: &Request, id: &HeaderValue) -> Span {
    let route = request.extensions().get::<MatchedPath>();
    let span = tracing::info_span!(
        "request",
        request_id = %id.to_str().unwrap_or_default(),
        method = %request.method(),
        route = route.map_or("none", MatchedPath::as_str),
        status = tracing::field::Empty,
    );
    let parent = request.headers().get("traceparent");
    if let Some(parent) = parent.and_then(|value| Traceparent::parse(value.to_str().ok()?)) {
        link(&span, &parent);
    }
    span
}

/// The caller's own id, where it is one that may be printed, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let given = request.headers().get(REQUEST_ID).filter(|value| {
        let printable = |b: &u8| b.is_ascii_graphic();
        !value.is_empty() && value.len() <= MAX_ID && value.as_bytes().iter().all(printable)
    });
    if let Some(given) = given {
        return given.clone();
    }
    let bits: u128 = posthorn_runtime::rng::rng().random();
    HeaderValue::try_from(format!("{bits:032x}")).expect("hexadecimal digits are a header value")
}
