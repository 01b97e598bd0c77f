//! A `Retry-After` in the middle of a backlog quiets the whole endpoint, at every dispatcher.

use super::receiver::Receiver;
use super::spot::{Arrival, Behaviour};
use super::stats::nanos;
use super::{Plan, Verdict, until};
use crate::failure::Failure;
use axum::http::StatusCode;
use serde_json::json;
use std::time::Duration;

const TENANT: &str = "quiet";
/// What was already on its way when the 429 was read may still start.
const GRACE: Duration = Duration::from_millis(100);
/// How long an answer takes.
const AFTER: Duration = Duration::from_millis(50);
/// The request that is answered with 429.
const NTH: usize = 60;

/// Runs it.
///
/// # Errors
/// When a part does not start, or not everything arrives.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, quiet) = (plan.queued(500), plan.duration(20));
    let dispatchers = plan.dispatchers(3);
    let nth = NTH.min(usize::try_from(queued / 3).unwrap_or(NTH).max(1));
    let settings = vec![
        ("queued", queued.to_string()),
        ("Retry-After", format!("{} s", quiet.as_secs())),
        ("429 to request", nth.to_string()),
        ("each answer after", format!("{AFTER:?}")),
        ("dispatchers", dispatchers.to_string()),
        ("runs", plan.runs().to_string()),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let mut runs = Vec::new();
    for _ in 0..plan.runs() {
        let rig = plan.rig(dispatchers).await?;
        let receiver = Receiver::start(rig.clock)?;
        let behaviour = Behaviour::QuietOnce {
            after: AFTER,
            nth,
            seconds: quiet.as_secs(),
        };
        let spot = receiver.spot("hook", behaviour);
        let document = json!({ "url": receiver.url("hook") });
        rig.api.endpoint(TENANT, document).await?;
        rig.load(TENANT)?.burst(queued).await?;
        // All of them, and the one with the 429 a second time.
        let wanted = usize::try_from(queued)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let limit = quiet + Duration::from_secs(120);
        until(limit, "everything has arrived", async || {
            Ok(spot.count() >= wanted)
        })
        .await?;
        runs.push(spot.arrivals());
        rig.stop().await?;
    }
    judge(&mut verdict, quiet, &runs);
    Ok(verdict)
}

fn judge(verdict: &mut Verdict, quiet: Duration, runs: &[Vec<Arrival>]) {
    let (mut late, mut lateness, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    for arrivals in runs {
        let refused = arrivals
            .iter()
            .filter_map(|arrival| arrival.answered)
            .find(|(_, status)| *status == StatusCode::TOO_MANY_REQUESTS);
        let Some((read, _)) = refused else {
            verdict.check("the 429", "1", "none", false);
            return;
        };
        let since: Vec<u64> = arrivals
            .iter()
            .map(|arrival| arrival.at)
            .filter(|at| *at >= read)
            .collect();
        let end = read + nanos(quiet);
        let within = |at: &&u64| **at > read + nanos(GRACE) && **at < end;
        late.push(since.iter().filter(within).count());
        let last = since.iter().filter(|at| **at < end).max();
        lateness.push(last.map_or(0, |at| (at - read) / 1_000_000));
        let next = since.iter().find(|at| **at >= end);
        resumed.push(next.map_or(0, |at| (at - end) / 1_000_000));
    }
    verdict.check(
        format!(
            "requests from {GRACE:?} after the 429 on, for {} s",
            quiet.as_secs()
        ),
        "0",
        format!("{late:?}"),
        late.iter().all(|count| *count == 0),
    );
    verdict.figure("last request after the 429, ms", format!("{lateness:?}"));
    verdict.figure("first request after the quiet, ms", format!("{resumed:?}"));
}
