//! The nats-server of `posthorn dev`, brought back when it ends.
//!
//! The services ride through an absence of the broker, so all there is to do is to start it
//! again where their clients look for it: on the same port and folder.

use crate::failure::chain;
use posthorn_nats_server::{NatsServer, StartError};
use posthorn_runtime::{ExitError, Shutdown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;

const FOLDER: &str = "nats";
const USUAL_PORT: u16 = 4222;
/// Between two tries to bring it back.
const PAUSE: Duration = Duration::from_secs(1);

/// A nats-server that is watched over.
pub(crate) struct Watched {
    url: String,
    stop: Shutdown,
    task: JoinHandle<()>,
}

/// Uses the server that still runs on a data folder, or starts one.
///
/// # Errors
/// Of kind `Config` when none can be found, or the folder or port cannot be used.
pub(crate) async fn start(data_dir: &Path, port: Option<u16>) -> Result<Watched, ExitError> {
    let folder = data_dir.join(FOLDER);
    let started = match port {
        Some(port) => attach_or_start(&folder, port).await,
        None => start_on_usual_port(&folder).await,
    };
    let server = started.map_err(explain)?;
    let url = server.client_url().to_owned();
    let stop = Shutdown::new();
    let task = tokio::spawn(watch(server, folder, stop.clone()));
    Ok(Watched { url, stop, task })
}

impl Watched {
    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops it in order, and leaves one of another process alone.
    pub async fn stop(self) {
        self.stop.trigger();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the watch over nats-server failed");
        }
    }
}

/// Where NATS clients look when they are not told, unless somebody else is there or comes first.
async fn start_on_usual_port(folder: &Path) -> Result<NatsServer, StartError> {
    let usual = (std::net::Ipv4Addr::LOCALHOST, USUAL_PORT);
    if std::net::TcpListener::bind(usual).is_ok()
        && let Ok(server) = attach_or_start(folder, USUAL_PORT).await
    {
        return Ok(server);
    }
    attach_or_start(folder, 0).await
}

async fn attach_or_start(folder: &Path, port: u16) -> Result<NatsServer, StartError> {
    let builder = NatsServer::builder().data_dir(folder).port(port);
    builder.attach_or_start().await
}

async fn watch(mut server: NatsServer, folder: PathBuf, stop: Shutdown) {
    loop {
        tokio::select! {
            () = stop.triggered() => break,
            () = server.ended() => {}
        }
        tracing::warn!(pid = server.pid(), "nats-server ended; starting it again");
        let back = bring_back(&mut server, &folder);
        tokio::select! {
            () = stop.triggered() => break,
            () = back => tracing::info!(pid = server.pid(), "nats-server is back"),
        }
    }
    if server.is_own()
        && let Err(error) = server.stop().await
    {
        tracing::warn!(error = %chain(&error), "nats-server could not be stopped in order");
    }
}

async fn bring_back(server: &mut NatsServer, folder: &Path) {
    loop {
        let port = server.port();
        // One that belonged to another process has ended with it: from now on it is ours.
        let result = match server.is_own() {
            true => server.restart_same_port().await.map_err(|e| chain(&e)),
            false => match attach_or_start(folder, port).await {
                Ok(own) => {
                    *server = own;
                    Ok(())
                }
                Err(error) => Err(chain(&error)),
            },
        };
        match result {
            Ok(()) => return,
            Err(error) => tracing::error!(error, "nats-server does not start; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a newcomer can do about it is in the words of the error itself.
fn explain(error: StartError) -> ExitError {
    ExitError::config(anyhow::Error::new(error).context("cannot start nats-server"))
}
