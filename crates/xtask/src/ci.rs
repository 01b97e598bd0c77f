//! `cargo xtask ci`: the gate, one step after another, stopping at the first that fails.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::repository;
use crate::structure;

/// One step of the gate.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const FORMAT: Step = Step {
    name: "format",
    arguments: &["fmt", "--all", "--check"],
    environment: &[],
};
const CLIPPY: Step = Step {
    name: "clippy",
    arguments: &[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ],
    environment: &[],
};
const DOCS: Step = Step {
    name: "docs",
    arguments: &["doc", "--workspace", "--no-deps", "--locked"],
    environment: &[("RUSTDOCFLAGS", "-D warnings")],
};
/// Advisories are not part of the gate: what somebody publishes tonight must not turn a change
/// red that was green this morning, and asking needs the network.
const DENY: Step = Step {
    name: "licences, bans and sources",
    arguments: &[
        "deny",
        "--workspace",
        "check",
        "bans",
        "licenses",
        "sources",
    ],
    environment: &[],
};
/// Optimised, because it walks through tens of millions of states; its dependencies are few.
const MODEL: Step = Step {
    name: "model of the line",
    arguments: &[
        "run",
        "--release",
        "--locked",
        "--package",
        "posthorn-model",
    ],
    environment: &[],
};
const TESTS: Step = Step {
    name: "tests",
    arguments: &["test", "--workspace"],
    environment: &[],
};

/// Runs the gate; `false` when a step failed.
///
/// # Errors
/// When a step cannot be started.
pub fn run() -> Result<bool> {
    let mut took = Vec::new();
    let passed = run_steps(&mut took)?;
    println!();
    for (name, duration) in took {
        println!("{:>8.1} s  {name}", duration.as_secs_f64());
    }
    println!("ci: {}", if passed { "passed" } else { "FAILED" });
    Ok(passed)
}

fn run_steps(took: &mut Vec<(&'static str, Duration)>) -> Result<bool> {
    if !timed(took, FORMAT.name, || cargo(&FORMAT))? {
        return Ok(false);
    }
    if !timed(took, "structure", structure::run)? {
        return Ok(false);
    }
    for step in [CLIPPY, DOCS] {
        if !timed(took, step.name, || cargo(&step))? {
            return Ok(false);
        }
    }
    if !has_cargo_deny() {
        println!("==> {}: skipped, cargo-deny is not installed", DENY.name);
    } else if !timed(took, DENY.name, || cargo(&DENY))? {
        return Ok(false);
    }
    if !timed(took, MODEL.name, || cargo(&MODEL))? {
        return Ok(false);
    }
    timed(took, TESTS.name, || cargo(&TESTS))
}

fn timed(
    took: &mut Vec<(&'static str, Duration)>,
    name: &'static str,
    step: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    println!("==> {name}");
    let started = Instant::now();
    let passed = step()?;
    let duration = started.elapsed();
    let verdict = if passed { "passed" } else { "FAILED" };
    println!(
        "<== {name}: {verdict} after {:.1} s",
        duration.as_secs_f64()
    );
    took.push((name, duration));
    Ok(passed)
}

fn cargo(step: &Step) -> Result<bool> {
    let status = Command::new("cargo")
        .args(step.arguments)
        .envs(step.environment.iter().copied())
        .current_dir(repository::root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("the step {} cannot be started", step.name))?;
    Ok(status.success())
}

fn has_cargo_deny() -> bool {
    let quiet = Command::new("cargo")
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_is_told_and_timed() {
        let mut took = Vec::new();
        assert!(!timed(&mut took, "broken", || Ok(false)).unwrap());
        assert_eq!(took.len(), 1);
    }

    #[test]
    fn cargo_s_answer_is_the_steps() {
        let version = Step {
            name: "version",
            arguments: &["--version"],
            environment: &[],
        };
        assert!(cargo(&version).unwrap());
    }

    #[test]
    fn the_tests_step_is_what_the_readme_tells_people_to_run() {
        assert_eq!(TESTS.arguments.join(" "), "test --workspace");
    }
}
