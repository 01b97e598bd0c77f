//! Makes exactly one HTTP attempt per message, as a straight line.
//!
//! A message is taken with a permit in hand; it is admitted or held, signed, sent, classified;
//! the record of the attempt is written with the decision in it; the decision is carried out;
//! the message is acknowledged. A kill anywhere in between repeats the line, and the record
//! makes sure that the repeated one ends where the first one did.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attempt;
mod breakers;
mod client;
mod config;
mod connector;
mod context;
mod descriptors;
mod endpoints;
mod exchange;
mod failure;
mod gauges;
mod peers;
mod prepared;
mod request;
mod resolver;
mod send;
mod settle;
mod slots;
mod socket;
mod tenants;
mod trust;

pub use config::{Config, Settings};

use context::Context;
use posthorn_broker::{Broker, Pumped};
use posthorn_runtime::{ExitError, Readiness, Shutdown};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What a dispatcher works with.
pub struct Deps {
    /// The installation.
    pub broker: Broker,
    /// Where it says that it is ready.
    pub readiness: Readiness,
    /// How long what is in flight may take after the signal; then it is given back.
    pub drain_timeout: Duration,
}

const MAX_SILENCE: Duration = Duration::from_secs(15);
const OPS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9082);
/// Two open requests overlap, so that the round trip of one is not a gap.
const PUMPS: usize = 2;

/// Runs a dispatcher as the whole process.
///
/// # Errors
/// When NATS cannot be reached at start, or an address cannot be bound.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), ExitError> {
    let readiness = Readiness::new();
    let ops = posthorn_runtime::ops::bind(config.process.ops_listen.unwrap_or(OPS)).await?;
    posthorn_runtime::ops::serve(ops, readiness.clone(), shutdown.clone());
    posthorn_runtime::metrics::spawn_upkeep(shutdown.clone());
    let broker = posthorn_wiring::connect("dispatcher", &config.nats, &config.retention).await?;
    let drain_timeout = config.process.drain_timeout;
    serve(
        config.settings(),
        Deps {
            broker,
            readiness,
            drain_timeout,
        },
        shutdown,
    )
    .await
}

/// Dispatches until shut down.
///
/// # Errors
/// When the buckets cannot be opened, the HTTP client cannot be built, or there are no keys
/// although endpoints' secrets are sealed.
pub async fn serve(settings: Settings, deps: Deps, shutdown: Shutdown) -> Result<(), ExitError> {
    let Deps {
        broker,
        readiness,
        drain_timeout,
    } = deps;
    descriptors::raise();
    let context = Context::open(&broker, &settings).await?;
    let connection = readiness.component("nats");
    let component = Arc::new(readiness.component_with_heartbeat("dispatch", MAX_SILENCE));
    shutdown.spawn(posthorn_wiring::watch_connection(
        broker.clone(),
        connection,
        shutdown.clone(),
    ));
    shutdown.spawn(gauges::watch(context.clone(), shutdown.clone()));
    shutdown.spawn(context.notices.clone().sum_up(shutdown.clone()));
    shutdown.spawn(peers::beat(
        context.clone(),
        settings.dispatch_concurrency,
        shutdown.clone(),
    ));
    context.loaded().await;
    context.check_keys()?;
    context.peers.settled().await;

    let concurrency = descriptors::affordable(settings.dispatch_concurrency);
    let permits = Arc::new(Semaphore::new(concurrency));
    let pumps = (0..PUMPS).map(|_| {
        let (context, component, tasks) = (context.clone(), component.clone(), shutdown.clone());
        let batch = concurrency.div_ceil(PUMPS);
        broker
            .pump_deliveries(permits.clone(), batch, shutdown.token())
            .on_beat(move || component.beat())
            .run(move |pumped| {
                drop(tasks.spawn(work(context.clone(), pumped, tasks.clone(), drain_timeout)));
            })
    });
    futures_util::future::join_all(pumps).await;
    Ok(())
}

/// Attempts one delivery. What is not done when the drain is nearly over goes back at once,
/// so that nobody waits for the ack wait of a process that is gone.
async fn work(context: Arc<Context>, pumped: Pumped, shutdown: Shutdown, drain: Duration) {
    let (message, permit) = pumped.split();
    let last_call = async {
        shutdown.triggered().await;
        tokio::select! {
            () = shutdown.forced() => {}
            () = tokio::time::sleep(drain.saturating_sub(Duration::from_millis(500))) => {}
        }
    };
    tokio::select! {
        () = message.while_working(attempt::handle(&context, &message)) => {}
        () = last_call => message.nak(None).await,
    }
    drop(permit);
}
