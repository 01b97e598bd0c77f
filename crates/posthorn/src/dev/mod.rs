//! `posthorn dev`: the whole system in one process.
//!
//! What can go wrong for a newcomer is tried first and takes no time: the folder, the ports.
//! Then the broker, then the services, and when all of them say that they are ready, the file
//! that tells other programs. The end goes the other way round: the services finish what they
//! have in hand while the broker is still there.

mod banner;
mod broker;
mod config;
mod flags;
mod health;
mod key;
mod system;

pub(crate) use config::DevConfig;
pub(crate) use health::ready;
pub(crate) use system::{Listeners, Settings, System};

use crate::devfile::DevFile;
use crate::output;
use anyhow::Context;
use broker::Watched;
use posthorn_broker::Broker;
use posthorn_runtime::config::redact_userinfo;
use posthorn_runtime::{ExitError, SecretString, Shutdown, ops, process, rng};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::net::TcpListener;

/// Runs `posthorn dev` as the whole process.
pub(crate) fn main(config: DevConfig) -> ExitCode {
    process::run_config("dev", config, run)
}

async fn run(config: DevConfig, shutdown: Shutdown) -> Result<(), ExitError> {
    let data_dir = data_dir(&config)?;
    let listeners = Listeners {
        ingest: bind(config.ingest_listen, "--ingest-listen").await?,
        admin: bind(config.admin_listen, "--admin-listen").await?,
    };
    let probes = bind(config.ops_listen(), "--ops-listen").await?;
    let key = match config.admin_key.clone().filter(|key| !key.is_empty()) {
        Some(key) => key,
        None => key::load_or_make(&data_dir, &mut rng::rng()).map_err(ExitError::config)?,
    };
    let nats = match config.nats.nats_url.is_empty() {
        true => Some(broker::start(&data_dir, config.nats.nats_port).await?),
        false => None,
    };
    let served = with_broker(
        &config,
        data_dir,
        &key,
        listeners,
        probes,
        nats.as_ref(),
        &shutdown,
    );
    let result = served.await;
    if let Some(nats) = nats {
        nats.stop().await;
    }
    result
}

async fn with_broker(
    config: &DevConfig,
    data_dir: PathBuf,
    key: &SecretString,
    listeners: Listeners,
    probes: TcpListener,
    nats: Option<&Watched>,
    shutdown: &Shutdown,
) -> Result<(), ExitError> {
    let urls = match nats {
        Some(own) => vec![own.url().to_owned()],
        None => config.nats.nats_url.clone(),
    };
    let args = config.nats.settings(&urls);
    let broker = tokio::select! {
        connected = posthorn_wiring::connect("dev", &args, &config.retention) => connected?,
        () = shutdown.triggered() => return Ok(()),
    };
    let file = DevFile {
        ingest_url: url_of(&listeners.ingest)?,
        admin_url: url_of(&listeners.admin)?,
        ops_url: url_of(&probes)?,
        nats_url: urls.join(","),
        api_key: key.expose().to_owned(),
        pid: std::process::id(),
    };
    let settings = Settings {
        ingest: config.ingest(key).map_err(rule)?,
        scheduler: config.scheduler.0.clone(),
        dispatcher: config.dispatcher(),
        dlq_admin: config.dlq_admin(key),
        drain_timeout: config.process.drain_timeout,
    };
    let system = System::start(settings, &broker, listeners, shutdown);
    ops::serve(probes, system.readiness(), shutdown.clone());
    if ready(&system.readiness(), shutdown).await {
        announce(&file, &data_dir, config)?;
    }
    let result = system.ended().await;
    // A second `dev` that waits for this file to go may start as soon as it is gone.
    finish(config, &broker, shutdown).await;
    DevFile::remove(&data_dir, std::process::id());
    result
}

fn announce(file: &DevFile, data_dir: &Path, config: &DevConfig) -> Result<(), ExitError> {
    let written = file.write(data_dir);
    written.with_context(|| format!("cannot write into {}", data_dir.display()))?;
    let shown = DevFile {
        nats_url: redact_userinfo(&file.nats_url),
        ..file.clone()
    };
    // Without a terminal the file says the same.
    let _ = output::line(&banner::text(&shown, data_dir, &config.nats.prefix));
    Ok(())
}

/// Waits for what is in hand, for as long as a drain may take, while the broker is there.
async fn finish(config: &DevConfig, broker: &Broker, shutdown: &Shutdown) {
    shutdown.drain(config.process.drain_timeout).await;
    broker.flush().await;
}

fn data_dir(config: &DevConfig) -> Result<PathBuf, ExitError> {
    let folder = &config.data_dir;
    std::fs::create_dir_all(folder)
        .and_then(|()| folder.canonicalize())
        .and_then(|folder| tempfile::tempfile_in(&folder).map(|_| folder))
        .with_context(|| {
            let shown = folder.display();
            format!("cannot write into the data folder {shown}; choose another with --data-dir")
        })
        .map_err(ExitError::config)
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, ExitError> {
    let bound = TcpListener::bind(address).await;
    let bound = bound.with_context(|| {
        format!("cannot listen on {address}; choose another address or port with {flag}")
    });
    bound.map_err(ExitError::config)
}

/// An address that was told to listen everywhere is reached here.
fn url_of(listener: &TcpListener) -> Result<String, ExitError> {
    let mut address = listener.local_addr().context("a listener has no address")?;
    if address.ip().is_unspecified() {
        let loopback = match address.is_ipv4() {
            true => std::net::Ipv4Addr::LOCALHOST.into(),
            false => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    Ok(format!("http://{address}"))
}

fn rule(broken: String) -> ExitError {
    ExitError::config(anyhow::anyhow!(broken))
}
