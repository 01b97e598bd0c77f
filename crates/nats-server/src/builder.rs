//! What a server shall be like, and its start.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::attach::{self, Claim};
use crate::error::StartError;
use crate::find::{FindOptions, find};
use crate::server::NatsServer;
use crate::state::server_name;

/// A store of a hundred thousand messages is recovered in well under a second; this leaves
/// room for a large one on a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How a server is started. Made by [`NatsServer::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    data_dir: Option<PathBuf>,
    binary: Option<PathBuf>,
    port: u16,
    server_name: Option<String>,
    extra: String,
    jetstream_extra: String,
    ready_within: Duration,
}

/// What a start and every later restart need, in their final form.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub binary: PathBuf,
    /// Absolute, and existing.
    pub data_dir: PathBuf,
    pub server_name: String,
    pub extra: String,
    pub jetstream_extra: String,
    pub ready_within: Duration,
}

impl Plan {
    pub(crate) fn log(&self) -> PathBuf {
        self.data_dir.join("nats-server.log")
    }

    /// The error of a data folder that cannot be written.
    pub(crate) fn folder_error(&self, source: io::Error) -> StartError {
        folder_error(&self.data_dir, source)
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            data_dir: None,
            binary: None,
            port: 0,
            server_name: None,
            extra: String::new(),
            jetstream_extra: String::new(),
            ready_within: READY_WITHIN,
        }
    }

    /// The folder of the streams, the log and the configuration. Required; made if absent.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// The nats-server to run, instead of the one that [`find()`] finds by the environment.
    #[must_use]
    pub fn binary(mut self, file: impl Into<PathBuf>) -> Self {
        self.binary = Some(file.into());
        self
    }

    /// The port on 127.0.0.1; 0, the default, lets the server choose a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The server's name; by default it is made from the data folder. Without spaces.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Lines added at the end of the configuration file. A key that is there already takes
    /// this value, except for `jetstream`, which has [`Builder::jetstream_extra`].
    #[must_use]
    pub fn config_extra(mut self, lines: &str) -> Self {
        self.extra.push_str(lines);
        self.extra.push('\n');
        self
    }

    /// Lines added inside the `jetstream` block, such as `sync_interval: always`.
    #[must_use]
    pub fn jetstream_extra(mut self, lines: &str) -> Self {
        self.jetstream_extra.push_str(lines);
        self.jetstream_extra.push('\n');
        self
    }

    /// How long a start may take until the server answers; 30 s by default.
    #[must_use]
    pub fn ready_within(mut self, limit: Duration) -> Self {
        self.ready_within = limit;
        self
    }

    /// Starts a server and returns once it accepts connections and JetStream is ready.
    ///
    /// # Errors
    /// See [`StartError`]; [`StartError::InUse`] when another server still works on the folder
    /// after a few seconds, which are granted to one that is about to end.
    pub async fn start(self) -> Result<NatsServer, StartError> {
        let port = self.port;
        let plan = self.plan().await?;
        let lock = attach::lock(&plan).await?;
        NatsServer::launch(plan, port, lock).await
    }

    /// Uses the server that already works on the data folder, or starts one.
    ///
    /// The server of another process ends with that process; see [`NatsServer::ended`].
    ///
    /// # Errors
    /// See [`StartError`]; [`StartError::InUse`] when a server works on the folder but cannot
    /// be reached as the one that its note describes.
    pub async fn attach_or_start(self) -> Result<NatsServer, StartError> {
        let port = self.port;
        let plan = self.plan().await?;
        match attach::claim(&plan).await? {
            Claim::Running(state) => Ok(NatsServer::attached(plan, state)),
            Claim::Free(lock) => NatsServer::launch(plan, port, lock).await,
        }
    }

    async fn plan(self) -> Result<Plan, StartError> {
        let folder = self.data_dir.ok_or(StartError::NoDataFolder)?;
        let data_dir = std::fs::create_dir_all(&folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|source| folder_error(&folder, source))?;
        let binary = match self.binary {
            Some(binary) => binary,
            None => find(&FindOptions::from_env()).await?,
        };
        Ok(Plan {
            binary,
            server_name: self.server_name.unwrap_or_else(|| server_name(&data_dir)),
            data_dir,
            extra: self.extra,
            jetstream_extra: self.jetstream_extra,
            ready_within: self.ready_within,
        })
    }
}

fn folder_error(folder: &Path, source: io::Error) -> StartError {
    StartError::Folder {
        path: folder.to_owned(),
        source,
    }
}
