//! The scheduler's settings.

use clap::Parser;
use posthorn_runtime::ServiceConfig;
use posthorn_runtime::config::{NatsArgs, ProcessArgs, RetentionArgs};
use serde::Serialize;

/// What is the scheduler's own.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args, Serialize)]
#[command(next_help_heading = "Scheduler")]
pub struct Settings {
    /// Overdue deliveries released a second, by each scheduler, after an outage.
    #[arg(long, env = "POSTHORN_RELEASE_RATE", default_value_t = 500, value_name = "PER_SECOND",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub release_rate: u32,

    /// Events fanned out at the same time.
    #[arg(long, env = "POSTHORN_FANOUT_CONCURRENCY", default_value_t = 256, value_name = "N",
        value_parser = parse_concurrency)]
    pub fanout_concurrency: usize,

    /// Due deliveries released at the same time.
    #[arg(long, env = "POSTHORN_RELEASE_CONCURRENCY", default_value_t = 2_048, value_name = "N",
        value_parser = parse_concurrency)]
    pub release_concurrency: usize,

    /// Lanes worked on at the same time. One that only waits does not count.
    #[arg(long, env = "POSTHORN_LANE_CONCURRENCY", default_value_t = 4_096, value_name = "N",
        value_parser = parse_concurrency)]
    pub lane_concurrency: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            release_rate: 500,
            fanout_concurrency: 256,
            release_concurrency: 2_048,
            lane_concurrency: 4_096,
        }
    }
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=65_536) => Ok(n),
        _ => Err("must be from 1 to 65536".to_owned()),
    }
}

/// The configuration of `posthorn-scheduler`.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(
    name = "posthorn-scheduler",
    version,
    about = "Fans events out and releases retries when they are due"
)]
pub struct Config {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) nats: NatsArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) retention: RetentionArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) settings: Settings,
}

impl ServiceConfig for Config {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.nats.validate()?;
        self.retention.validate()
    }
}
