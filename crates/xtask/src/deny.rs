//! Dependencies: licences, bans and sources by `deny.toml`, and what is known against them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::repository;

/// Checks licences, bans and sources, and tells of advisories; `false` when one of the three
/// fails.
///
/// An advisory does not fail the gate: what somebody publishes tonight must not turn a change
/// red that was green this morning. It is told, for whoever makes a release.
///
/// # Errors
/// When cargo-deny cannot be had.
pub fn run() -> Result<bool> {
    let root = repository::root();
    let program = tools(&root)?.join("cargo-deny");
    let status = deny(&root, &program, &["bans", "licenses", "sources"])
        .status()
        .context("cargo-deny does not start")?;
    let told = deny(&root, &program, &["advisories"])
        .output()
        .context("cargo-deny does not start")?;
    println!("{}", advisories(&told));
    Ok(status.success())
}

/// The folder of the programs that `.ci/tools.txt` pins; they are fetched once.
fn tools(root: &Path) -> Result<PathBuf> {
    let output = Command::new(root.join(".ci/tools"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("the pinned tools cannot be asked for")?;
    ensure!(
        output.status.success(),
        "the pinned tools cannot be installed"
    );
    let path = String::from_utf8(output.stdout).context("a folder's name is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}

fn deny(root: &Path, program: &Path, checks: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--workspace", "--locked", "check"])
        .args(checks)
        .current_dir(root)
        .stdin(Stdio::null())
        // A database that does not answer is not waited for, and nobody is asked for a password.
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_HTTP_LOW_SPEED_LIMIT", "1000")
        .env("GIT_HTTP_LOW_SPEED_TIME", "20");
    command
}

/// What there is to say of advisories.
fn advisories(told: &Output) -> String {
    let words = String::from_utf8_lossy(&told.stderr);
    if told.status.success() {
        return "advisories: none is known against what we use".to_owned();
    }
    if words.contains("failed to fetch advisory database") {
        return "advisories: not asked, their database cannot be reached".to_owned();
    }
    format!("advisories (told, not part of the verdict):\n{words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn told(code: i32, words: &str) -> String {
        advisories(&Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: words.as_bytes().to_vec(),
        })
    }

    #[test]
    fn no_network_is_told_from_an_advisory() {
        assert!(told(0, "advisories ok").contains("none"));
        assert!(told(1, "[ERROR] failed to fetch advisory database x").contains("not asked"));
        assert!(told(1, "error[vulnerability]: y").contains("error[vulnerability]: y"));
    }
}
