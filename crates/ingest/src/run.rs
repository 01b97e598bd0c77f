//! The life of the service.

use crate::app::App;
use crate::config::{Config, Settings};
use crate::router::router;
use anyhow::anyhow;
use posthorn_broker::Broker;
use posthorn_http_api::Limits;
use posthorn_http_api::auth::ready_when_loaded;
use posthorn_runtime::metrics::{begin_at_zero, names};
use posthorn_runtime::readiness::Readiness;
use posthorn_runtime::shutdown::Shutdown;
use posthorn_runtime::{ExitError, ops};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Where probes find this service when nothing is said.
const OPS_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9080);
/// The connection is looked at every second; this long without a look is a hung loop.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// What the service is given by whoever starts it.
pub struct Deps {
    /// The installation.
    pub broker: Broker,
    /// Where it says whether it works.
    pub readiness: Readiness,
    /// Where it answers.
    pub listener: TcpListener,
}

/// Serves until shutdown, and returns when what was in flight is answered.
///
/// # Errors
/// Of kind `Config` where a setting does not fit, `Unavailable` where the broker does not
/// answer at the start.
pub async fn serve(settings: Settings, deps: Deps, shutdown: Shutdown) -> Result<(), ExitError> {
    begin_at_zero(&[names::EVENTS_ACCEPTED_TOTAL]);
    let nats = deps.readiness.component_with_heartbeat("nats", MAX_SILENCE);
    let watch = posthorn_wiring::watch_connection(deps.broker.clone(), nats, shutdown.clone());
    shutdown.spawn(watch);
    let keys = deps.readiness.component("keys");
    // The watch of the endpoints outlives the trigger: what is in flight may still ask it.
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let app = App::open(&settings, deps.broker.clone(), stop).await?;
    shutdown.spawn(ready_when_loaded(app.keys.clone(), keys, shutdown.clone()));
    if let Ok(address) = deps.listener.local_addr() {
        tracing::info!(%address, "serving the API");
    }
    let served = posthorn_http_api::serve(deps.listener, router(app), shutdown, Limits::default());
    served.await;
    deps.broker.flush().await;
    Ok(())
}

/// The whole process: binds, connects, serves.
///
/// # Errors
/// As [`serve`], and of kind `Config` where an address cannot be bound.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), ExitError> {
    let readiness = Readiness::new();
    let probes = ops::bind(config.process.ops_listen.unwrap_or(OPS_LISTEN)).await?;
    ops::serve(probes, readiness.clone(), shutdown.clone());
    let listener = ops::bind(config.settings.listen).await?;
    let connecting = posthorn_wiring::connect("ingest", &config.nats, &config.retention);
    let broker = tokio::select! {
        connected = connecting => connected?,
        () = shutdown.triggered() => return Ok(()),
    };
    let deps = Deps {
        broker,
        readiness,
        listener,
    };
    serve(config.settings(), deps, shutdown).await
}

/// A broken rule of the configuration.
pub(crate) fn refuse(rule: String) -> ExitError {
    ExitError::config(anyhow!(rule))
}
