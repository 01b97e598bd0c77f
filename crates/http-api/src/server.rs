//! Serving a listener: bounded in every direction, and drained at the end.
//!
//! A client that sends its headers a byte a minute, a body that never ends and ten thousand
//! idle connections each meet a bound here, before any handler runs.

use crate::problem::Problem;
use crate::trace::{REQUEST_ID, observe};
use axum::Router;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use posthorn_runtime::Shutdown;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::timeout::RequestBodyDeadlineLayer;

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the head of a request may take; also how long a connection may idle.
    pub header_timeout: Duration,
    /// How long a body may take in all.
    pub body_deadline: Duration,
    /// Bytes of a request's head.
    pub max_head: usize,
    /// Connections at a time; the next one waits to be accepted.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            header_timeout: Duration::from_secs(30),
            body_deadline: Duration::from_secs(60),
            max_head: 64 * 1024,
            max_connections: 10_000,
        }
    }
}

/// Puts around a router what every request meets: an id and a span, the deadline of its body,
/// a problem instead of an empty 404, 405 or 500.
pub fn dress(router: Router, limits: Limits) -> Router {
    let secret = [header::AUTHORIZATION, header::COOKIE, IDEMPOTENCY_KEY];
    router
        .fallback(|| async { Problem::not_found("resource") })
        .method_not_allowed_fallback(|| async { method_not_allowed() })
        .layer(RequestBodyDeadlineLayer::new(limits.body_deadline))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(axum::middleware::from_fn(observe))
        .layer(SetSensitiveRequestHeadersLayer::new(secret))
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

fn method_not_allowed() -> Problem {
    let detail = "this resource has no such method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

/// The panic's own message is on stderr, by the panic hook; here only that it was this request.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked");
    Problem::internal().into_response()
}

/// Serves until shutdown, then stops accepting and finishes what is in flight. Every connection
/// is a task that the drain of `shutdown` waits for.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown, limits: Limits) {
    let router = dress(router, limits);
    let permits = Arc::new(Semaphore::new(limits.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = tokio::select! {
            () = shutdown.triggered() => break,
            next = accept(&listener, &permits) => next,
        };
        let Some((stream, permit)) = next else {
            // Out of file descriptors, most often: they come back as connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = router.clone();
        let watcher = graceful.watcher();
        shutdown.spawn(connection(stream, service, watcher, limits, permit));
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    watcher: Watcher,
    limits: Limits,
    _permit: OwnedSemaphorePermit,
) {
    // Answers are small and whole: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.max_head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// The header that carries a request's id, in both directions.
#[must_use]
pub fn request_id_header() -> &'static str {
    REQUEST_ID
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
