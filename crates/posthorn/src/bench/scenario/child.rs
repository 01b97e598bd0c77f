//! One service as a process.

use super::until;
use crate::failure::Failure;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child as Process, Command};

/// How long a service may take until it is ready: a dispatcher waits 2 s for its peers.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to end.
const END: Duration = Duration::from_secs(40);
/// What is shown of what it said when it did not start.
const LAST_WORDS: usize = 2_000;

/// A running service. It ends when this is dropped, and with this process.
pub(crate) struct Child {
    name: &'static str,
    process: Process,
    pid: u32,
    ops: SocketAddr,
    log: PathBuf,
}

impl Child {
    /// Starts `name`, a sub-verb of the hidden one, with its own flags; its log goes into
    /// `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(
        name: &'static str,
        flags: &[String],
        nats_url: &str,
        folder: &Path,
    ) -> Result<Child, Failure> {
        let fail = |error: std::io::Error| Failure::internal(&format!("starting {name}"), &error);
        let ops = free_address()?;
        let log = folder.join(format!("{name}-{}.log", ops.port()));
        let file = || {
            std::fs::File::options()
                .create(true)
                .append(true)
                .open(&log)
        };
        let mut command = Command::new(std::env::current_exe().map_err(fail)?);
        for (variable, _) in std::env::vars_os() {
            // What is set for another Posthorn is not for the one that is measured.
            if variable.to_string_lossy().starts_with("POSTHORN_") {
                command.env_remove(variable);
            }
        }
        let process = command
            .args(["bench-service", name, "--log=warn", "--nats-url", nats_url])
            .arg(format!("--ops-listen={ops}"))
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(file().map_err(fail)?)
            .stderr(file().map_err(fail)?)
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        Ok(Child {
            name,
            pid: process.id().unwrap_or(0),
            process,
            ops,
            log,
        })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// When it does not in a minute, or has ended; with the end of its log.
    pub async fn ready(&mut self, client: &reqwest::Client) -> Result<(), Failure> {
        let url = format!("http://{}/readyz", self.ops);
        let name = self.name;
        let ready = until(READY, &format!("{name} is ready"), async || {
            let answer = client.get(&url).send().await;
            Ok(answer.is_ok_and(|answer| answer.status().is_success()))
        })
        .await;
        ready.map_err(|error| Failure::Internal(format!("{error}\n{}", self.last_words())))
    }

    /// Asks it to end, and waits for it.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> Result<(), Failure> {
        drop(self.process.stdin.take());
        let ended = tokio::time::timeout(END, self.process.wait()).await;
        match ended {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Failure::Internal(format!("{} does not end", self.name))),
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let skip = text.chars().count().saturating_sub(LAST_WORDS);
        text.chars().skip(skip).collect()
    }
}

/// An address that is free at this moment.
///
/// # Errors
/// When there is none.
pub(crate) fn free_address() -> Result<SocketAddr, Failure> {
    let fail = |error: std::io::Error| Failure::internal("no free port", &error);
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail)?;
    listener.local_addr().map_err(fail)
}
