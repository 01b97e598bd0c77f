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
pub(crate) use health::{Health, ready};
pub(crate) use system::{Listeners, Settings, System};

use crate::devfile::DevFile;
use crate::output;
use anyhow::Context;
use posthorn_runtime::config::{SecretsArgs, redact_userinfo};
use posthorn_runtime::{ExitError, SecretString, Shutdown, ops, process, rng};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::net::TcpListener;

/// Runs `posthorn dev` as the whole process.
pub(crate) fn main(config: DevConfig) -> ExitCode {
    process::run_config("dev", config, run)
}

/// What is there before the broker is.
struct Front {
    data_dir: PathBuf,
    key: SecretString,
    secrets: SecretsArgs,
    listeners: Listeners,
    urls: Urls,
    health: Health,
}

/// Where this process answers.
struct Urls {
    ingest: String,
    admin: String,
    ops: String,
}

async fn run(config: DevConfig, shutdown: Shutdown) -> Result<(), ExitError> {
    let front = open(&config, &shutdown).await?;
    if !config.nats.nats_url.is_empty() {
        let urls = config.nats.nats_url.clone();
        return with_broker(&config, front, urls, &shutdown).await;
    }
    let nats = tokio::select! {
        started = broker::start(&front.data_dir, config.nats.nats_port) => started?,
        () = shutdown.triggered() => return Ok(()),
    };
    let urls = vec![nats.url().to_owned()];
    let result = with_broker(&config, front, urls, &shutdown).await;
    nats.stop().await;
    result
}

/// Everything that can be refused at once; and the probes, which answer from here on.
async fn open(config: &DevConfig, shutdown: &Shutdown) -> Result<Front, ExitError> {
    let data_dir = data_dir(config)?;
    let listeners = Listeners {
        ingest: bind(config.ingest_listen, "--ingest-listen").await?,
        admin: bind(config.admin_listen, "--admin-listen").await?,
    };
    let probes = bind(config.ops_listen(), "--ops-listen").await?;
    let key = match config.admin_key.clone().filter(|key| !key.is_empty()) {
        Some(key) => key,
        None => key::api_key(&data_dir, &mut rng::rng()).map_err(ExitError::config)?,
    };
    let secrets = match config.secrets() {
        Some(given) => given,
        None => key::secret_keys(&data_dir, &mut rng::rng())
            .map(SecretsArgs::of)
            .map_err(ExitError::config)?,
    };
    let urls = Urls {
        ingest: url_of(&listeners.ingest)?,
        admin: url_of(&listeners.admin)?,
        ops: url_of(&probes)?,
    };
    let health = Health::new();
    ops::serve(probes, health.all(), shutdown.clone());
    Ok(Front {
        data_dir,
        key,
        secrets,
        listeners,
        urls,
        health,
    })
}

async fn with_broker(
    config: &DevConfig,
    front: Front,
    nats_urls: Vec<String>,
    shutdown: &Shutdown,
) -> Result<(), ExitError> {
    let args = config.nats.settings(&nats_urls);
    let broker = tokio::select! {
        connected = posthorn_wiring::connect("dev", &args, &config.retention) => connected?,
        () = shutdown.triggered() => return Ok(()),
    };
    let settings = Settings {
        ingest: config.ingest(&front.key, &front.secrets).map_err(rule)?,
        scheduler: config.scheduler.0.clone(),
        dispatcher: config.dispatcher(&front.secrets),
        dlq_admin: config.dlq_admin(&front.key, &front.urls.ingest),
        drain_timeout: config.process.drain_timeout,
    };
    let system = System::start(settings, &broker, front.listeners, front.health, shutdown);
    if ready(&system.readiness(), shutdown).await {
        let file = DevFile {
            ingest_url: front.urls.ingest,
            admin_url: front.urls.admin,
            ops_url: front.urls.ops,
            nats_url: nats_urls.join(","),
            api_key: front.key.expose().to_owned(),
            pid: std::process::id(),
        };
        announce(&file, &front.data_dir, config)?;
    }
    let result = system.ended().await;
    // Whoever finds the file would find nobody: it goes before what is in hand is finished.
    DevFile::remove(&front.data_dir, std::process::id());
    shutdown.drain(config.process.drain_timeout).await;
    broker.flush().await;
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
    let _ = output::line(&banner::text(
        &shown,
        data_dir,
        &config.nats.prefix,
        &program(),
    ));
    Ok(())
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

/// This program as it was called, so that what is printed can be typed.
fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    match name.to_string_lossy() {
        name if name.is_empty() => "posthorn".to_owned(),
        name if name.contains(char::is_whitespace) => format!("'{name}'"),
        name => name.into_owned(),
    }
}

fn rule(broken: String) -> ExitError {
    ExitError::config(anyhow::anyhow!(broken))
}
