//! A process from the outside: its output, its signals and its exit codes.
//!
//! Each test starts this test binary again as its child; there, the one ignored test below is the
//! process's `main`.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use posthorn_runtime::config::{NatsArgs, ProcessArgs};
use posthorn_runtime::process::main_with;
use posthorn_runtime::{ExitError, SecretString, ServiceConfig, Shutdown};
use serde::Serialize;

const ARGS: &str = "POSTHORN_TEST_CHILD_ARGS";
const MODE: &str = "POSTHORN_TEST_CHILD_MODE";

#[derive(Parser, Serialize)]
#[command(name = "posthorn-sample", version)]
struct Sample {
    #[command(flatten)]
    #[serde(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    #[serde(flatten)]
    nats: NatsArgs,
    #[arg(long, env = "POSTHORN_ADMIN_KEY")]
    admin_key: Option<SecretString>,
}

impl ServiceConfig for Sample {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.nats.validate()
    }
}

#[test]
fn child() {
    // The process that the other tests start; without a parent there is nothing to be.
    let Ok(args) = std::env::var(ARGS) else {
        return;
    };
    let args = std::iter::once("posthorn-sample").chain(args.split_whitespace());
    let code = main_with("posthorn-sample", args.map(Into::into), run);
    let known = [0u8, 64, 69, 70];
    let number = known
        .into_iter()
        .find(|known| ExitCode::from(*known) == code);
    std::process::exit(number.map_or(1, i32::from));
}

