//! Holding the deliveries of a dead endpoint in a lane, and by NAKing each of them.
//!
//! Both hold the same for several cooldowns, beside the same trickle of fresh messages, and both
//! are measured first with nothing to hold: what holding costs is the difference. In a lane the
//! services of the product hold; by NAK it is a bare loop in this process, on the product's own
//! work-queue consumer for what waits, with every service stopped.

use super::nak_loop::{NakLoop, put};
use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Behaviour, Spot};
use super::stats::Latencies;
use super::usage::Usage;
use super::{Plan, Verdict, until, watch};
use crate::bench::fill::{delivery_of, endpoint_id};
use crate::bench::report::to_f64;
use crate::failure::Failure;
use axum::http::StatusCode;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::StreamName;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const COOLDOWN: Duration = Duration::from_secs(5);
const SETTLE: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(300);
const PUT_AT_ONCE: usize = 256;
/// Fresh deliveries are told from held ones by their endpoint.
const DEAD: u64 = 1;
const FRESH: u64 = 2;
/// Event ids of fresh deliveries begin here, those of held ones at 0.
const FRESH_IDS: u128 = 1 << 64;

/// What one stretch of time cost.
struct Cost {
    nats_server: f64,
    holder: f64,
    messages: f64,
    fresh: Latencies,
}

/// One figure of it.
type Figure = fn(&Cost) -> f64;

/// With nothing to hold, and while holding.
struct Pair {
    without: Cost,
    holding: Cost,
}

/// Runs it.
///
/// # Errors
/// When a part does not start, or what is to be held is not.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, span) = (plan.queued(40_000), plan.duration(30));
    let settings = vec![
        ("held", queued.to_string()),
        ("cooldown", format!("{COOLDOWN:?}")),
        ("for", format!("{} s", span.as_secs())),
        ("fresh messages a second", plan.rate.to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let lane = by_lane(plan, queued, span).await?;
    let (nak, naked) = by_nak(plan, queued, span).await?;
    judge(&mut verdict, span, &lane, &nak, naked);
    Ok(verdict)
}

async fn by_lane(plan: &Plan<'_>, queued: u32, span: Duration) -> Result<Pair, Failure> {
    let rig = plan.rig(plan.dispatchers(1)).await?;
    let receiver = Receiver::start(rig.clock)?;
    let fresh = receiver.spot("fresh", Behaviour::Answer(StatusCode::OK, Duration::ZERO));
    let down = Behaviour::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO);
    receiver.spot("down", down);
    let document = json!({ "url": receiver.url("fresh") });
    rig.api.endpoint("fresh", document).await?;
    fresh_events(plan, &rig, &fresh, Duration::from_secs(5)).await?;
    let without = cost(
        &rig,
        span,
        || rig.services(),
        async || fresh_events(plan, &rig, &fresh, span).await,
    )
    .await?;
    let cooldown = format!("{}s", COOLDOWN.as_secs());
    let document = json!({
        "url": receiver.url("down"),
        "breaker": { "cooldown": cooldown, "max_cooldown": cooldown },
    });
    rig.api.endpoint("down", document).await?;
    rig.load("down")?.burst(queued).await?;
    rig.taken_in().await?;
    let wanted = u64::from(queued) * 99 / 100;
    until(LIMIT, "everything lies in the lane", async || {
        Ok(rig.messages(StreamName::Lanes).await? >= wanted)
    })
    .await?;
    watch(SETTLE).await;
    let holding = cost(
        &rig,
        span,
        || rig.services(),
        async || fresh_events(plan, &rig, &fresh, span).await,
    )
    .await?;
    rig.stop().await?;
    Ok(Pair { without, holding })
}

/// Sends a trickle through the whole line; from publishing to arrival.
async fn fresh_events(
    plan: &Plan<'_>,
    rig: &Rig,
    spot: &Arc<Spot>,
    span: Duration,
) -> Result<Latencies, Failure> {
    spot.clear();
    let count = trickle(plan, span);
    rig.load("fresh")?.steady(plan.rate, count).await?;
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    until(LIMIT, "every fresh event has arrived", async || {
        Ok(spot.count() >= wanted)
    })
    .await?;
    Ok(Latencies::of(&spot.arrivals()))
}

async fn by_nak(plan: &Plan<'_>, queued: u32, span: Duration) -> Result<(Pair, u64), Failure> {
    let mut rig = plan.rig(1).await?;
    rig.stop_services().await?;
    let nak = NakLoop::start(&rig.broker, rig.clock, endpoint_id(DEAD), COOLDOWN);
    let own = || Usage::of([std::process::id()]);
    let mut ids = FRESH_IDS;
    let without = cost(&rig, span, own, async || {
        fresh_deliveries(plan, &rig, &nak, span, &mut ids).await
    })
    .await?;
    let puts = (0..u128::from(queued)).map(|n| {
        let delivery = delivery_of(endpoint_id(DEAD), n, rig.clock.payload(plan.payload));
        put(&rig.broker, delivery)
    });
    futures_util::stream::iter(puts)
        .buffer_unordered(PUT_AT_ONCE)
        .try_collect::<()>()
        .await?;
    until(LIMIT, "everything was given back once", async || {
        Ok(nak.seen.naked() >= u64::from(queued))
    })
    .await?;
    watch(SETTLE).await;
    let before = nak.seen.naked();
    let holding = cost(&rig, span, own, async || {
        fresh_deliveries(plan, &rig, &nak, span, &mut ids).await
    })
    .await?;
    let naked = nak.seen.naked() - before;
    nak.stop().await;
    rig.stop().await?;
    Ok((Pair { without, holding }, naked))
}

