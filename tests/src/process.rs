//! One process of the product, started as an operator starts it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;

use crate::bins;
use crate::wait::eventually_some;

/// Ports below the range that the kernel gives to outgoing connections: one of those may take a
/// port in the moment between finding it free and listening on it, or while what listened there
/// is restarted.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// A free port on 127.0.0.1, let go of for a service to take, and not given again in this
/// process.
///
/// # Errors
/// When no port is to be had.
pub fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    for _ in 0..1_000 {
        let port = rand::rng().random_range(PORTS);
        let is_new = GIVEN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(port);
        if is_new && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port in a thousand tries")
}

/// How a process is started, so that it can be started again in the same way.
#[derive(Debug, Clone)]
pub struct Recipe {
    name: String,
    program: Option<PathBuf>,
    args: Vec<OsString>,
    env: BTreeMap<String, OsString>,
    ops_port: Option<u16>,
    log: PathBuf,
}

impl Recipe {
    /// A binary of the workspace, such as `posthorn-ingest`, whose output is appended to a
    /// file of that name in `folder`.
    #[must_use]
    pub fn new(name: &str, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            ops_port: None,
            log: folder.join(format!("{name}.log")),
        }
    }

    /// Runs this file instead of the workspace's binary of that name.
    #[must_use]
    pub fn program(mut self, file: impl Into<PathBuf>) -> Self {
        self.program = Some(file.into());
        self
    }

    /// Writes the output to another file.
    #[must_use]
    pub fn log(mut self, file: PathBuf) -> Self {
        self.log = file;
        self
    }

    /// Adds a command line argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable, over what the test's own environment says.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Has the process serve its probes on this port of 127.0.0.1.
    #[must_use]
    pub fn ops_port(mut self, port: u16) -> Self {
        self.ops_port = Some(port);
        self.env("POSTHORN_OPS_LISTEN", format!("127.0.0.1:{port}"))
    }

    /// Starts the process, without waiting until it is ready.
    ///
    /// # Errors
    /// When the binaries do not build, or the process cannot be started.
    pub async fn spawn(&self) -> Result<Service> {
        let binary = match &self.program {
            Some(program) => program.clone(),
            None => bins::bin(&self.name).await?,
        };
        let log = || {
            let file = File::options().create(true).append(true).open(&self.log);
            file.with_context(|| format!("opening {}", self.log.display()))
        };
        let mut command = Command::new(binary);
        forget_settings(&mut command, std::env::vars_os().map(|(name, _)| name));
        let child = command
            .args(&self.args)
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(log()?)
            .stderr(log()?)
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        Ok(Service {
            recipe: self.clone(),
            child,
        })
    }
}

