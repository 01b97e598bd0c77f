//! A burst over an endpoint's cap opens its lane; when that is drained, the endpoint flows freely
//! again although events go on coming.

use super::receiver::Receiver;
use super::spot::Behaviour;
use super::stats::Latencies;
use super::{Plan, Verdict};
use crate::failure::Failure;
use axum::http::StatusCode;
use posthorn_broker::StreamName;
use serde_json::json;
use std::time::Duration;

const TENANT: &str = "burst";
/// Each answer takes so long, so that the cap is reached.
const AFTER: Duration = Duration::from_millis(20);
/// When the backlog is drained and no more comes than the endpoint bears, its lane is closed
/// within so long.
const CLOSED: Duration = Duration::from_secs(5);

/// Runs it.
///
/// # Errors
/// When a part does not start or publishing fails.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, span) = (plan.queued(2_000), plan.duration(20));
    let settings = vec![
        ("burst", queued.to_string()),
        ("events a second after it", plan.rate.to_string()),
        ("each answer after", format!("{AFTER:?}")),
        ("watched for", format!("{} s", span.as_secs())),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let rig = plan.rig(plan.dispatchers(1)).await?;
    let receiver = Receiver::start(rig.clock)?;
    let spot = receiver.spot("hook", Behaviour::Answer(StatusCode::OK, AFTER));
    let document = json!({ "url": receiver.url("hook") });
    rig.api.endpoint(TENANT, document).await?;
    let mut load = rig.load(TENANT)?;
    load.burst(queued).await?;
    let wanted = usize::try_from(queued).unwrap_or(usize::MAX);
    let (mut drained, mut closed) = (None, None);
    let (began, step) = (rig.clock.now(), (plan.rate / 10).max(1));
    // Events go on coming while the lane is looked at ten times a second.
    while Duration::from_nanos(rig.clock.now() - began) < span {
        load.steady(plan.rate, step).await?;
        let now = Duration::from_nanos(rig.clock.now() - began);
        if spot.count() >= wanted {
            drained = drained.or(Some(now));
        }
        if drained.is_some() && rig.messages(StreamName::Tokens).await? == 0 {
            closed = closed.or(Some(now));
        }
    }
    let latencies = Latencies::of(&spot.arrivals().split_off(wanted.min(spot.count())));
    rig.stop().await?;
    let took = drained
        .zip(closed)
        .map(|(drained, closed)| closed - drained);
    let seen = took.map_or_else(|| "never".to_owned(), |took| format!("{took:.1?}"));
    verdict.check(
        "the lane is closed after the burst was drained",
        format!("within {CLOSED:?}"),
        seen,
        took.is_some_and(|took| took <= CLOSED),
    );
    let [p50, p99] = [0.5, 0.99].map(|share| latencies.quantile(share));
    verdict.figure(
        "p50, p99 of what came after, ms",
        format!("{p50:.2}, {p99:.2}"),
    );
    let shown = drained.map_or_else(|| "never".to_owned(), |at| format!("{at:.1?}"));
    verdict.figure("drained after", shown);
    Ok(verdict)
}
