//! A receiver of limited capacity comes back after an outage, with a backlog waiting for it.

use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Arrival, Behaviour};
use super::stats::{count_between, longest_above, nanos, windows};
use super::workers;
use super::{Plan, Verdict, until, watch};
use crate::bench::report::to_f64;
use crate::failure::Failure;
use axum::http::StatusCode;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

const TENANT: &str = "back";
const SECOND: Duration = Duration::from_secs(1);
/// 500 a second; the latency rises with the queue from 20 ms on.
const WORKERS: workers::Plan = workers::Plan {
    count: 10,
    service: Duration::from_millis(20),
    longest_queue: 200,
};
/// In so long the breaker looks whether the receiver is back.
const COOLDOWN: Duration = Duration::from_secs(5);
/// Requests in the first second after the probe.
const FIRST_SECOND: usize = 20;

/// Runs it.
///
/// # Errors
/// When a part does not start, or not everything arrives.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, outage) = (plan.queued(40_000), plan.duration(30));
    let dispatchers = plan.dispatchers(1);
    let settings = vec![
        ("held", queued.to_string()),
        ("outage", format!("{} s", outage.as_secs())),
        ("capacity", format!("{}/s", WORKERS.capacity())),
        (
            "workers",
            format!("{} of {:?}", WORKERS.count, WORKERS.service),
        ),
        (
            "refuses when more wait than",
            WORKERS.longest_queue.to_string(),
        ),
        ("cooldown", format!("{COOLDOWN:?}")),
        ("dispatchers", dispatchers.to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let rig = plan.rig(dispatchers).await?;
    let receiver = Receiver::start(rig.clock)?;
    let down = Behaviour::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO);
    let spot = receiver.spot("hook", down);
    let cooldown = format!("{}s", COOLDOWN.as_secs());
    let document = json!({
        "url": receiver.url("hook"),
        "breaker": { "cooldown": cooldown, "max_cooldown": cooldown },
    });
    rig.api.endpoint(TENANT, document).await?;
    let began = rig.clock.now();
    rig.load(TENANT)?.burst(queued).await?;
    rig.taken_in().await?;
    watch(outage.saturating_sub(Duration::from_nanos(rig.clock.now() - began))).await;
    let (before, back) = (spot.count(), rig.clock.now());
    spot.behave(Behaviour::Workers(WORKERS));
    drained(&rig, queued, || good(&spot.arrivals()).len()).await?;
    let arrivals = spot.arrivals();
    rig.stop().await?;
    judge(&mut verdict, queued, back, &arrivals, before);
    Ok(verdict)
}

/// Waits until every event has had a good answer, twice as long as the bar gives it.
async fn drained(rig: &Rig, queued: u32, good: impl Fn() -> usize) -> Result<(), Failure> {
    let limit = Duration::from_secs_f64(f64::from(queued) / WORKERS.capacity() * 2.5 + 60.0);
    let wanted = usize::try_from(queued).unwrap_or(usize::MAX);
    let mut seen = 0;
    let what = "everything has had a good answer";
    let drained = until(limit, what, async || {
        // Looking costs a copy of the log.
        watch(Duration::from_millis(480)).await;
        seen = good();
        Ok(seen >= wanted)
    })
    .await;
    if drained.is_err() {
        let left = rig.messages(posthorn_broker::StreamName::Lanes).await?;
        let text = format!("{seen} of {queued} have had a good answer, {left} lie in the lane");
        return Err(Failure::Internal(text));
    }
    Ok(())
}

fn good(arrivals: &[Arrival]) -> HashSet<&str> {
    let good = |arrival: &&Arrival| matches!(arrival.answered, Some((_, StatusCode::OK)));
    arrivals.iter().filter(good).map(|a| &*a.id).collect()
}

fn judge(verdict: &mut Verdict, queued: u32, back: u64, all: &[Arrival], before: usize) {
    let capacity = WORKERS.capacity();
    let since: Vec<&Arrival> = all.iter().filter(|arrival| arrival.at >= back).collect();
    let times: Vec<u64> = since.iter().map(|arrival| arrival.at).collect();
    let (Some(&probe), Some(&last)) = (times.first(), times.last()) else {
        verdict.check("requests after the outage", "some", "none", false);
        return;
    };
    let first = count_between(&times, probe + 1, probe + nanos(SECOND));
    verdict.check(
        "requests in the second after the probe",
        format!("at most {FIRST_SECOND}"),
        first.to_string(),
        first <= FIRST_SECOND,
    );
    let (most, _) = windows(&times, (probe, last), 2 * SECOND);
    let peak = to_f64(u64::try_from(most).unwrap_or(u64::MAX)) / 2.0;
    let excess = longest_above(&times, (probe, last), capacity * 1.2 / 4.0);
    verdict.check(
        "the most over any 2 s",
        format!("{:.0}/s", capacity * 1.2),
        format!("{peak:.0}/s; above it in every quarter second for {excess:?}"),
        peak <= capacity * 1.2 && excess <= 2 * SECOND,
    );
    let answered: Vec<u64> = since
        .iter()
        .filter_map(|arrival| arrival.answered)
        .filter(|(_, status)| status.is_success())
        .map(|(at, _)| at)
        .collect();
    let end = answered.iter().max().copied().unwrap_or(last);
    let took = Duration::from_nanos(end - probe);
    let rate = to_f64(u64::try_from(answered.len()).unwrap_or(0)) / took.as_secs_f64();
    verdict.check(
        "good answers a second from the probe until drained",
        format!("at least {:.0}", capacity * 0.8),
        format!(
            "{rate:.0} ({:.0} %), {:.1} s",
            rate / capacity * 100.0,
            took.as_secs_f64()
        ),
        rate >= capacity * 0.8,
    );
    let arrived = good(all).len();
    let wanted = usize::try_from(queued).unwrap_or(usize::MAX);
    let lost = wanted.saturating_sub(arrived);
    verdict.check("lost", "0", lost.to_string(), lost == 0);
    let tenths: Vec<String> = by_tenth(&answered, probe, end)
        .iter()
        .map(|rate| format!("{rate:.0}"))
        .collect();
    verdict.figure(
        "good answers a second by tenth of the time",
        tenths.join(" "),
    );
    figures(verdict, &since, answered.len().saturating_sub(arrived));
    verdict.figure("requests during the outage", before.to_string());
    let waited = Duration::from_nanos(probe - back);
    verdict.figure(
        "probe after the end of the outage",
        format!("{:.1} s", waited.as_secs_f64()),
    );
}

/// The rate in each tenth of the time between two moments.
fn by_tenth(times: &[u64], from: u64, to: u64) -> Vec<f64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let span = ((to - from) / 10).max(1);
    (0..10)
        .map(|tenth| {
            let begin = from + tenth * span;
            let count = count_between(&times, begin, begin + span);
            let seconds = Duration::from_nanos(span).as_secs_f64();
            to_f64(u64::try_from(count).unwrap_or(u64::MAX)) / seconds
        })
        .collect()
}

fn figures(verdict: &mut Verdict, since: &[&Arrival], twice: usize) {
    let refused = since
        .iter()
        .filter(|arrival| arrival.answered.is_some_and(|(_, s)| !s.is_success()))
        .count();
    verdict.figure("refused by the receiver", refused.to_string());
    verdict.figure("delivered twice", twice.to_string());
    let mut waits: Vec<u64> = since
        .iter()
        .filter_map(|arrival| Some(arrival.answered?.0.saturating_sub(arrival.at)))
        .collect();
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    verdict.figure(
        "p99 of the receiver's answer",
        format!("{:?}", Duration::from_micros(p99 / 1_000)),
    );
}
