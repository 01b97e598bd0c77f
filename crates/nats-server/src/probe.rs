//! Asks a file whether it is a nats-server, and one new enough.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::command::{self, CommandError};
use crate::version::{MINIMUM, Version, VersionError};

/// A server prints its version in some 10 ms; this leaves room for a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Why a file is not a nats-server that Posthorn can use.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It could not be executed.
    #[error("it cannot be executed")]
    Execute(#[source] io::Error),
    /// It ran, but not to its end.
    #[error("it does not answer")]
    Silent,
    /// It ended with a failure.
    #[error("it failed when asked for its version")]
    Failed,
    /// It answered something else than a version of nats-server.
    #[error("it is not a nats-server")]
    Foreign(#[source] VersionError),
    /// It is older than [`MINIMUM`].
    #[error("it is version {0}, and {MINIMUM} or newer is needed")]
    TooOld(Version),
}

/// Runs `binary --version` and holds the answer against [`MINIMUM`].
pub(crate) async fn probe(binary: &Path) -> Result<Version, ProbeError> {
    let mut ask = Command::new(binary);
    ask.arg("--version");
    let output = command::run(ask, LIMIT)
        .await
        .map_err(|error| match error {
            CommandError::Start(source) => ProbeError::Execute(source),
            CommandError::TimedOut(_) => ProbeError::Silent,
        })?;
    if !output.status.success() {
        return Err(ProbeError::Failed);
    }
    let banner = String::from_utf8_lossy(&output.stdout);
    let version = Version::from_banner(&banner).map_err(ProbeError::Foreign)?;
    if version < MINIMUM {
        return Err(ProbeError::TooOld(version));
    }
    Ok(version)
}
