//! The scheduler's settings.

use clap::Parser;
use posthorn_runtime::ServiceConfig;
use posthorn_runtime::config::{
    NatsArgs, ProcessArgs, RetentionArgs, as_duration_text, duration_between,
};
use serde::Serialize;
use std::time::Duration;

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

    /// Operators are told of an endpoint whose breaker has not been closed for so long.
    #[arg(long, env = "POSTHORN_ALARM_FAILING_AFTER", default_value = "1h", value_name = "DURATION",
        value_parser = duration_between(Duration::from_secs(1), Duration::from_secs(365 * 86_400)))]
    #[serde(serialize_with = "as_duration_text")]
    pub alarm_failing_after: Duration,

    /// Operators are told when what is due has not been sent for so long, once an hour.
    #[arg(long, env = "POSTHORN_ALARM_LATE_AFTER", default_value = "5m", value_name = "DURATION",
        value_parser = duration_between(Duration::from_secs(1), Duration::from_secs(86_400)))]
    #[serde(serialize_with = "as_duration_text")]
    pub alarm_late_after: Duration,

    /// Operators are told when there are so many more dead letters than half an hour ago, once
    /// an hour.
    #[arg(long, env = "POSTHORN_ALARM_DLQ_GROWTH", default_value_t = 1_000, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub alarm_dlq_growth: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            release_rate: 500,
            fanout_concurrency: 256,
            release_concurrency: 2_048,
            lane_concurrency: 4_096,
            alarm_failing_after: Duration::from_secs(3_600),
            alarm_late_after: Duration::from_secs(300),
            alarm_dlq_growth: 1_000,
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
