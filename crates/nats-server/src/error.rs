//! What can go wrong with a server that was found.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::find::FindError;

/// The server did not come up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The builder was given no data folder.
    #[error("no data folder was given")]
    NoDataFolder,
    /// No nats-server can be used.
    #[error("no nats-server to start")]
    Find(#[from] FindError),
    /// The data folder cannot be written.
    #[error("cannot write into the data folder {}", path.display())]
    Folder {
        /// The data folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The path of the data folder cannot be written into a configuration of nats-server.
    #[error("the path of the data folder holds a character that a configuration cannot")]
    FolderName,
    /// Another nats-server works on the data folder.
    #[error("another nats-server works on the data folder {}", .0.display())]
    InUse(PathBuf),
    /// The process could not be started.
    #[error("the process could not be started")]
    Spawn(#[source] io::Error),
    /// The process ended before it was ready, for instance because the port is taken or the
    /// additional configuration is wrong.
    #[error("nats-server ended before it was ready; see {}", log.display())]
    Ended {
        /// Where the server says why.
        log: PathBuf,
    },
    /// The process runs but was not ready in time.
    #[error("nats-server was not ready after {} s; see {}", limit.as_secs_f32(), log.display())]
    NotReady {
        /// How long it was waited for.
        limit: Duration,
        /// Where the server says what it does.
        log: PathBuf,
    },
}

/// The server could not be ended or started again.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// The server belongs to another process, which alone may end it.
    #[error("the nats-server belongs to another process")]
    NotOwned,
    /// The server did not end in time.
    #[error("nats-server did not end within {} s", .0.as_secs())]
    StillRunning(Duration),
    /// The server is already running, so it cannot be started again.
    #[error("nats-server has not ended yet")]
    NotEnded,
    /// The server did not come up again.
    #[error("nats-server did not start again")]
    Start(#[from] StartError),
}