/// Stores a trickle of deliveries on the loop's consumer; from storing to being in hand.
async fn fresh_deliveries(
    plan: &Plan<'_>,
    rig: &Rig,
    nak: &NakLoop,
    span: Duration,
    ids: &mut u128,
) -> Result<Latencies, Failure> {
    let before = nak.seen.fresh().len();
    let count = trickle(plan, span);
    let mut every = tokio::time::interval(Duration::from_secs(1) / plan.rate.max(1));
    let mut puts = tokio::task::JoinSet::new();
    for _ in 0..count {
        every.tick().await;
        *ids += 1;
        let delivery = delivery_of(endpoint_id(FRESH), *ids, rig.clock.payload(plan.payload));
        let broker = rig.broker.clone();
        puts.spawn(async move { put(&broker, delivery).await });
    }
    for done in puts.join_all().await {
        done?;
    }
    let wanted = before + usize::try_from(count).unwrap_or(usize::MAX);
    until(LIMIT, "every fresh delivery was in hand", async || {
        Ok(nak.seen.fresh().len() >= wanted)
    })
    .await?;
    Ok(Latencies::between(nak.seen.fresh().drain(before..)))
}

fn trickle(plan: &Plan<'_>, span: Duration) -> u32 {
    let seconds = u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    plan.rate.saturating_mul(seconds)
}

/// What nats-server and the holder use during `work`.
async fn cost(
    rig: &Rig,
    span: Duration,
    holder: impl Fn() -> Usage,
    work: impl AsyncFnOnce() -> Result<Latencies, Failure>,
) -> Result<Cost, Failure> {
    let (server, own) = (rig.nats_server(), holder());
    let messages = rig.api.broker_messages().await?;
    let fresh = work().await?;
    let seconds = span.as_secs_f64();
    Ok(Cost {
        nats_server: (rig.nats_server().cpu - server.cpu) / seconds,
        holder: (holder().cpu - own.cpu) / seconds,
        messages: to_f64(rig.api.broker_messages().await?.saturating_sub(messages)),
        fresh,
    })
}

fn judge(verdict: &mut Verdict, span: Duration, lane: &Pair, nak: &Pair, naked: u64) {
    let rounds = (span.as_secs_f64() / COOLDOWN.as_secs_f64()).max(1.0);
    let figures: [(&str, &str, Figure); 3] = [
        ("nats-server", "core", |cost| cost.nats_server),
        ("holder", "core", |cost| cost.holder),
        ("messages in and out of nats-server", "", |cost| {
            cost.messages
        }),
    ];
    for (name, unit, figure) in figures {
        let more = |pair: &Pair| figure(&pair.holding) - figure(&pair.without);
        let (by_lane, by_nak) = (more(lane), more(nak));
        let digits = if unit.is_empty() { 0 } else { 4 };
        verdict.check(
            format!("{name}: what holding adds, {unit}").trim_end_matches([',', ' ']),
            format!("less than by NAK ({by_nak:.digits$})"),
            format!("{by_lane:.digits$}"),
            by_lane < by_nak,
        );
    }
    let shown = |cost: &Cost| {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| cost.fresh.quantile(share));
        format!("{p50:.2}, {p99:.2}, {max:.1}")
    };
    let worse = |pair: &Pair| pair.holding.fresh.quantile(0.99) - pair.without.fresh.quantile(0.99);
    verdict.check(
        "p99 of a fresh message: what holding adds, ms",
        format!("less than by NAK ({:.2})", worse(nak)),
        format!("{:.2}", worse(lane)),
        worse(lane) < worse(nak),
    );
    for (name, pair) in [("lane", lane), ("NAK", nak)] {
        let text = format!(
            "{} without, {} holding",
            shown(&pair.without),
            shown(&pair.holding)
        );
        verdict.figure(format!("{name}: fresh p50, p99, max, ms"), text);
        for (when, cost) in [("without", &pair.without), ("holding", &pair.holding)] {
            let text = format!(
                "nats-server {:.4}, holder {:.4} core, {:.0} messages",
                cost.nats_server, cost.holder, cost.messages
            );
            verdict.figure(format!("{name}: {when}"), text);
        }
    }
    let each = to_f64(naked) / rounds;
    verdict.figure("NAKs at each cooldown", format!("{each:.0}"));
}
