//! Dead letters are sent again to an endpoint that has live traffic.

use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Arrival, Behaviour, Spot};
use super::stats::{Latencies, median, nanos};
use super::{Plan, Verdict, until};
use crate::bench::load::Load;
use crate::failure::Failure;
use axum::http::StatusCode;
use posthorn_broker::StreamName;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const TENANT: &str = "replayed";
const WARM_UP: u32 = 250;
/// Ten times what a replay gets where nothing is said.
const PER_SECOND: u32 = 500;
/// Each answer takes so long, or there would be nothing in flight to be in the way.
const AFTER: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(300);

/// One run.
struct Run {
    baseline: Latencies,
    beside: Latencies,
    took: Duration,
    replayed: usize,
}

/// Runs it.
///
/// # Errors
/// When a part does not start, or not everything arrives.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let letters = plan.queued(10_000);
    let per_second = plan.args.replay_rate.unwrap_or(PER_SECOND);
    let dispatchers = plan.dispatchers(1);
    let settings = vec![
        ("letters", letters.to_string()),
        ("asked a second", per_second.to_string()),
        ("samples of the baseline", plan.samples().to_string()),
        ("live events a second", plan.rate.to_string()),
        ("each answer after", format!("{AFTER:?}")),
        ("dispatchers", dispatchers.to_string()),
        ("runs", plan.runs().to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let mut runs = Vec::new();
    for _ in 0..plan.runs() {
        let rig = plan.rig(dispatchers).await?;
        runs.push(one(plan, &rig, letters, per_second).await?);
        rig.stop().await?;
    }
    judge(&mut verdict, letters, &runs);
    Ok(verdict)
}

async fn one(plan: &Plan<'_>, rig: &Rig, letters: u32, per_second: u32) -> Result<Run, Failure> {
    let receiver = Receiver::start(rig.clock)?;
    let refuses = Behaviour::Answer(StatusCode::BAD_REQUEST, Duration::ZERO);
    let spot = receiver.spot("hook", refuses);
    rig.api
        .endpoint(TENANT, json!({ "url": receiver.url("hook") }))
        .await?;
    let mut load = rig.load(TENANT)?;
    load.burst(letters).await?;
    let dead = u64::from(letters);
    until(LIMIT, "every letter is there", async || {
        Ok(rig.messages(StreamName::Dlq).await? >= dead)
    })
    .await?;
    until(LIMIT, "the lane of the burst is closed", async || {
        Ok(rig.messages(StreamName::Tokens).await? == 0)
    })
    .await?;
    spot.behave(Behaviour::Answer(StatusCode::OK, AFTER));
    live(plan, &spot, &mut load, WARM_UP.min(plan.samples())).await?;
    live(plan, &spot, &mut load, plan.samples()).await?;
    let baseline = Latencies::of(&spot.arrivals());

    spot.clear();
    let since = rig.clock.now();
    rig.api.replay(TENANT, per_second).await?;
    let limit = nanos(LIMIT);
    // Live traffic for as long as the replay goes on, by slices of a second.
    let mut sent = 0;
    while replayed(&spot, since) < usize::try_from(letters).unwrap_or(usize::MAX)
        && rig.clock.now() - since < limit
    {
        load.steady(plan.rate, plan.rate).await?;
        sent += usize::try_from(plan.rate).unwrap_or(0);
    }
    until(LIMIT, "every live event has arrived", async || {
        Ok(spot.count() - replayed(&spot, since) >= sent)
    })
    .await?;
    let arrivals = spot.arrivals();
    let (live, replayed): (Vec<_>, Vec<_>) = arrivals
        .into_iter()
        .partition(|arrival| !is_replayed(arrival, since));
    let end = replayed.last().map_or(since, |arrival| arrival.at);
    let meanwhile: Vec<_> = live
        .into_iter()
        .filter(|arrival| arrival.at <= end || replayed.is_empty())
        .collect();
    Ok(Run {
        baseline,
        beside: Latencies::of(&meanwhile),
        took: Duration::from_nanos(end - since),
        replayed: replayed.len(),
    })
}

/// A letter's payload was stamped before the replay began.
fn is_replayed(arrival: &Arrival, since: u64) -> bool {
    arrival.sent.is_some_and(|sent| sent < since)
}

fn replayed(spot: &Spot, since: u64) -> usize {
    let arrivals = spot.arrivals();
    arrivals.iter().filter(|a| is_replayed(a, since)).count()
}

/// So much live traffic, and nothing else.
async fn live(
    plan: &Plan<'_>,
    spot: &Arc<Spot>,
    load: &mut Load,
    count: u32,
) -> Result<(), Failure> {
    spot.clear();
    load.steady(plan.rate, count).await?;
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    until(LIMIT, "every live event has arrived", async || {
        Ok(spot.count() >= wanted)
    })
    .await
}

fn judge(verdict: &mut Verdict, letters: u32, runs: &[Run]) {
    let p99 = |latencies: &Latencies| latencies.quantile(0.99);
    let over = median(
        runs.iter()
            .map(|run| p99(&run.beside) - p99(&run.baseline) * 1.2 - 2.0),
    );
    let pairs = |share: f64| {
        let pair = |run: &Run| {
            let (baseline, beside) = (&run.baseline, &run.beside);
            format!(
                "{:.2} -> {:.2}",
                baseline.quantile(share),
                beside.quantile(share)
            )
        };
        runs.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    verdict.check(
        "live p99, baseline -> beside the replay, ms",
        "1.2 times + 2 ms (median run)",
        format!("{} (median {over:+.2} to the bar)", pairs(0.99)),
        over <= 0.0,
    );
    let replayed: Vec<usize> = runs.iter().map(|run| run.replayed).collect();
    let wanted = usize::try_from(letters).unwrap_or(usize::MAX);
    verdict.check(
        "letters that arrived",
        letters.to_string(),
        format!("{replayed:?}"),
        replayed.iter().all(|count| *count == wanted),
    );
    verdict.figure("live p50, ms", pairs(0.5));
    let took: Vec<u64> = runs.iter().map(|run| run.took.as_secs()).collect();
    verdict.figure("the replay took, s", format!("{took:?}"));
    let samples: Vec<usize> = runs.iter().map(|run| run.beside.len()).collect();
    verdict.figure("live samples meanwhile", format!("{samples:?}"));
}
