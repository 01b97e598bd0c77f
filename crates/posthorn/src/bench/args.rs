//! What is measured.

use super::scenario::ScenarioArgs;
use clap::Args;

/// The smallest payload: it holds the time it was sent at.
const MIN_PAYLOAD: u32 = 64;
const MAX_PAYLOAD: u32 = 256 * 1024;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArgs {
    /// Endpoints that every event goes to.
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub endpoints: u32,

    /// Events; each is as many deliveries as there are endpoints.
    #[arg(long, default_value_t = 20_000, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub events: u32,

    /// Bytes of a payload.
    #[arg(long, default_value_t = 1_024, value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(i64::from(MIN_PAYLOAD)..=i64::from(MAX_PAYLOAD)))]
    pub payload: u32,

    /// HTTP requests in flight.
    #[arg(long, default_value_t = 256, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub concurrency: u32,

    /// Publishes in flight.
    #[arg(long, default_value_t = 64, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub publishers: u32,

    /// Events a second while the latency is measured.
    #[arg(long, default_value_t = 50, value_name = "PER_SECOND",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,

    /// How many seconds the latency is measured.
    #[arg(long, default_value_t = 10, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,

    #[command(flatten)]
    pub scenario: ScenarioArgs,
}

impl BenchArgs {
    /// Deliveries that the events make.
    pub fn deliveries(&self) -> u64 {
        u64::from(self.events) * u64::from(self.endpoints)
    }

    /// HTTP requests in flight, as a count.
    pub fn permits(&self) -> usize {
        usize::try_from(self.concurrency).unwrap_or(1)
    }

    /// Publishes in flight, as a count.
    pub fn pipelined(&self) -> usize {
        usize::try_from(self.publishers).unwrap_or(1)
    }
}
