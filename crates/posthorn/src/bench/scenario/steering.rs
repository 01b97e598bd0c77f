//! Pause, resume and a raised limit, asked for while the lane's token sleeps or flows.

use super::receiver::Receiver;
use super::rig::Rig;
use super::spot::{Behaviour, Spot};
use super::stats::{count_between, nanos};
use super::{Plan, Verdict, until, watch};
use crate::failure::Failure;
use axum::http::StatusCode;
use posthorn_broker::StreamName;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const TENANT: &str = "steered";
/// In so long a change is in force.
const IN_FORCE: Duration = Duration::from_secs(1);
/// One in 20 s: an owner gives its token back for such a wait.
const SLOW: f64 = 0.05;
const FAST: u32 = 100;
/// How long nothing may come after a pause.
const SILENCE: Duration = Duration::from_secs(5);
const DRAINED: Duration = Duration::from_secs(120);
/// The token is left alone for so long, so that it sleeps.
const ASLEEP: Duration = Duration::from_secs(4);

/// Runs it.
///
/// # Errors
/// When a part does not start, or a change has no effect at all.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let queued = plan.queued(5_000);
    let dispatchers = plan.dispatchers(3);
    let settings = vec![
        ("queued", queued.to_string()),
        ("dispatchers", dispatchers.to_string()),
        ("runs", plan.runs().to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let mut runs = Vec::new();
    for _ in 0..plan.runs() {
        let rig = plan.rig(dispatchers).await?;
        runs.push(one(&rig, queued).await?);
        rig.stop().await?;
    }
    judge(&mut verdict, &runs);
    Ok(verdict)
}

/// How long each change took from the answer of the API on.
struct Run {
    resumed: Duration,
    raised: Duration,
    /// Requests in the second after the first one under the raised limit.
    at_raised: usize,
    /// The last request after the pause.
    paused: Duration,
}

/// One figure of it.
type Figure = fn(&Run) -> Duration;

async fn one(rig: &Rig, queued: u32) -> Result<Run, Failure> {
    let receiver = Receiver::start(rig.clock)?;
    let spot = receiver.spot("hook", Behaviour::Answer(StatusCode::OK, Duration::ZERO));
    let document = json!({
        "url": receiver.url("hook"),
        "enabled": false,
    });
    let id = rig.api.endpoint(TENANT, document).await?;
    rig.load(TENANT)?.burst(queued).await?;
    rig.taken_in().await?;
    watch(ASLEEP).await;

    // Resumed while the token sleeps.
    rig.api.switch(TENANT, &id, "resume").await?;
    let resumed = first_after(rig, &spot).await?;
    // A resumed lane is eased back in, and another limit would be felt through that.
    until(DRAINED, "the lane is closed", async || {
        Ok(rig.messages(StreamName::Tokens).await? == 0)
    })
    .await?;

    // Slow enough for the token to sleep, and then fast.
    let limit = |per_second: f64| json!({ "rate_limit": { "per_second": per_second } });
    rig.api.patch(TENANT, &id, limit(SLOW)).await?;
    rig.load(TENANT)?.burst(queued).await?;
    rig.taken_in().await?;
    watch(ASLEEP).await;
    rig.api.patch(TENANT, &id, limit(f64::from(FAST))).await?;
    let began = rig.clock.now();
    let raised = first_after(rig, &spot).await?;
    watch(Duration::from_millis(1_200)).await;
    let from = began + nanos(raised);
    let times: Vec<u64> = spot.arrivals().iter().map(|arrival| arrival.at).collect();
    let at_raised = count_between(&times, from, from + nanos(IN_FORCE));

    // Paused while it flows.
    rig.api.switch(TENANT, &id, "pause").await?;
    let asked = rig.clock.now();
    watch(SILENCE).await;
    let last = spot.arrivals().last().map_or(0, |arrival| arrival.at);
    Ok(Run {
        resumed,
        raised,
        at_raised,
        paused: Duration::from_nanos(last.saturating_sub(asked)),
    })
}

/// How long it takes from now until the next request.
async fn first_after(rig: &Rig, spot: &Arc<Spot>) -> Result<Duration, Failure> {
    let (asked, before) = (rig.clock.now(), spot.count());
    until(Duration::from_secs(60), "a request has come", async || {
        Ok(spot.count() > before)
    })
    .await?;
    let next = spot.arrivals().get(before).map_or(0, |arrival| arrival.at);
    Ok(Duration::from_nanos(next.saturating_sub(asked)))
}

fn judge(verdict: &mut Verdict, runs: &[Run]) {
    let what: [(&str, Figure); 3] = [
        ("first request after resuming a sleeping lane", |run| {
            run.resumed
        }),
        (
            "first request after raising a sleeping lane's limit",
            |run| run.raised,
        ),
        ("last request after pausing a flowing lane", |run| {
            run.paused
        }),
    ];
    for (name, figure) in what {
        let seen: Vec<u128> = runs.iter().map(|run| figure(run).as_millis()).collect();
        verdict.check(
            format!("{name}, ms"),
            format!("{} ms", IN_FORCE.as_millis()),
            format!("{seen:?}"),
            runs.iter().all(|run| figure(run) <= IN_FORCE),
        );
    }
    let at_raised: Vec<usize> = runs.iter().map(|run| run.at_raised).collect();
    let fast = usize::try_from(FAST).unwrap_or(usize::MAX);
    verdict.check(
        "requests in the second from then on",
        format!("{} to {}", fast * 9 / 10, fast * 11 / 10),
        format!("{at_raised:?}"),
        at_raised
            .iter()
            .all(|n| (fast * 9 / 10..=fast * 11 / 10).contains(n)),
    );
}
