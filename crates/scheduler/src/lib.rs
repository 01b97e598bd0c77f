//! Decides when and to whom, and never speaks HTTP to a receiver.
//!
//! Four loops, each over one consumer: events are fanned out, retries are released when they
//! are due, the calendar is emptied into the retries hour by hour, and lanes are let go by
//! whoever holds their token. What a loop has done is
//! published and confirmed before its input is acknowledged, so a kill at any instruction
//! repeats work and loses none.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alarms;
mod breakers;
mod calendar;
mod config;
mod context;
mod fanout;
mod freshness;
mod gauges;
mod lanes;
mod letters;
mod nak_burst;
mod release;
mod unreadable;
mod unscoped;

pub use config::{Config, Settings};

use context::Context;
use posthorn_broker::Broker;
use posthorn_runtime::{ExitError, Readiness, Shutdown};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What a scheduler works with.
pub struct Deps {
    /// The installation.
    pub broker: Broker,
    /// Where it says that it is ready.
    pub readiness: Readiness,
}

/// A loop that has not heard from the broker for so long is stalled.
const MAX_SILENCE: Duration = Duration::from_secs(15);
const OPS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9081);

/// Runs a scheduler as the whole process.
///
/// # Errors
/// When NATS cannot be reached at start, or an address cannot be bound.
pub async fn run(config: Config, shutdown: Shutdown) -> Result<(), ExitError> {
    let readiness = Readiness::new();
    let ops = posthorn_runtime::ops::bind(config.process.ops_listen.unwrap_or(OPS)).await?;
    posthorn_runtime::ops::serve(ops, readiness.clone(), shutdown.clone());
    posthorn_runtime::metrics::spawn_upkeep(shutdown.clone());
    let broker = posthorn_wiring::connect("scheduler", &config.nats, &config.retention).await?;
    serve(config.settings, Deps { broker, readiness }, shutdown).await
}

/// Schedules until shut down.
///
/// # Errors
/// When the buckets cannot be opened.
pub async fn serve(settings: Settings, deps: Deps, shutdown: Shutdown) -> Result<(), ExitError> {
    let Deps { broker, readiness } = deps;
    let context = Context::open(&broker, &settings, &shutdown)
        .await
        .map_err(posthorn_wiring::exit_error)?;
    let connection = readiness.component("nats");
    shutdown.spawn(posthorn_wiring::watch_connection(
        broker.clone(),
        connection,
        shutdown.clone(),
    ));
    shutdown.spawn(gauges::watch(context.clone(), shutdown.clone()));
    shutdown.spawn(gauges::count_dispatchers(context.clone(), shutdown.clone()));
    shutdown.spawn(lanes::sweep::watch(context.clone(), shutdown.clone()));
    shutdown.spawn(calendar::watch(context.clone(), shutdown.clone()));
    shutdown.spawn(unreadable::watch(context.clone(), shutdown.clone()));
    shutdown.spawn(context.notices.clone().sum_up(shutdown.clone()));
    shutdown.spawn(alarms::watch(
        context.clone(),
        settings.clone(),
        shutdown.clone(),
    ));
    tokio::join!(
        fan_out(context.clone(), &settings, &readiness, &shutdown),
        release_due(context.clone(), &settings, &readiness, &shutdown),
        own_lanes(context.clone(), &settings, &readiness, &shutdown),
    );
    Ok(())
}

async fn fan_out(
    context: Arc<Context>,
    settings: &Settings,
    readiness: &Readiness,
    shutdown: &Shutdown,
) {
    let component = readiness.component_with_heartbeat("fanout", MAX_SILENCE);
    context.loaded().await;
    let permits = Arc::new(Semaphore::new(settings.fanout_concurrency));
    let pump = context
        .broker
        .pump_events(permits, settings.fanout_concurrency, shutdown.token());
    let tasks = shutdown.clone();
    pump.on_beat(move || component.beat())
        .run(move |pumped| {
            let context = context.clone();
            tasks.spawn(pumped.work(move |message| async move {
                fanout::handle(&context, &message).await;
            }));
        })
        .await;
}

async fn release_due(
    context: Arc<Context>,
    settings: &Settings,
    readiness: &Readiness,
    shutdown: &Shutdown,
) {
    let component = readiness.component_with_heartbeat("release", MAX_SILENCE);
    context.loaded().await;
    let permits = Arc::new(Semaphore::new(settings.release_concurrency));
    let batch = settings.release_concurrency / 2;
    let pump = context
        .broker
        .pump_near(permits, batch.max(1), shutdown.token());
    let tasks = shutdown.clone();
    pump.on_beat(move || component.beat())
        .run(move |pumped| {
            let context = context.clone();
            let task = release::handle(context, pumped);
            tasks.spawn(task);
        })
        .await;
}

async fn own_lanes(
    context: Arc<Context>,
    settings: &Settings,
    readiness: &Readiness,
    shutdown: &Shutdown,
) {
    let component = readiness.component_with_heartbeat("lanes", MAX_SILENCE);
    context.loaded().await;
    let permits = Arc::new(Semaphore::new(settings.lane_concurrency));
    let pump = context
        .broker
        .pump_tokens(permits, settings.lane_concurrency, shutdown.token());
    let tasks = shutdown.clone();
    pump.on_beat(move || component.beat())
        .run(move |pumped| {
            tasks.spawn(lanes::handle(context.clone(), pumped));
        })
        .await;
}
