//! What every process is told about itself: where to log, where to be probed, how long to drain.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::values::{as_duration_text, duration_between};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// The settings of every process.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// A TOML file of flat keys, named like the flags with underscores.
    #[arg(long, env = "POSTHORN_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Check the configuration and exit.
    #[arg(long)]
    #[serde(skip)]
    pub check_config: bool,

    /// Print the effective configuration, secrets redacted, and exit.
    #[arg(long)]
    #[serde(skip)]
    pub print_config: bool,

    /// Where /livez, /readyz and /metrics are served; the default is the service's own port.
    #[arg(long, env = "POSTHORN_OPS_LISTEN", value_name = "ADDRESS")]
    pub ops_listen: Option<SocketAddr>,

    /// What is logged: a level, or directives like `info,posthorn_dispatcher=debug`.
    #[arg(
        long,
        env = "POSTHORN_LOG",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log: String,

    /// How log lines are written.
    #[arg(long, env = "POSTHORN_LOG_FORMAT", default_value = "text", value_enum)]
    pub log_format: LogFormat,

    /// How long what is in flight may take to end after SIGTERM; keep it under the grace period.
    #[arg(long, env = "POSTHORN_DRAIN_TIMEOUT", default_value = "25s", value_name = "DURATION",
        value_parser = duration_between(Duration::ZERO, Duration::from_hours(1)))]
    #[serde(serialize_with = "as_duration_text")]
    pub drain_timeout: Duration,
}

impl ProcessArgs {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// When the log filter cannot be read.
    pub fn validate(&self) -> Result<(), String> {
        crate::telemetry::check_filter(&self.log).map_err(|error| error.to_string())
    }
}

impl Default for ProcessArgs {
    /// The documented defaults, whatever the environment says.
    fn default() -> Self {
        Self {
            config: None,
            check_config: false,
            print_config: false,
            ops_listen: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            drain_timeout: Duration::from_secs(25),
        }
    }
}
