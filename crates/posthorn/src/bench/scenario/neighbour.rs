//! A healthy endpoint beside one, or many, of other tenants that are in trouble.

use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Behaviour, Spot};
use super::stats::{Latencies, median};
use super::{Plan, Verdict, until};
use crate::failure::Failure;
use axum::http::StatusCode;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::StreamName;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const HEALTHY: &str = "healthy";
/// Events before the baseline: connections are made, code is paged in.
const WARM_UP: u32 = 250;
const ARRIVED: Duration = Duration::from_secs(60);
/// The neighbour's own cap, as the product has it where nothing is said.
const MAX_IN_FLIGHT: u64 = 32;
/// Tenants that share many endpoints which are down.
const TENANTS: u32 = 50;
/// Endpoints are made so many at a time.
const MADE_AT_ONCE: usize = 16;

/// What the neighbour does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It answers 503.
    Failing,
    /// It hangs until its timeout.
    Hanging,
    /// They are many, and answer 503.
    Many,
}

/// Latencies of one run.
struct Run {
    baseline: Latencies,
    beside: Latencies,
    /// The same by tenth of the samples.
    slices: Vec<Latencies>,
    requests: usize,
    most_open: u64,
    most_connections: u64,
    /// Deliveries on their way to dispatchers when the samples began.
    on_their_way: u64,
    left: u64,
    wanted: u64,
}

