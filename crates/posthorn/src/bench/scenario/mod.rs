//! `posthorn bench --scenario`: isolation and recovery, each property against its bar.
//!
//! The services are processes of their own, on a nats-server that is started for it; load and
//! receivers are in this process. A scenario that compares measures its baseline in the same
//! run, in the same way, before there is anything to be disturbed by.

mod api;
mod args;
mod beside;
mod burst;
mod child;
mod dead;
mod gauge;
mod idle;
mod lane_or_nak;
mod limit;
mod nak_loop;
mod neighbour;
mod queries;
mod quiet;
mod receiver;
mod recovery;
mod replay;
mod rig;
mod spot;
mod stats;
mod steering;
mod usage;
mod verdict;
mod workers;

pub(crate) use args::{Scenario, ScenarioArgs};
pub(crate) use verdict::Verdict;

use super::args::BenchArgs;
use crate::failure::Failure;
use std::time::Duration;

/// How often something is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// What a scenario is run with.
struct Plan<'a> {
    name: String,
    args: &'a ScenarioArgs,
    payload: u32,
    /// Events a second of a steady load.
    rate: u32,
}

/// Runs one.
///
/// # Errors
/// When a part does not start or what must happen does not; a missed bar is no error here.
pub(crate) async fn run(scenario: Scenario, args: &BenchArgs) -> Result<Verdict, Failure> {
    let plan = Plan {
        name: scenario.name(),
        args: &args.scenario,
        payload: args.payload,
        rate: args.rate,
    };
    match scenario {
        Scenario::Failing => neighbour::run(&plan, neighbour::Kind::Failing).await,
        Scenario::Hanging => neighbour::run(&plan, neighbour::Kind::Hanging).await,
        Scenario::ManyDown => neighbour::run(&plan, neighbour::Kind::Many).await,
        Scenario::Dead => dead::run(&plan).await,
        Scenario::Idle => idle::run(&plan).await,
        Scenario::Recovery => recovery::run(&plan).await,
        Scenario::RateLimit => limit::run(&plan).await,
        Scenario::RetryAfter => quiet::run(&plan).await,
        Scenario::Steering => steering::run(&plan).await,
        Scenario::Replay => replay::run(&plan).await,
        Scenario::Burst => burst::run(&plan).await,
        Scenario::LaneOrNak => lane_or_nak::run(&plan).await,
        Scenario::Queries => queries::run(&plan).await,
    }
}

impl Plan<'_> {
    fn queued(&self, default: u32) -> u32 {
        self.args.queued.unwrap_or(default)
    }

    fn samples(&self) -> u32 {
        self.args.samples.unwrap_or(3_000)
    }

    fn runs(&self) -> u32 {
        self.args.runs.unwrap_or(3)
    }

    fn dispatchers(&self, default: u32) -> u32 {
        self.args.dispatchers.unwrap_or(default)
    }

    fn duration(&self, default: u64) -> Duration {
        self.args
            .duration
            .unwrap_or_else(|| Duration::from_secs(default))
    }

    /// A rig with so many dispatchers.
    async fn rig(&self, dispatchers: u32) -> Result<rig::Rig, Failure> {
        rig::Rig::start(dispatchers, self.payload).await
    }
}

/// Looks again and again until it is so.
///
/// # Errors
/// When it is not within `limit`, or looking fails.
async fn until(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut every = tokio::time::interval(LOOK);
    let waiting = async {
        loop {
            every.tick().await;
            if look().await? {
                return Ok(());
            }
        }
    };
    let waited = tokio::time::timeout(limit, waiting).await;
    waited.unwrap_or_else(|_| {
        let seconds = limit.as_secs();
        Err(Failure::Internal(format!("after {seconds} s: not {what}")))
    })
}

/// Lets time go by. A scenario watches a system over a while; there is nothing to wait for.
async fn watch(span: Duration) {
    tokio::time::sleep(span).await;
}
