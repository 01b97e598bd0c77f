//! A running server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::attach;
use crate::builder::{Builder, Plan};
use crate::config::Config;
use crate::error::{SignalError, StartError};
use crate::info;
use crate::lock::Lock;
use crate::state::{State, is_alive};
use crate::supervisor::Supervised;

/// SIGKILL takes a few milliseconds, an orderly end as long as the disk.
const END_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// How often the process of another owner is looked at.
const WATCH: Duration = Duration::from_millis(100);

/// A nats-server with JetStream on 127.0.0.1.
///
/// It ends when this is dropped, and when this process ends in any way. A server that was
/// already there ([`Builder::attach_or_start`]) belongs to another process and is left alone.
/// Dropping blocks for the few milliseconds that the server takes to end.
#[derive(Debug)]
pub struct NatsServer {
    plan: Plan,
    port: u16,
    url: String,
    process: Process,
}

#[derive(Debug)]
enum Process {
    /// Started here.
    Own(Supervised),
    /// Started by another process; its process id.
    Foreign(u32),
}

impl NatsServer {
    /// A server to be described and started.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Where clients connect, such as `nats://127.0.0.1:4222`.
    #[must_use]
    pub fn client_url(&self) -> &str {
        &self.url
    }

    /// The port on 127.0.0.1. It stays the same over a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of nats-server itself, of the last one after it ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Own(supervised) => supervised.pid(),
            Process::Foreign(pid) => *pid,
        }
    }

    /// The absolute path of the data folder.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.plan.data_dir
    }

    /// The file into which the server logs.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.plan.log()
    }

    /// Whether this process started the server, and it ends with this process.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.process, Process::Own(_))
    }

    /// Returns when the server has ended, by whatever hand.
    pub async fn ended(&self) {
        match &self.process {
            Process::Own(supervised) => supervised.ended().await,
            Process::Foreign(pid) => {
                while is_alive(*pid) {
                    tokio::time::sleep(WATCH).await;
                }
            }
        }
    }

    /// Kills the server with SIGKILL and returns when it is gone. A server that has already
    /// ended is fine.
    ///
    /// # Errors
    /// [`SignalError::NotOwned`] for the server of another process, and
    /// [`SignalError::StillRunning`] if it does not end.
    pub async fn kill(&mut self) -> Result<(), SignalError> {
        self.end(Signal::SIGKILL).await
    }

    /// Ends the server with SIGTERM, so that it writes what it holds, and returns when it is
    /// gone. A server that has already ended is fine.
    ///
    /// # Errors
    /// As for [`NatsServer::kill`].
    pub async fn stop(&mut self) -> Result<(), SignalError> {
        self.end(Signal::SIGTERM).await
    }

    /// Starts an ended server again on the same folder and port, and returns when it is ready.
    ///
    /// While it was away another process may have been given the port for a connection of its
    /// own, so the start is repeated for as long as a start may take.
    ///
    /// # Errors
    /// [`SignalError::NotOwned`], [`SignalError::NotEnded`] or what the start met with.
    pub async fn restart_same_port(&mut self) -> Result<(), SignalError> {
        let Process::Own(supervised) = &self.process else {
            return Err(SignalError::NotOwned);
        };
        if !supervised.has_ended() {
            return Err(SignalError::NotEnded);
        }
        let begin = Instant::now();
        loop {
            let lock = attach::lock(&self.plan).await?;
            match start(&self.plan, self.port, lock).await {
                Ok((supervised, _)) => {
                    self.process = Process::Own(supervised);
                    return Ok(());
                }
                Err(StartError::Ended { .. }) if begin.elapsed() < self.plan.ready_within => {
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) async fn launch(plan: Plan, port: u16, lock: Lock) -> Result<Self, StartError> {
        let (supervised, port) = start(&plan, port, lock).await?;
        Ok(Self {
            plan,
            port,
            url: State::url(port),
            process: Process::Own(supervised),
        })
    }

    pub(crate) fn attached(plan: Plan, state: State) -> Self {
        Self {
            plan,
            port: state.port,
            url: state.url,
            process: Process::Foreign(state.pid),
        }
    }

    async fn end(&mut self, signal: Signal) -> Result<(), SignalError> {
        let Process::Own(supervised) = &self.process else {
            return Err(SignalError::NotOwned);
        };
        supervised.signal(signal);
        tokio::time::timeout(END_LIMIT, supervised.ended())
            .await
            .map_err(|_| SignalError::StillRunning(END_LIMIT))
    }
}

/// Starts the process and waits until it is ready; returns it with its port.
async fn start(plan: &Plan, port: u16, lock: Lock) -> Result<(Supervised, u16), StartError> {
    let supervised = spawn(plan, port, lock).await?;
    let ready = tokio::time::timeout(plan.ready_within, ready(plan, port));
    let port = tokio::select! {
        // A server that ended explains a port that does not answer, so it is looked at first.
        biased;
        () = supervised.ended() => Err(StartError::Ended { log: plan.log() }),
        port = ready => port.map_err(|_| StartError::NotReady {
            limit: plan.ready_within,
            log: plan.log(),
        }),
    }?;
    let state = State {
        pid: supervised.pid(),
        port,
        url: State::url(port),
        server_name: plan.server_name.clone(),
        owner: std::process::id(),
    };
    state
        .write(&plan.data_dir)
        .map_err(|source| plan.folder_error(source))?;
    Ok((supervised, port))
}

async fn spawn(plan: &Plan, port: u16, lock: Lock) -> Result<Supervised, StartError> {
    let config = write_config(plan, port)?;
    let binary = plan.binary.clone();
    let errors = plan.log();
    let spawning = tokio::task::spawn_blocking(move || {
        Supervised::spawn(&binary, &[Path::new("-c"), &config], lock, &errors)
    });
    let spawned = spawning.await.map_err(std::io::Error::other);
    spawned.and_then(|result| result).map_err(StartError::Spawn)
}

/// Writes the configuration where only this user can read it: it may hold credentials.
fn write_config(plan: &Plan, port: u16) -> Result<PathBuf, StartError> {
    let ports_dir = ports_dir(plan);
    let text = Config {
        port,
        server_name: &plan.server_name,
        data_dir: &plan.data_dir,
        ports_dir: &ports_dir,
        log: &plan.log(),
        jetstream_extra: &plan.jetstream_extra,
        extra: &plan.extra,
    }
    .render()?;
    let write = || {
        if ports_dir.exists() {
            // The note of an earlier server, which was killed.
            std::fs::remove_dir_all(&ports_dir)?;
        }
        std::fs::create_dir(&ports_dir)?;
        let file = tempfile::NamedTempFile::new_in(&plan.data_dir)?;
        std::fs::write(file.path(), text)?;
        let place = plan.data_dir.join("nats-server.conf");
        file.persist(&place)?;
        Ok(place)
    };
    write().map_err(|source| plan.folder_error(source))
}

fn ports_dir(plan: &Plan) -> PathBuf {
    plan.data_dir.join("ports")
}

/// Waits until the server answers in its name and says that it has JetStream.
async fn ready(plan: &Plan, port: u16) -> u16 {
    loop {
        let port = match port {
            0 => chosen_port(plan),
            known => Some(known),
        };
        if let Some(port) = port
            && let Some(info) = info::ask(port).await
            && info.jetstream
            && info.server_name == plan.server_name
        {
            return port;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The port that the server wrote down, once it has. The note is named after the program and
/// its process id; the folder is this start's own, so any note in it is the one.
fn chosen_port(plan: &Plan) -> Option<u16> {
    let note = std::fs::read_dir(ports_dir(plan)).ok()?.next()?.ok()?;
    let text = std::fs::read(note.path()).ok()?;
    let ports: Ports = serde_json::from_slice(&text).ok()?;
    let (_, port) = ports.nats.first()?.rsplit_once(':')?;
    port.parse().ok()
}

#[derive(serde::Deserialize)]
struct Ports {
    nats: Vec<String>,
}
