//! A nats-server of the test's own, on a folder and a port of its own.

use crate::process::free_port;
use anyhow::{Context, Result};
use posthorn_nats_server::NatsServer;
use tempfile::TempDir;

/// A server with JetStream that ends, and whose data goes, with this value.
#[derive(Debug)]
pub struct TestNats {
    // Before the folder, because fields are dropped in order.
    server: NatsServer,
    _folder: TempDir,
}

impl TestNats {
    /// Starts a server with the defaults.
    ///
    /// # Errors
    /// When there is no nats-server or it does not start.
    pub async fn start() -> Result<Self> {
        Self::start_with("", "").await
    }

    /// Starts a server with lines added to its configuration, and to its `jetstream` block.
    ///
    /// # Errors
    /// As for [`TestNats::start`].
    pub async fn start_with(config: &str, jetstream: &str) -> Result<Self> {
        let folder = TempDir::with_prefix("posthorn-nats-").context("making a data folder")?;
        let server = NatsServer::builder()
            .data_dir(folder.path())
            // It is restarted on the same port.
            .port(free_port()?)
            .config_extra(config)
            .jetstream_extra(jetstream)
            .start()
            .await
            .context("starting nats-server")?;
        Ok(Self {
            server,
            _folder: folder,
        })
    }

    /// Where clients connect. It stays the same over a restart.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.client_url()
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The process id of nats-server itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Where the server keeps its data.
    #[must_use]
    pub fn data_dir(&self) -> &std::path::Path {
        self.server.data_dir()
    }

    /// A client of its own, which reconnects at once when the server is back.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn client(&self) -> Result<async_nats::Client> {
        async_nats::ConnectOptions::new()
            .reconnect_delay_callback(|_| std::time::Duration::from_millis(50))
            .connect(self.url())
            .await
            .context("connecting to the test's nats-server")
    }

    /// SIGKILL, and waits for the end.
    ///
    /// # Errors
    /// When the server does not end.
    pub async fn kill(&mut self) -> Result<()> {
        self.server.kill().await.context("killing nats-server")
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When the server does not end.
    pub async fn stop(&mut self) -> Result<()> {
        self.server.stop().await.context("stopping nats-server")
    }

    /// Starts the ended server again, on the same folder and port.
    ///
    /// # Errors
    /// When the server has not ended or does not start.
    pub async fn restart(&mut self) -> Result<()> {
        self.server
            .restart_same_port()
            .await
            .context("starting nats-server again")
    }

    /// Kills the server and starts it again with nothing in it, on the same port: a broker
    /// that lost its state.
    ///
    /// # Errors
    /// When one of the steps fails.
    pub async fn restart_empty(&mut self) -> Result<()> {
        self.kill().await?;
        let store = self.server.data_dir().join("jetstream");
        std::fs::remove_dir_all(store).context("removing the streams")?;
        self.restart().await
    }
}
