//! The few things a process prints itself: help, the checked or printed configuration, and the
//! error it ends with.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is asked for belongs on stdout, and an error before telemetry on stderr"
)]

use std::process::ExitCode;

use serde::Serialize;

use crate::config::{self, ConfigError};
use crate::error::ExitError;

/// Help or version, as it was asked for.
pub(super) fn information(text: &ConfigError) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}

/// One line on stdout.
pub(super) fn line(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// The effective configuration on stdout.
pub(super) fn effective<C: Serialize>(name: &str, config: &C) -> ExitCode {
    match config::to_toml(config) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => failure(name, &ExitError::internal(error)),
    }
}

/// The error and its causes, once: as a log line where there is a log, else as plain text.
pub(super) fn failure(name: &str, error: &ExitError) -> ExitCode {
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(error = error.chain(), "stopped");
    } else {
        eprintln!("{name}: {}", error.chain());
    }
    error.kind().into()
}