/// Runs it.
///
/// # Errors
/// When a part does not start, or the healthy endpoint's events do not arrive.
pub(crate) async fn run(plan: &Plan<'_>, kind: Kind) -> Result<Verdict, Failure> {
    let dispatchers = plan.dispatchers(if kind == Kind::Hanging { 3 } else { 1 });
    let shape = Shape::of(plan, kind);
    let settings = vec![
        ("queued", shape.queued().to_string()),
        ("endpoints in trouble", shape.endpoints.to_string()),
        ("samples", plan.samples().to_string()),
        ("events a second", plan.rate.to_string()),
        ("dispatchers", dispatchers.to_string()),
        ("runs", plan.runs().to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let mut runs = Vec::new();
    for _ in 0..plan.runs() {
        let rig = plan.rig(dispatchers).await?;
        runs.push(one(plan, kind, &shape, &rig).await?);
        rig.stop().await?;
    }
    judge(&mut verdict, kind, &runs);
    Ok(verdict)
}

/// How large the trouble is.
struct Shape {
    tenants: u32,
    endpoints: u32,
    /// Events of each tenant.
    events: u32,
}

impl Shape {
    fn of(plan: &Plan<'_>, kind: Kind) -> Shape {
        match kind {
            Kind::Failing | Kind::Hanging => Shape {
                tenants: 1,
                endpoints: 1,
                events: plan.queued(40_000),
            },
            Kind::Many => {
                let endpoints = plan.args.down.unwrap_or(500);
                Shape {
                    tenants: TENANTS.min(endpoints),
                    endpoints,
                    events: plan.queued(200),
                }
            }
        }
    }

    fn queued(&self) -> u64 {
        u64::from(self.endpoints) * u64::from(self.events)
    }

    fn tenant(&self, n: u32) -> String {
        format!("trouble-{}", n % self.tenants)
    }
}

async fn one(plan: &Plan<'_>, kind: Kind, shape: &Shape, rig: &Rig) -> Result<Run, Failure> {
    let receiver = Receiver::start(rig.clock)?;
    let at_once = Behaviour::Answer(StatusCode::OK, Duration::ZERO);
    let healthy = receiver.spot(HEALTHY, at_once);
    let document = json!({ "url": receiver.url(HEALTHY) });
    rig.api.endpoint(HEALTHY, document).await?;
    sample(plan, rig, &healthy, WARM_UP.min(plan.samples())).await?;
    let baseline = sample(plan, rig, &healthy, plan.samples()).await?;

    let neighbour = Receiver::start(rig.clock)?;
    let trouble = match kind {
        Kind::Hanging => Behaviour::Hang,
        Kind::Failing | Kind::Many => {
            Behaviour::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO)
        }
    };
    let spot = neighbour.spot("down", trouble);
    let url = neighbour.url("down");
    futures_util::stream::iter(0..shape.endpoints)
        .map(|n| {
            let document = json!({ "url": url });
            async move { rig.api.endpoint(&shape.tenant(n), document).await }
        })
        .buffer_unordered(MADE_AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    for tenant in 0..shape.tenants {
        rig.load(&shape.tenant(tenant))?.burst(shape.events).await?;
    }
    rig.taken_in().await?;
    let on_their_way = rig.messages(StreamName::Deliveries).await?;
    let beside = sample(plan, rig, &healthy, plan.samples()).await?;
    let mut arrivals = healthy.arrivals();
    arrivals.sort_by_key(|arrival| arrival.sent);
    let tenth = arrivals.len().div_ceil(10).max(1);
    let slices = arrivals.chunks(tenth).map(Latencies::of).collect();
    let wanted = shape.queued();
    let waiting = [
        StreamName::Lanes,
        StreamName::Deliveries,
        StreamName::Retries,
    ];
    let mut left = 0;
    for stream in waiting {
        left += rig.messages(stream).await?;
    }
    Ok(Run {
        baseline,
        beside,
        slices,
        requests: spot.count(),
        most_open: spot.most_open(),
        most_connections: neighbour.most_connections(),
        on_their_way,
        left,
        wanted,
    })
}

/// Sends so many events at the steady rate, and waits until all have arrived.
async fn sample(
    plan: &Plan<'_>,
    rig: &Rig,
    spot: &Arc<Spot>,
    count: u32,
) -> Result<Latencies, Failure> {
    spot.clear();
    rig.load(HEALTHY)?.steady(plan.rate, count).await?;
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    until(ARRIVED, "every healthy event has arrived", async || {
        Ok(spot.count() >= wanted)
    })
    .await?;
    Ok(Latencies::of(&spot.arrivals()))
}

fn judge(verdict: &mut Verdict, kind: Kind, runs: &[Run]) {
    latencies(verdict, runs);
    let least = runs.iter().map(|run| run.left).min().unwrap_or(0);
    let wanted = runs.first().map_or(0, |run| run.wanted);
    // What it was asked to hold, less what its first requests were for.
    let still = least + 1_000 >= wanted || least * 10 >= wanted * 9;
    verdict.check(
        "still waiting at the end",
        format!("nearly all of {wanted}"),
        least.to_string(),
        still,
    );
    let most = |figure: fn(&Run) -> u64| runs.iter().map(figure).max().unwrap_or(0);
    let (open, connections) = (most(|run| run.most_open), most(|run| run.most_connections));
    if kind == Kind::Hanging {
        let bar = format!("at most {MAX_IN_FLIGHT}");
        let kept = |seen: u64| seen <= MAX_IN_FLIGHT;
        verdict.check(
            "requests in flight to the neighbour",
            &bar,
            open.to_string(),
            kept(open),
        );
        verdict.check(
            "connections of the neighbour",
            &bar,
            connections.to_string(),
            kept(connections),
        );
    }
    let requests: Vec<String> = runs.iter().map(|run| run.requests.to_string()).collect();
    verdict.figure("requests to the neighbour", requests.join(", "));
    let on_their_way: Vec<u64> = runs.iter().map(|run| run.on_their_way).collect();
    verdict.figure(
        "on their way when the samples began",
        format!("{on_their_way:?}"),
    );
}

fn latencies(verdict: &mut Verdict, runs: &[Run]) {
    for (name, share, slack) in [("p50", 0.5, 0.5), ("p99", 0.99, 2.0)] {
        let of = |latencies: &Latencies| latencies.quantile(share);
        let over = median(runs.iter().map(|run| {
            let limit = of(&run.baseline) * 1.2 + slack;
            of(&run.beside) - limit
        }));
        let seen: Vec<String> = runs
            .iter()
            .map(|run| format!("{:.2} -> {:.2}", of(&run.baseline), of(&run.beside)))
            .collect();
        verdict.check(
            format!("healthy {name}, baseline -> beside, ms"),
            format!("1.2 times + {slack} ms (median run)"),
            format!("{} (median {over:+.2} to the bar)", seen.join(", ")),
            over <= 0.0,
        );
    }
    let worst: Vec<String> = runs
        .iter()
        .map(|run| {
            let (baseline, beside) = (&run.baseline, &run.beside);
            format!(
                "{:.1} -> {:.1}",
                baseline.quantile(1.0),
                beside.quantile(1.0)
            )
        })
        .collect();
    verdict.figure("healthy maximum, ms", worst.join(", "));
    for (n, run) in runs.iter().enumerate() {
        let slices: Vec<String> = run
            .slices
            .iter()
            .map(|slice| format!("{:.1}/{:.0}", slice.quantile(0.5), slice.quantile(0.99)))
            .collect();
        verdict.figure(
            format!("run {}: p50/p99 by tenth of the samples, ms", n + 1),
            slices.join(" "),
        );
    }
    let samples: Vec<String> = runs
        .iter()
        .map(|run| run.beside.len().to_string())
        .collect();
    verdict.figure("samples beside", samples.join(", "));
}
