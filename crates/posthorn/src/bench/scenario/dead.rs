//! How many requests an endpoint gets that answers nothing good.

use super::receiver::Receiver;
use super::spot::{Arrival, Behaviour};
use super::{Plan, Verdict, watch};
use crate::failure::Failure;
use axum::http::StatusCode;
use serde_json::json;
use std::time::Duration;

const COOLDOWN: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(2);
/// The product's own defaults.
const THRESHOLD: usize = 5;
const MAX_IN_FLIGHT: usize = 32;

/// Runs it: for an endpoint that answers 503 at once, and for one that hangs.
///
/// # Errors
/// When a part does not start.
pub(crate) async fn run(plan: &Plan<'_>) -> Result<Verdict, Failure> {
    let (queued, span) = (plan.queued(5_000), plan.duration(65));
    let dispatchers = plan.dispatchers(3);
    let settings = vec![
        ("queued", queued.to_string()),
        ("cooldown", format!("{COOLDOWN:?}")),
        ("failure threshold", THRESHOLD.to_string()),
        ("max_in_flight", MAX_IN_FLIGHT.to_string()),
        ("dispatchers", dispatchers.to_string()),
        ("watched for", format!("{} s", span.as_secs())),
    ];
    let mut verdict = Verdict::begin(&plan.name, settings);
    let refuses = Behaviour::Answer(StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO);
    let rig = plan.rig(dispatchers).await?;
    let receiver = Receiver::start(rig.clock)?;
    let kinds = [("503 at once", refuses), ("hangs", Behaviour::Hang)];
    let mut spots = Vec::new();
    for (n, (name, behaviour)) in kinds.into_iter().enumerate() {
        let (tenant, path) = (format!("dead-{n}"), format!("dead-{n}"));
        spots.push((name, receiver.spot(&path, behaviour)));
        let cooldown = format!("{}s", COOLDOWN.as_secs());
        let document = json!({
            "url": receiver.url(&path),
            "timeout": format!("{}s", TIMEOUT.as_secs()),
            "max_in_flight": MAX_IN_FLIGHT,
            "breaker": {
                "failure_threshold": THRESHOLD, "cooldown": cooldown, "max_cooldown": cooldown,
            },
        });
        rig.api.endpoint(&tenant, document).await?;
        rig.load(&tenant)?.burst(queued).await?;
    }
    rig.taken_in().await?;
    watch(span).await;
    for (name, spot) in spots {
        judge(&mut verdict, name, &spot.arrivals(), span);
    }
    rig.stop().await?;
    Ok(verdict)
}

fn judge(verdict: &mut Verdict, name: &str, arrivals: &[Arrival], span: Duration) {
    let groups = groups(arrivals);
    let most = THRESHOLD - 1 + MAX_IN_FLIGHT;
    let first = groups.first().map_or(0, Vec::len);
    verdict.check(
        format!("{name}: requests until it opened"),
        format!("at most {most}"),
        first.to_string(),
        (1..=most).contains(&first),
    );
    let later: Vec<usize> = groups.iter().skip(1).map(Vec::len).collect();
    // Each probe takes up to the timeout and a look before the next cooldown begins.
    let round = COOLDOWN + TIMEOUT + Duration::from_secs(1);
    let fewest = usize::try_from(span.saturating_sub(TIMEOUT).as_secs() / round.as_secs());
    let enough = later.len() >= fewest.unwrap_or(0);
    verdict.check(
        format!("{name}: requests at each cooldown"),
        "1",
        format!("{later:?}"),
        enough && later.iter().all(|count| *count == 1),
    );
    let gaps: Vec<Duration> = groups
        .windows(2)
        .filter_map(|pair| Some(pair[1].first()?.saturating_sub(*pair[0].last()?)))
        .map(Duration::from_nanos)
        .collect();
    let least = gaps.iter().min().copied().unwrap_or_default();
    let shown = format!("{:.2} s", least.as_secs_f64());
    // The breaker reckons in milliseconds from when the answer was read.
    let kept = gaps.is_empty() || least + Duration::from_millis(20) >= COOLDOWN;
    verdict.check(
        format!("{name}: shortest time between probes"),
        format!("{COOLDOWN:?}"),
        shown,
        kept,
    );
}

/// Requests that came together: what is half a cooldown later is another group.
fn groups(arrivals: &[Arrival]) -> Vec<Vec<u64>> {
    let apart = u64::try_from((COOLDOWN / 2).as_nanos()).unwrap_or(u64::MAX);
    let mut groups: Vec<Vec<u64>> = Vec::new();
    for arrival in arrivals {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|last| arrival.at - last < apart) => {
                group.push(arrival.at);
            }
            _ => groups.push(vec![arrival.at]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_together_is_one_group() {
        let at = |millis: u64| Arrival {
            at: millis * 1_000_000,
            sent: None,
            answered: None,
            id: "".into(),
        };
        let arrivals = [at(0), at(10), at(2_000), at(12_000), at(22_001)];
        let sizes: Vec<usize> = groups(&arrivals).iter().map(Vec::len).collect();
        assert_eq!(sizes, [3, 1, 1]);
    }
}