async fn run(_: Sample, shutdown: Shutdown) -> Result<(), ExitError> {
    match std::env::var(MODE).unwrap().as_str() {
        "end" => tracing::info_span!(target: "posthorn_sample", "work").in_scope(|| {}),
        "unavailable" => {
            let cause = anyhow!("connection refused").context("connecting to the sample");
            return Err(ExitError::unavailable(cause));
        }
        "panic" => panic!("a bug"),
        "provider" => assert!(rustls::crypto::CryptoProvider::get_default().is_some()),
        "drain" => {
            let work = shutdown.clone();
            shutdown.spawn(async move {
                work.triggered().await;
                say("draining");
                let finish =
                    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
                finish.await.unwrap().unwrap();
                say("finished what was in flight");
            });
            say("up");
            shutdown.triggered().await;
        }
        "leftover" => {
            shutdown.spawn(std::future::pending::<()>());
            say("up");
            shutdown.triggered().await;
            say("stopping");
        }
        "deaf" => {
            say("up");
            std::future::pending::<()>().await;
        }
        mode => panic!("no such mode: {mode}"),
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what the parent waits for")]
fn say(line: &str) {
    println!("{line}");
}

struct Started {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    began: Instant,
}

fn command(mode: &str, args: &str, env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env(MODE, mode)
        .env(ARGS, args)
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn outcome(mode: &str, args: &str, env: &[(&str, &str)]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command(mode, args, env).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn start(mode: &str, args: &str) -> Started {
    let mut child = command(mode, args, &[]).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut started = Started {
        child,
        stdout,
        began: Instant::now(),
    };
    started.wait_for("up");
    started
}

impl Started {
    /// Reads until `line` comes; the test runner's own lines, and what it puts before ours on the
    /// same line, are skipped.
    fn wait_for(&mut self, line: &str) {
        let mut read = String::new();
        while !read.trim_end().ends_with(line) {
            read.clear();
            let bytes = self.stdout.read_line(&mut read).unwrap();
            assert!(bytes > 0, "the child ended before it said {line:?}");
        }
    }

    fn signal(&mut self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
        self.began = Instant::now();
    }

    /// Lets the work that the child holds come to its end.
    fn finish(&mut self) {
        let mut stdin = self.child.stdin.take().unwrap();
        stdin.write_all(b"finish\n").unwrap();
    }

    fn end(mut self) -> (i32, String, String, Duration) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap(), out, err, self.began.elapsed())
    }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_good_configuration_is_said_to_be_valid() {
    let (code, out, err) = outcome("end", "--check-config", &[]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("configuration is valid"));
}

#[test]
fn a_configuration_that_contradicts_itself_exits_64_also_when_only_checked() {
    let (code, out, err) = outcome("end", "--check-config --nats-tls-cert c.pem", &[]);
    assert_eq!(code, 64);
    assert!(!out.contains("configuration is valid"));
    assert!(err.contains("bad configuration: nats-tls-cert and nats-tls-key go together"));
}

#[test]
fn flag_environment_file_default_is_the_order() {
    let file = file("prefix = 'file'\nconnect_timeout = '7s'\nlog = 'warn'\n");
    let args = format!(
        "--print-config --log error --config {}",
        file.path().display()
    );
    let env = [("POSTHORN_PREFIX", "env"), ("POSTHORN_LOG", "debug")];
    let (code, out, err) = outcome("end", &args, &env);
    assert_eq!(code, 0, "{err}");
    for line in [
        "log = \"error\"",
        "prefix = \"env\"",
        "connect_timeout = \"7s\"",
        "drain_timeout = \"25s\"",
    ] {
        assert!(out.contains(line), "no {line} in {out}");
    }
}

#[test]
fn the_file_may_be_named_by_the_environment() {
    let file = file("prefix = 'file'");
    let path = file.path().to_str().unwrap();
    let (code, out, _) = outcome("end", "--print-config", &[("POSTHORN_CONFIG", path)]);
    assert_eq!(code, 0);
    assert!(out.contains("prefix = \"file\""), "{out}");
}

#[test]
fn dlq_06_no_output_shows_a_secret() {
    let env = [
        ("POSTHORN_ADMIN_KEY", "s3cret"),
        ("POSTHORN_NATS_URL", "nats://u:s3cret@127.0.0.1:1"),
    ];
    for (args, expected) in [("--print-config", 0), ("--help", 0), ("--replicas 2", 64)] {
        let (code, out, err) = outcome("end", args, &env);
        assert_eq!(code, expected, "{args}: {err}");
        assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{args}");
    }
}

#[test]
fn unknown_flags_and_unknown_keys_exit_64_and_are_named() {
    let (code, _, err) = outcome("end", "--nats-ulr x", &[]);
    assert_eq!(code, 64);
    assert!(err.contains("--nats-ulr"), "{err}");
    let file = file("nats_ulr = 'x'");
    let path = file.path().display().to_string();
    let (code, _, err) = outcome("end", &format!("--config {path}"), &[]);
    assert_eq!(code, 64);
    assert!(err.contains("nats_ulr") && err.contains(&path), "{err}");
}

#[test]
fn an_error_is_printed_once_with_its_causes() {
    let (code, out, err) = outcome("unavailable", "--log-format json", &[]);
    assert_eq!(code, 69);
    assert_eq!(err.matches("connection refused").count(), 1, "{err}");
    assert!(!out.contains("refused"));
    let line: serde_json::Value = serde_json::from_str(err.lines().last().unwrap()).unwrap();
    let chain = "NATS is not reachable: connecting to the sample: connection refused";
    assert_eq!(line["error"], chain);
    assert_eq!(line["level"], "ERROR");
    let silent = outcome("unavailable", "--log off", &[]);
    let line = format!("posthorn-sample: {chain}");
    assert_eq!(silent.2.matches(&line).count(), 1, "{}", silent.2);
}

#[test]
fn a_panic_exits_70() {
    let (code, _, err) = outcome("panic", "", &[]);
    assert_eq!(code, 70);
    assert!(
        err.contains("internal failure: the service panicked"),
        "{err}"
    );
}

#[test]
fn http_14_a_provider_is_there_before_the_service_runs() {
    let (code, _, err) = outcome("provider", "", &[]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn ops_01_a_signal_lets_what_is_in_flight_finish() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut started = start("drain", "");
        started.signal(signal);
        started.wait_for("draining");
        started.finish();
        let (code, out, err, _) = started.end();
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("finished what was in flight"));
    }
}

#[test]
fn ops_01_what_does_not_finish_is_left_at_the_drain_timeout() {
    let mut started = start("leftover", "--drain-timeout 1s");
    started.signal(Signal::SIGTERM);
    let (code, _, err, took) = started.end();
    assert_eq!(code, 70);
    assert!(err.contains("tasks left: 1"), "{err}");
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(8),
        "{took:?}"
    );
}

#[test]
fn ops_01_a_second_signal_ends_the_wait() {
    let mut started = start("leftover", "--drain-timeout 10m");
    started.signal(Signal::SIGTERM);
    started.wait_for("stopping");
    started.signal(Signal::SIGTERM);
    let (code, _, _, took) = started.end();
    assert_eq!(code, 70);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn ops_01_a_service_that_does_not_listen_is_ended_all_the_same() {
    let mut started = start("deaf", "--drain-timeout 0s");
    started.signal(Signal::SIGTERM);
    let (code, _, err, took) = started.end();
    assert_eq!(code, 70);
    assert!(
        err.contains("did not stop within the drain timeout"),
        "{err}"
    );
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn ops_01_a_collector_that_hangs_does_not_use_up_the_grace_period() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let began = Instant::now();
    let (code, _, err) = outcome("end", "", &env);
    assert_eq!(code, 0, "{err}");
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    let hung = collector
        .set_nonblocking(true)
        .and_then(|()| collector.accept());
    assert!(hung.is_ok(), "the exporter never came");
}
