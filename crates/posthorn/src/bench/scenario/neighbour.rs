//! A healthy endpoint beside one, or many, of other tenants that are in trouble.

use super::beside::{Run, judge};
use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Behaviour, Spot};
use super::stats::Latencies;
use super::{Plan, Verdict, until, watch};
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
/// However much it is, it is in its lanes within so long.
const CAME_IN: Duration = Duration::from_secs(300);
const ARRIVED: Duration = Duration::from_secs(60);
/// The neighbour's own cap, as the product has it where nothing is said.
pub(super) const MAX_IN_FLIGHT: u64 = 32;
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
    judge(&mut verdict, kind == Kind::Hanging, &runs);
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
    let meanwhile = come_in(plan, shape, rig, &healthy).await?;
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
        meanwhile: meanwhile.0,
        came_in: meanwhile.1,
        left,
        wanted,
    })
}

/// Publishes what is to be in trouble, and waits until it is where it waits: fanned out, and no
/// more on its way to dispatchers than is in their hands. The healthy endpoint's events go on.
async fn come_in(
    plan: &Plan<'_>,
    shape: &Shape,
    rig: &Rig,
    healthy: &Arc<Spot>,
) -> Result<(Latencies, Duration), Failure> {
    healthy.clear();
    let begin = rig.clock.now();
    let trouble = async {
        for tenant in 0..shape.tenants {
            rig.load(&shape.tenant(tenant))?.burst(shape.events).await?;
        }
        rig.taken_in().await?;
        let in_hand = MAX_IN_FLIGHT + 2 * u64::from(shape.endpoints);
        until(CAME_IN, "the trouble is in its lanes", async || {
            Ok(rig.messages(StreamName::Deliveries).await? <= in_hand)
        })
        .await
    };
    let mut load = rig.load(HEALTHY)?;
    let (step, mut sent) = ((plan.rate / 10).max(1), 0);
    tokio::pin!(trouble);
    let mut came_in = None;
    while came_in.is_none() {
        let (published, ()) = tokio::join!(load.steady(plan.rate, step), async {
            tokio::select! {
                result = &mut trouble => came_in = Some(result),
                () = watch(Duration::from_secs(1) * step / plan.rate.max(1)) => {}
            }
        });
        published?;
        sent += usize::try_from(step).unwrap_or(0);
    }
    came_in.transpose()?;
    let took = Duration::from_nanos(rig.clock.now() - begin);
    until(ARRIVED, "every healthy event has arrived", async || {
        Ok(healthy.count() >= sent)
    })
    .await?;
    Ok((Latencies::of(&healthy.arrivals()), took))
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
