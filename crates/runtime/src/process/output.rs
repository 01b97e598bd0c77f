//! The few things a process prints itself: help, the checked or printed configuration, and the
//! error it ends with.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is asked for belongs on stdout, and the last error on stderr"
)]

use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use crate::clock;
use crate::config::{self, ConfigError, LogFormat};
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
        Err(error) => failure(name, LogFormat::Text, &ExitError::internal(error)),
    }
}

/// The error and its causes, once, in the form of the log but whatever its filter says: a process
/// that ends without a word is the hardest to help.
pub(super) fn failure(name: &str, format: LogFormat, error: &ExitError) -> ExitCode {
    match format {
        LogFormat::Text => eprintln!("{name}: {}", error.chain()),
        LogFormat::Json => eprintln!("{}", log_line(name, error)),
    }
    error.kind().into()
}

fn log_line(name: &str, error: &ExitError) -> serde_json::Value {
    let now = u64::try_from(clock::now_unix_millis()).unwrap_or_default();
    let now = UNIX_EPOCH + Duration::from_millis(now);
    serde_json::json!({
        "timestamp": humantime::format_rfc3339_millis(now).to_string(),
        "level": "ERROR",
        "target": name,
        "message": "stopped",
        "error": error.chain(),
    })
}
