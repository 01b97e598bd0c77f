//! `cargo xtask fuzz [SECONDS [TARGET]]`: builds the fuzzer with coverage and runs its targets,
//! each for so long, as many at a time as there are cores.
//!
//! The engine is libFuzzer, on the stable toolchain: the instrumentation is an option of the
//! code generator (`.ci/rustc-covered`). What a run finds is kept under `target/fuzz` and is
//! where the next run begins; `crates/fuzz/corpus` is only read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::repository;

/// How long the gate runs each target, in seconds; [`SETTING`] says otherwise.
const SECONDS: u64 = 10;
const SETTING: &str = "POSTHORN_FUZZ_SECONDS";
/// No input is longer, in bytes: what has a bound of its own has a smaller one, or is bounded
/// by whoever reads the request.
const MAX_INPUT: &str = "4096";

/// One target and where its things are.
struct Job {
    name: String,
    seeds: PathBuf,
    home: PathBuf,
}

/// Runs the targets; `false` when one of them found something.
///
/// # Errors
/// When an argument is not one, or the fuzzer does not build or start.
pub fn run(arguments: &[&str]) -> Result<bool> {
    let (seconds, only) = match arguments {
        [] => (None, None),
        [seconds] => (Some(*seconds), None),
        [seconds, target] => (Some(*seconds), Some(*target)),
        _ => bail!("there are two arguments at most, seconds and a target"),
    };
    let seconds = match seconds {
        Some(text) => text.parse().context("the seconds are not a number")?,
        None => seconds_from(std::env::var(SETTING).ok().as_deref())?,
    };
    let root = repository::root();
    let jobs = jobs(&root, only)?;
    let program = build(&root)?;
    run_all(&jobs, &program, seconds)
}

/// # Errors
/// When the setting is no number.
fn seconds_from(setting: Option<&str>) -> Result<u64> {
    setting.map_or(Ok(SECONDS), |text| {
        text.parse()
            .with_context(|| format!("{SETTING} is not a number"))
    })
}

/// The folders of the corpus are the list of targets: a test of the fuzzer holds the two alike.
fn jobs(root: &Path, only: Option<&str>) -> Result<Vec<Job>> {
    let corpus = root.join("crates/fuzz/corpus");
    let mut names = BTreeSet::new();
    for folder in fs::read_dir(&corpus).context("the corpus cannot be read")? {
        names.insert(folder?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| only.is_none_or(|only| name == only));
    ensure!(!names.is_empty(), "there is no such target");
    let job = |name: String| Job {
        seeds: corpus.join(&name),
        home: root.join("target/fuzz").join(&name),
        name,
    };
    Ok(names.into_iter().map(job).collect())
}

/// Selected from the whole workspace, so that the libraries are built as the tests have them.
fn build(root: &Path) -> Result<PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--locked", "--workspace", "--bin", "posthorn-fuzz"])
        .args(["--features", "posthorn-fuzz/engine"])
        .env("RUSTC_WORKSPACE_WRAPPER", root.join(".ci/rustc-covered"))
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .context("cargo does not run")?;
    ensure!(status.success(), "the fuzzer does not build");
    Ok(root.join("target/debug/posthorn-fuzz"))
}

fn run_all(jobs: &[Job], program: &Path, seconds: u64) -> Result<bool> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_one(job, program, seconds);
                    outcomes
                        .lock()
                        .expect("whoever holds it only pushes")
                        .push((job, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("the threads have ended");
    let mut passed = true;
    let mut executions = 0;
    for (job, outcome) in outcomes {
        let log = fs::read_to_string(log_of(job)).unwrap_or_default();
        if outcome?.success() {
            executions += report(job, &log);
        } else {
            passed = false;
            println!("{}: FAILED\n{}", job.name, last_words(&log));
        }
    }
    println!("fuzz: {} targets, {executions} executions", jobs.len());
    Ok(passed)
}

fn run_one(job: &Job, program: &Path, seconds: u64) -> Result<ExitStatus> {
    let found = job.home.join("found");
    fs::create_dir_all(&found)?;
    let log = File::create(log_of(job))?;
    Command::new(program)
        .env("POSTHORN_FUZZ_TARGET", &job.name)
        .arg(&found)
        .arg(&job.seeds)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={MAX_INPUT}"))
        .arg(format!("-artifact_prefix={}/", job.home.display()))
        .args(["-timeout=5", "-rss_limit_mb=1024", "-print_final_stats=1"])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("the fuzzer does not start")
}

fn log_of(job: &Job) -> PathBuf {
    job.home.join("log")
}

fn report(job: &Job, log: &str) -> u64 {
    let executions = executions(log);
    println!("{:>12} executions  {}", executions, job.name);
    executions
}

/// What the engine counted, as its last lines say.
fn executions(log: &str) -> u64 {
    let count = log
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.map_or(0, |count| count.trim().parse().unwrap_or(0))
}

/// The panic, and where the input is that made it.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let start = panic.unwrap_or(lines.len().saturating_sub(20));
    let shown = lines[start..].iter().take(4);
    let input = lines.iter().filter(|line| line.contains("Test unit"));
    shown.chain(input).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_says_how_long() {
        assert_eq!(seconds_from(None).unwrap(), SECONDS);
        assert_eq!(seconds_from(Some("600")).unwrap(), 600);
        assert!(seconds_from(Some("long")).is_err());
    }

    #[test]
    fn every_folder_of_the_corpus_is_a_target() {
        let root = repository::root();
        assert_eq!(jobs(&root, None).unwrap().len(), 10);
        assert_eq!(jobs(&root, Some("wire")).unwrap().len(), 1);
        assert!(jobs(&root, Some("nothing")).is_err());
    }

    #[test]
    fn the_engines_words_are_read() {
        let log = "INFO: x\nstat::number_of_executed_units: 42\nstat::y: 1\n";
        assert_eq!(executions(log), 42);
        let log = "a\nthread '<unnamed>' panicked at a.rs:1:2:\nwhy\nb\nc\nd\nTest unit at x";
        assert!(last_words(log).starts_with("thread"));
        assert!(last_words(log).ends_with("Test unit at x"));
    }
}