/// What the developer has set for his own Posthorn is not for the one under test.
fn forget_settings(command: &mut Command, names: impl Iterator<Item = OsString>) {
    for name in names {
        let text = name.to_string_lossy();
        let ours = text.starts_with("POSTHORN_") && text != "POSTHORN_NATS_SERVER";
        if ours || text.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    recipe: Recipe,
    child: Child,
}

impl Service {
    /// Starts a binary with arguments and environment; its output is appended to a file in
    /// `folder`. See [`Recipe`] for more.
    ///
    /// # Errors
    /// As for [`Recipe::spawn`].
    pub async fn spawn(
        name: &str,
        args: &[&str],
        env: &[(&str, &str)],
        folder: &Path,
    ) -> Result<Self> {
        let mut recipe = Recipe::new(name, folder);
        for arg in args {
            recipe = recipe.arg(arg);
        }
        for (name, value) in env {
            recipe = recipe.env(name, value);
        }
        recipe.spawn().await
    }

    /// The name of the binary.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port of the probes, where the recipe gave one.
    #[must_use]
    pub fn ops_port(&self) -> Option<u16> {
        self.recipe.ops_port
    }

    /// What the process wrote so far, and those before it in the same file.
    #[must_use]
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.recipe.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the process has not ended.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// When it does not within `limit`, or as soon as the process ends; with the end of its
    /// output.
    pub async fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let port = self.recipe.ops_port.context("the recipe has no ops port")?;
        let url = format!("http://127.0.0.1:{port}/readyz");
        let client = reqwest::Client::builder().no_proxy().build()?;
        let what = format!("{} is ready", self.recipe.name);
        let ready = eventually_some(limit, &what, || {
            let asking = client.get(&url).timeout(Duration::from_secs(2)).send();
            let ended = self.child.try_wait().ok().flatten();
            async move {
                if let Some(status) = ended {
                    return Some(Err(status));
                }
                let answer = asking.await.ok()?;
                answer.status().is_success().then_some(Ok(()))
            }
        })
        .await;
        match ready {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => bail!("{} ended: {status}\n{}", self.name(), self.last_words()),
            Err(error) => Err(error.context(self.last_words())),
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("asking for the process")? {
            bail!("{} has ended: {status}", self.name());
        }
        let pid = i32::try_from(self.child.id()).context("a process id")?;
        kill(Pid::from_raw(pid), signal).context("sending a signal")
    }

    /// SIGKILL, and waits for the end. One that has already ended is fine.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing a process")?;
        self.child.wait().context("collecting a process")?;
        Ok(())
    }

    /// SIGTERM, and waits for the end, whose status it returns.
    ///
    /// # Errors
    /// When the process has already ended, or does not end within `limit`.
    pub async fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_exit(limit).await
    }

    /// Waits for the end, whose status it returns.
    ///
    /// # Errors
    /// When the process does not end within `limit`.
    pub async fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.recipe.name);
        let child = &mut self.child;
        eventually_some(limit, &what, || {
            std::future::ready(child.try_wait().ok().flatten())
        })
        .await
    }

    /// Kills the process if it still runs, and starts it again in the same way: same
    /// arguments, same environment, same ports.
    ///
    /// # Errors
    /// When it cannot be killed or started.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill()?;
        *self = self.recipe.spawn().await?;
        Ok(())
    }

    fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is as well.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEADLINE, eventually};

    #[test]
    fn the_developers_settings_are_forgotten_and_his_nats_server_is_not() {
        let mut command = Command::new("true");
        let names = [
            "POSTHORN_NATS_URL",
            "OTEL_SDK",
            "POSTHORN_NATS_SERVER",
            "PATH",
        ];
        forget_settings(&mut command, names.into_iter().map(OsString::from));
        let removed: Vec<_> = command.get_envs().map(|(name, _)| name).collect();
        assert_eq!(removed, ["OTEL_SDK", "POSTHORN_NATS_URL"]);
    }

    #[test]
    fn free_ports_can_be_taken() {
        let port = free_port().unwrap();
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
    }

    /// A shell that says `up` and then runs until it is told to end.
    async fn shell(folder: &Path, on_term: &str) -> Service {
        let script =
            format!("trap '{on_term}' TERM; echo up; while :; do read -r _ < \"$1\"; done");
        let pipe = folder.join("pipe");
        if !pipe.exists() {
            assert!(
                Command::new("mkfifo")
                    .arg(&pipe)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let recipe = Recipe::new("shell", folder).program("/bin/sh");
        let mut service = recipe
            .arg("-c")
            .arg(script)
            .arg("sh")
            .arg(pipe)
            .spawn()
            .await
            .unwrap();
        says(&service, "up", 1).await;
        assert!(service.is_running());
        service
    }

    async fn says(service: &Service, word: &str, times: usize) {
        eventually(DEADLINE, word, || async {
            service.output().matches(word).count() == times
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn one_that_is_asked_to_end_ends_in_its_own_way() {
        let folder = tempfile::tempdir().unwrap();
        let mut service = shell(folder.path(), "echo bye; exit 7").await;
        let status = service.terminate(DEADLINE).await.unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(service.output().ends_with("bye\n"));
        assert!(service.signal(Signal::SIGTERM).is_err());
    }

    #[tokio::test]
    async fn one_that_does_not_listen_is_an_error_and_can_be_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut service = shell(folder.path(), "echo no").await;
        let refused = service.terminate(Duration::from_millis(50)).await;
        assert!(refused.is_err());
        service.kill().unwrap();
        assert!(!service.is_running());
        service.kill().unwrap();
    }

    #[tokio::test]
    async fn a_restart_is_another_process_with_the_same_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut service = shell(folder.path(), "exit").await;
        let first = service.pid();
        service.restart().await.unwrap();
        assert_ne!(service.pid(), first);
        says(&service, "up", 2).await;
    }

    #[tokio::test]
    async fn dropping_kills() {
        let folder = tempfile::tempdir().unwrap();
        let service = shell(folder.path(), "").await;
        let pid = Pid::from_raw(i32::try_from(service.pid()).unwrap());
        drop(service);
        assert!(kill(pid, None).is_err());
    }
}
