//! A data folder, `posthorn dev` on it, and the command line against it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Asks again and again until there is an answer.
pub async fn eventually<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let waiting = async {
        let mut every = tokio::time::interval(LOOK);
        loop {
            every.tick().await;
            if let Some(answer) = probe().await {
                return answer;
            }
        }
    };
    match tokio::time::timeout(LIMIT, waiting).await {
        Ok(answer) => answer,
        Err(_) => panic!("it never happened: {what}"),
    }
}

/// The binary with `args`, in an environment without a developer's own settings.
pub fn posthorn(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthorn"));
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy().into_owned();
        let ours = shown.starts_with("POSTHORN_") && shown != "POSTHORN_NATS_SERVER";
        if ours || shown.starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end: exit code, stdout, stderr.
pub async fn finished(mut command: Command) -> (i32, String, String) {
    let output = tokio::time::timeout(LIMIT, command.output());
    let output = output.await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A process whose output goes to a file.
pub struct Running {
    pub child: Child,
    pub out: PathBuf,
}

impl Running {
    pub fn start(mut command: Command, folder: &Path, name: &str) -> Running {
        let out = folder.join(format!("{name}.out"));
        let err = File::options()
            .create(true)
            .append(true)
            .open(folder.join(format!("{name}.err")))
            .unwrap();
        command.stdout(File::create(&out).unwrap()).stderr(err);
        let child = command.spawn().unwrap();
        Running { child, out }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    pub async fn exit(&mut self) -> Option<i32> {
        let status = tokio::time::timeout(LIMIT, self.child.wait()).await;
        status.unwrap().unwrap().code()
    }

    /// The whole lines so far, as JSON.
    pub fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.out).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A data folder, and `posthorn dev` on it.
pub struct Place {
    pub folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { folder }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn data_arg(&self) -> String {
        self.data().to_str().unwrap().to_owned()
    }

    pub fn dev_command(&self) -> Command {
        let data = self.data_arg();
        let nowhere = "127.0.0.1:0";
        let mut args = vec!["dev", "--data-dir", &data, "--log", "warn"];
        for flag in ["--ingest-listen", "--admin-listen", "--ops-listen"] {
            args.extend([flag, nowhere]);
        }
        posthorn(&args)
    }

    /// Starts `dev` and waits until its file says that all is ready.
    pub async fn dev(&self) -> Running {
        self.dev_as(self.dev_command()).await
    }

    pub async fn dev_as(&self, command: Command) -> Running {
        let mut dev = Running::start(command, self.folder.path(), "dev");
        let pid = u64::from(dev.child.id().unwrap());
        let file = eventually("dev.json of this process", || {
            let ended = dev.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "dev ended: {ended:?}\n{}",
                self.dev_errors()
            );
            let file = self.dev_json();
            async move { file.filter(|file| file["pid"] == pid) }
        })
        .await;
        assert!(file["api_key"].as_str().unwrap().len() > 32);
        dev
    }

    pub fn dev_errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("dev.err")).unwrap_or_default()
    }

    pub fn dev_json(&self) -> Option<Value> {
        let text = std::fs::read(self.data().join("dev.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// A command of the client, by what `dev` wrote down; its answer in JSON.
    pub async fn cli(&self, args: &[&str]) -> (i32, Value, String) {
        let data = self.data_arg();
        let args = [args, &["--data-dir", &data, "--output", "json"]].concat();
        let (code, out, err) = finished(posthorn(&args)).await;
        (code, serde_json::from_str(&out).unwrap_or(Value::Null), err)
    }

    pub async fn ok(&self, args: &[&str]) -> Value {
        let (code, answer, err) = self.cli(args).await;
        assert_eq!(code, 0, "{args:?}: {err}\n{}", self.dev_errors());
        answer
    }

    /// A receiver with the secret of these tests, and its URL.
    pub async fn listen(&self, name: &str, more: &[&str]) -> (Running, String) {
        let args = [
            &["listen", "--listen", "127.0.0.1:0", "--output", "json"],
            &["--secret", SECRET][..],
            more,
        ];
        let receiver = Running::start(posthorn(&args.concat()), self.folder.path(), name);
        let url = eventually("the receiver's URL", || {
            let first = receiver.lines().first().cloned();
            async move { Some(first?["listening"].as_str()?.to_owned()) }
        })
        .await;
        (receiver, url)
    }

    /// An endpoint for `url` that is tried again quickly; its id.
    pub async fn endpoint(&self, url: &str) -> String {
        let args = [
            "endpoints",
            "add",
            url,
            "--tenant",
            "acme",
            "--type",
            "invoice.*",
            "--secret",
            SECRET,
            "--base",
            "100ms",
            "--max-delay",
            "500ms",
        ];
        let made = self.ok(&args).await;
        made["id"].as_str().unwrap().to_owned()
    }

    pub fn nats_pid(&self) -> Option<i32> {
        let note = std::fs::read(self.data().join("nats/nats-server.json")).ok()?;
        let note: Value = serde_json::from_slice(&note).ok()?;
        i32::try_from(note["pid"].as_i64()?).ok()
    }
}

pub fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

pub async fn gone(pid: i32) {
    eventually("nats-server ends", || async move {
        (!is_alive(pid)).then_some(())
    })
    .await;
}
