//! The life of the service: connect, watch, serve, drain.

use crate::api;
use crate::app::App;
use crate::config::{Config, Settings};
use crate::jobs::worker;
use crate::letters::mend;
use crate::overview::sample;
use crate::retention;
use crate::store::Store;
use posthorn_broker::Broker;
use posthorn_http_api::Limits;
use posthorn_http_api::auth::ready_when_loaded;
use posthorn_runtime::{ExitError, Readiness, Shutdown, ops, rng::rng};
use posthorn_wiring::watch_connection;
use rand::RngExt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long the loop that looks for jobs may be silent.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// Where probes and metrics are served by default.
const OPS: ([u8; 4], u16) = ([127, 0, 0, 1], 9083);

/// What the service is given.
pub struct Deps {
    /// The connection to the installation.
    pub broker: Broker,
    /// Where it says whether it works.
    pub readiness: Readiness,
    /// Where it answers.
    pub listener: TcpListener,
}

/// Serves the operator's API and page until shutdown.
///
/// # Errors
/// 64 without an admin key, 69 when the broker does not answer at the start.
pub async fn serve(settings: Settings, deps: Deps, shutdown: Shutdown) -> Result<(), ExitError> {
    settings
        .validate()
        .map_err(|rule| ExitError::config(anyhow::anyhow!(rule)))?;
    let Some(key) = settings.admin_key else {
        return Err(ExitError::config(anyhow::anyhow!("admin-key is required")));
    };
    let Deps {
        broker,
        readiness,
        listener,
    } = deps;
    let store = Store::open(broker.clone(), &shutdown.token()).await;
    let store = store.map_err(posthorn_wiring::exit_error)?;
    let keys = readiness.component("keys");
    shutdown.spawn(ready_when_loaded(
        store.keys().clone(),
        keys,
        shutdown.clone(),
    ));
    let nats = readiness.component("nats");
    shutdown.spawn(watch_connection(broker, nats, shutdown.clone()));
    let jobs = readiness.component_with_heartbeat("replay jobs", MAX_SILENCE);
    let me = format!("{:032x}", rng().random::<u128>());
    shutdown.spawn(worker::run(store.clone(), me, shutdown.clone(), jobs));
    let rate = NonZeroU32::new(settings.key_rate_limit);
    let app = App::new(store.clone(), key, rate, shutdown.clone()).with_ingest(settings.ingest_url);
    shutdown.spawn(sample::watch(store, app.recently.clone(), shutdown.clone()));
    let looks = retention::watch(app.store.clone(), app.drops.clone(), shutdown.clone());
    shutdown.spawn(looks);
    shutdown.spawn(mend::mend(app.store.clone(), shutdown.clone()));
    posthorn_http_api::serve(listener, api::router(app), shutdown, Limits::default()).await;
    Ok(())
}

/// The whole process: connects as configured, and serves.
///
/// # Errors
/// As [`serve`]; 64 when an address cannot be listened on, 69 when NATS is not reachable.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), ExitError> {
    let readiness = Readiness::new();
    let address = config.process.ops_listen;
    let probes = ops::bind(address.unwrap_or_else(|| SocketAddr::from(OPS))).await?;
    ops::serve(probes, readiness.clone(), shutdown.clone());
    let listener = ops::bind(config.settings.listen).await?;
    let broker = posthorn_wiring::connect("dlq-admin", &config.nats, &config.retention).await?;
    let deps = Deps {
        broker: broker.clone(),
        readiness,
        listener,
    };
    let served = serve(config.settings, deps, shutdown).await;
    broker.flush().await;
    served
}
