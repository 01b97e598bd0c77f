//! A burst over an endpoint's cap opens its lane; when that is drained, the endpoint flows freely
//! again although events go on coming.

use super::receiver::Receiver;
use super::spot::Behaviour;
use super::stats::Latencies;
use super::{Plan, Verdict, watch};
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

const LOOK: Duration = Duration::from_millis(100);

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
    let began = rig.clock.now();
    let since = || Duration::from_nanos(rig.clock.now() - began);
    let looks = async {
        while since() < span {
            watch(LOOK).await;
            if drained.is_none() && spot.count() >= wanted {
                drained = Some(since());
            }
            let tokens = rig.messages(StreamName::Tokens).await?;
            if drained.is_some() && closed.is_none() && tokens == 0 {
                closed = Some(since());
            }
        }
        Ok(())
    };
    let seconds = u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    let events = plan.rate.saturating_mul(seconds);
    tokio::try_join!(looks, load.steady(plan.rate, events))?;
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
