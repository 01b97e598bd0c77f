//! Takes the server's binary out of the image `nats`.
//!
//! The server is not run *in* a container: the engine would own it, so it would neither end
//! with the process that started it nor have a process id that a test could kill. The image
//! holds one static binary, which runs on the host as well as in a container, provided the
//! host is a Linux of the engine's architecture.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use super::PROGRAM;
use super::error::MissReason;
use super::pip::miss;
use crate::command;

/// An engine that runs answers at once.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// The image is some 10 MB.
const PULL_LIMIT: Duration = Duration::from_secs(300);

const IMAGE: &str = "nats:2.15.1-scratch";

/// Leaves the server at `<folder>/bin/nats-server`.
pub(super) async fn fetch(docker: &Path, folder: &Path) -> Result<(), MissReason> {
    if !cfg!(target_os = "linux") {
        return Err(MissReason::OtherSystem);
    }
    ask(docker, &["version"], ASK_LIMIT).await?;
    let container = ask(docker, &["create", IMAGE], PULL_LIMIT).await?;
    let container = container.lines().last().unwrap_or_default().trim();
    let copied = copy(docker, container, folder).await;
    // Failing to tidy up leaves a stopped container behind and is no reason to fail.
    if ask(docker, &["rm", container], ASK_LIMIT).await.is_err() {
        tracing::warn!(
            container,
            "could not remove the container made to copy from"
        );
    }
    copied
}

async fn copy(docker: &Path, container: &str, folder: &Path) -> Result<(), MissReason> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).map_err(MissReason::Io)?;
    let from = format!("{container}:/{PROGRAM}");
    let to = bin.join(PROGRAM);
    let to = to.to_str().ok_or(MissReason::FetchFailed)?;
    ask(docker, &["cp", &from, to], PULL_LIMIT).await?;
    Ok(())
}

async fn ask(docker: &Path, arguments: &[&str], limit: Duration) -> Result<String, MissReason> {
    let mut command = Command::new(docker);
    command.args(arguments);
    let output = command::run(command, limit).await.map_err(|e| miss(&e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        tracing::debug!(said = %said.trim(), "docker could not provide nats-server");
        return Err(MissReason::FetchFailed);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
