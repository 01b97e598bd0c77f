//! Which scenario, and how large.

use clap::{Args, ValueEnum};
use posthorn_runtime::config::duration_between;
use std::time::Duration;

/// What is shown of isolation and recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// A neighbour that answers 503 beside a healthy endpoint.
    Failing,
    /// A neighbour that hangs until its timeout beside a healthy endpoint.
    Hanging,
    /// Five hundred neighbours that are down at once beside a healthy endpoint.
    ManyDown,
    /// How many requests a dead endpoint gets.
    Dead,
    /// What a backlog costs while it waits.
    Idle,
    /// How a backlog is let go after an outage.
    Recovery,
    /// A rate limit over several dispatchers.
    RateLimit,
    /// A Retry-After in the middle of a backlog.
    RetryAfter,
    /// Pause, resume and a raised limit.
    Steering,
    /// A replay beside live traffic to the same endpoint.
    Replay,
    /// Whether an endpoint flows freely again after a burst over its cap.
    Burst,
    /// Holding deliveries in a lane, and by NAKing each of them.
    LaneOrNak,
    /// What a page of dead letters and of attempts costs among very many others.
    Queries,
}

/// What can be set; what is not is at the scenario's own default, which is its bar's.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scenarios")]
pub(crate) struct ScenarioArgs {
    /// Show one property of isolation or recovery instead of rates, against its bar; the exit
    /// code is 1 when a bar is missed.
    #[arg(long, value_enum, value_name = "NAME")]
    pub scenario: Option<Scenario>,

    /// Deliveries that wait.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queued: Option<u32>,

    /// Latencies that are measured, before and meanwhile.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub samples: Option<u32>,

    /// Runs, of which the median counts.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9))]
    pub runs: Option<u32>,

    /// Dispatchers, each a process.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub dispatchers: Option<u32>,

    /// Attempts in the log, beside the dead letters that `--queued` says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub attempts: Option<u32>,

    /// Endpoints that are down.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub down: Option<u32>,

    /// Letters a second that a replay is asked for.
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replay_rate: Option<u32>,

    /// How long the outage, the idle time, the quiet or the watching is.
    #[arg(long = "for", value_name = "DURATION",
        value_parser = duration_between(Duration::from_secs(1), Duration::from_secs(86_400)))]
    pub duration: Option<Duration>,
}

impl Scenario {
    /// As it is typed.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
