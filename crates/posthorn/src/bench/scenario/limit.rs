//! A rate limit, kept by all dispatchers together.

use super::receiver::Receiver;
use super::spot::Behaviour;
use super::stats::{nanos, windows};
use super::{Plan, Verdict, until};
use crate::bench::report::to_f64;
use crate::failure::Failure;
use axum::http::StatusCode;
use serde_json::json;
use std::time::Duration;

const TENANT: &str = "limited";
const WINDOW: Duration = Duration::from_secs(10);

/// Runs it.
///
/// # Errors
/// When a part does not start, or not everything arrives.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, rate) = (plan.queued(5_000), plan.rate);
    let dispatchers = plan.dispatchers(3);
    let settings = vec![
        ("queued", queued.to_string()),
        ("rate_limit", format!("{rate}/s")),
        ("dispatchers", dispatchers.to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let rig = plan.rig(dispatchers).await?;
    let receiver = Receiver::start(rig.clock)?;
    let spot = receiver.spot("hook", Behaviour::Answer(StatusCode::OK, Duration::ZERO));
    let document = json!({ "url": receiver.url("hook"), "rate_limit": { "per_second": rate } });
    rig.api.endpoint(TENANT, document).await?;
    rig.load(TENANT)?.burst(queued).await?;
    let limit = Duration::from_secs(60 + 2 * u64::from(queued / rate.max(1)));
    let wanted = usize::try_from(queued).unwrap_or(usize::MAX);
    until(limit, "everything has arrived", async || {
        Ok(spot.count() >= wanted)
    })
    .await?;
    let times: Vec<u64> = spot.arrivals().iter().map(|arrival| arrival.at).collect();
    rig.stop().await?;
    judge(&mut verdict, rate, &times);
    Ok(verdict)
}

fn judge(verdict: &mut Verdict, rate: u32, times: &[u64]) {
    let ends = (
        times.first().copied().unwrap_or(0),
        times.last().copied().unwrap_or(0),
    );
    let window = WINDOW.min(Duration::from_nanos((ends.1 - ends.0) / 2));
    let (most, fewest) = windows(times, ends, window);
    let per_second =
        |count: usize| to_f64(u64::try_from(count).unwrap_or(u64::MAX)) / window.as_secs_f64();
    let (most, fewest) = (per_second(most), per_second(fewest));
    let rate = f64::from(rate);
    verdict.check(
        format!("requests a second over any {:.1} s", window.as_secs_f64()),
        format!("{:.1} to {:.1}", rate * 0.95, rate * 1.05),
        format!("{fewest:.2} to {most:.2}"),
        fewest >= rate * 0.95 && most <= rate * 1.05,
    );
    let gap = times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or(0);
    verdict.check(
        "longest time without a request",
        "1 s",
        format!("{:?}", Duration::from_millis(gap / 1_000_000)),
        gap < nanos(Duration::from_secs(1)),
    );
    let (second, _) = windows(times, ends, Duration::from_secs(1));
    verdict.figure("the most in any second", second.to_string());
    let took = Duration::from_nanos(ends.1 - ends.0);
    verdict.figure("took", format!("{:.1} s", took.as_secs_f64()));
}
