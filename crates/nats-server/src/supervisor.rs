//! A child that ends with its parent, whatever ends the parent.
//!
//! A process that is SIGKILLed cannot tidy up, and the kernel leaves its children running.
//! Linux can signal a child at its parent's death, but only by a call between `fork` and
//! `exec`, which takes unsafe code, is bound to the parent's *thread*, misses a parent that
//! died a moment earlier, and does not exist on macOS. What every Unix does for a dying
//! process is to close its files. So between the two stands a shell of a few lines:
//!
//! * its standard input is a pipe whose other end only the parent has. It reads until that
//!   end closes, then kills the server and collects it;
//! * its standard output is the *life line*: it prints the server's process id there and then
//!   lets go of it, so that only the server still holds it. The parent sees it close when the
//!   server has ended, by whatever hand.
//!
//! The shell collects the server only after its input closed, which is never before the
//! parent knows of the end. Until then the process id cannot be given to another process, so
//! a signal sent to it reaches the server or nobody.
//!
//! The shell has a process group of its own and ignores polite signals: a Ctrl-C in the
//! terminal is the parent's to handle, which wants its broker for as long as it drains. As
//! its standard error it inherits the lock of the data folder (see `lock`) and passes it on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

use crate::lock::Lock;

/// Arguments: the file for the server's standard error, the server, its arguments.
const SCRIPT: &str = r#"
errors=$1
shift
"$@" 3>&2 2>>"$errors" </dev/null &
child=$!
trap '' HUP INT QUIT TERM
echo "$child"
exec >/dev/null
while read -r _; do :; done
kill -KILL "$child" 2>/dev/null
wait "$child"
"#;

/// How long a drop waits for the server's end. SIGKILL takes a few milliseconds.
const DROP_LIMIT: Duration = Duration::from_secs(5);

/// A running server and the shell that stands over it. Dropping it kills the server.
#[derive(Debug)]
pub(crate) struct Supervised {
    /// The server's own process id.
    pid: Pid,
    /// The pipe that keeps the server alive; taken when it shall end or has ended.
    alive: Arc<Mutex<Option<ChildStdin>>>,
    ended: watch::Receiver<bool>,
    /// Disconnected when the shell has been collected. A drop cannot await, so it waits on
    /// this; the mutex is there only because a receiver cannot be shared between threads.
    collected: Mutex<mpsc::Receiver<()>>,
}

impl Supervised {
    /// Starts `binary` with `arguments`. Blocks until the shell has said the process id, which
    /// takes a few milliseconds.
    pub(crate) fn spawn(
        binary: &Path,
        arguments: &[&Path],
        lock: Lock,
        errors: &Path,
    ) -> io::Result<Self> {
        let mut shell = spawn_shell(binary, arguments, lock.into_file(), errors)?;
        let no_pipe = || io::Error::other("a pipe that was asked for is missing");
        let alive = Arc::new(Mutex::new(Some(shell.stdin.take().ok_or_else(no_pipe)?)));
        let mut life_line = BufReader::new(shell.stdout.take().ok_or_else(no_pipe)?);
        let pid = match read_pid(&mut life_line) {
            Ok(pid) => pid,
            Err(error) => {
                drop(alive);
                shell.wait()?;
                return Err(error);
            }
        };
        let (tell_ended, ended) = watch::channel(false);
        let (tell_collected, collected) = mpsc::channel();
        let handle = Arc::clone(&alive);
        std::thread::Builder::new()
            .name("nats-server".to_owned())
            .spawn(move || {
                watch_life_line(life_line, shell, &handle);
                tell_ended.send_replace(true);
                drop(tell_collected);
            })?;
        Ok(Self {
            pid,
            alive,
            ended,
            collected: Mutex::new(collected),
        })
    }

    /// The server's own process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Sends a signal, unless the server has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.is_some() {
            // The id is still the server's own. If the server has just ended, all is well.
            let _ = kill(self.pid, signal);
        }
    }

    /// Whether the server has ended and been collected.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Returns when the server has ended and been collected.
    pub(crate) async fn ended(&self) {
        // An error means that the sender is gone, which is after the end as well.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let pipe = take(&self.alive);
        drop(pipe);
        // Waiting lets the caller remove the data folder, or start another server on it.
        let collected = self.collected.get_mut();
        let _ = collected
            .unwrap_or_else(PoisonError::into_inner)
            .recv_timeout(DROP_LIMIT);
    }
}

fn spawn_shell(binary: &Path, arguments: &[&Path], lock: File, errors: &Path) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", SCRIPT, "posthorn-nats-server"])
        .arg(errors)
        .arg(binary)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(lock)
        .process_group(0)
        .spawn()
}

fn read_pid(life_line: &mut BufReader<ChildStdout>) -> io::Result<Pid> {
    let mut line = String::new();
    life_line.read_line(&mut line)?;
    let pid = line.trim().parse().map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid))
}

/// Reads until the server has let go of the life line, then has the shell collect it.
fn watch_life_line(
    mut life_line: BufReader<ChildStdout>,
    mut shell: Child,
    alive: &Mutex<Option<ChildStdin>>,
) {
    let mut noise = [0; 512];
    while life_line.read(&mut noise).is_ok_and(|count| count > 0) {}
    drop(take(alive));
    if let Err(error) = shell.wait() {
        tracing::warn!(%error, "could not collect the supervisor of nats-server");
    }
}

fn take(alive: &Mutex<Option<ChildStdin>>) -> Option<ChildStdin> {
    alive.lock().unwrap_or_else(PoisonError::into_inner).take()
}
