//! The operations port: `/livez`, `/readyz`, `/metrics`.
//!
//! Liveness says only that the process answers; it never asks NATS, because killing healthy
//! processes does not bring a broker back. Readiness names each part that does not work. The port
//! stays open until the drain is over: a probe that is refused while work is finished would have
//! the process killed in the middle of it.

use std::net::SocketAddr;

use anyhow::Context;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::error::ExitError;
use crate::readiness::{ComponentStatus, Readiness};
use crate::shutdown::Shutdown;

#[derive(Debug, Clone)]
struct Probes {
    readiness: Readiness,
    shutdown: Shutdown,
}

#[derive(Debug, Serialize)]
struct ReadyBody {
    ready: bool,
    draining: bool,
    components: Vec<ComponentStatus>,
}

/// Binds `address` for serving.
///
/// # Errors
/// An [`ExitError`] of kind `Config` that names the address: it is in use, not of this host, or
/// not permitted.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ExitError> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .map_err(ExitError::config)
}

/// The three routes.
pub fn router(readiness: Readiness, shutdown: Shutdown) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Probes {
            readiness,
            shutdown,
        })
}

/// Serves the three routes in a task of its own until the drain is over. Call it inside a tokio
/// runtime. The task is none that the drain waits for.
pub fn serve(listener: TcpListener, readiness: Readiness, shutdown: Shutdown) -> JoinHandle<()> {
    let app = router(readiness, shutdown.clone());
    tokio::spawn(async move {
        let server = axum::serve(listener, app)
            .with_graceful_shutdown(async move { shutdown.drained().await });
        if let Err(error) = server.await {
            tracing::error!(%error, "the operations port stopped");
        }
    })
}

async fn readyz(State(probes): State<Probes>) -> Response {
    let draining = probes.shutdown.is_triggered();
    let body = ReadyBody {
        ready: probes.readiness.is_ready() && !draining,
        draining,
        components: probes.readiness.status(),
    };
    let status = match body.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(body)).into_response()
}

async fn metrics() -> impl IntoResponse {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (kind, crate::metrics::render())
}

#[cfg(test)]
#[path = "ops_tests.rs"]
mod tests;
