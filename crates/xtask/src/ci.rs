//! `cargo xtask ci`: the gate, one step after another, stopping at the first that fails.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::deny;
use crate::fuzz;
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
    if !timed(took, "licences, bans and sources", deny::run)? {
        return Ok(false);
    }
    if !timed(took, MODEL.name, || cargo(&MODEL))? {
        return Ok(false);
    }
    if !timed(took, TESTS.name, || cargo(&TESTS))? {
        return Ok(false);
    }
    // Last: the libraries that it leans on are then built.
    timed(took, "fuzz", || fuzz::run(&[]))
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
