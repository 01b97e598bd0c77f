//! Whose lanes a job concerns.

use crate::filter::LetterFilter;
use crate::store::{Store, caught_up};
use futures_util::TryStreamExt;
use posthorn_broker::BrokerError;
use posthorn_delivery::{EndpointId, LaneId, LaneKind, LaneState};

/// Endpoints that are woken at a time.
const CONCURRENCY: usize = 32;

/// Wakes the endpoints that have an active replay lane and may have letters of this filter.
///
/// # Errors
/// When it is not certain that all of them were woken; the call may be repeated.
pub async fn wake_job(store: &Store, filter: &LetterFilter) -> Result<(), BrokerError> {
    let lanes = store.lanes();
    caught_up(lanes.watched()).await?;
    let active = lanes.watched().all().into_iter();
    let concerned =
        active.filter_map(|(key, state)| concerned(filter, &LaneId::parse(&key)?, &state.value));
    futures_util::stream::iter(concerned.map(Ok))
        .try_for_each_concurrent(CONCURRENCY, |endpoint| async move {
            lanes.wake(&endpoint).await
        })
        .await
}

fn concerned(filter: &LetterFilter, lane: &LaneId, state: &LaneState) -> Option<EndpointId> {
    let is = |asked: &str, found: &str| asked == "*" || asked == found;
    let (tenant, endpoint) = filter.tokens();
    let meant = lane.kind == LaneKind::Replay
        && is(tenant, state.tenant.as_str())
        && is(endpoint, lane.endpoint.as_str());
    meant.then(|| lane.endpoint.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::{LaneReason, Tenant, UnixMillis};

    #[test]
    fn a_job_concerns_the_replay_lanes_of_its_tenant_and_endpoint() {
        let acme = Tenant::parse("acme").unwrap();
        let state = LaneState::open(&acme, LaneReason::Replay, UnixMillis(0), UnixMillis(1));
        let endpoint = EndpointId::from_bits(7);
        let about = |json: &str, lane: &LaneId| {
            let filter = LetterFilter::from_json(json).unwrap();
            concerned(&filter, lane, &state)
        };
        let replay = LaneId::replay(&endpoint);
        let of_endpoint = format!(r#"{{"endpoint":"{endpoint}"}}"#);
        let of_another = format!(r#"{{"endpoint":"{}"}}"#, EndpointId::from_bits(8));
        for json in [r#"{"tenant":"acme"}"#, r#"{"status":500}"#, &of_endpoint] {
            assert_eq!(about(json, &replay), Some(endpoint.clone()), "{json}");
            assert_eq!(about(json, &LaneId::live(&endpoint)), None, "{json}");
        }
        for json in [r#"{"tenant":"globex"}"#, &of_another] {
            assert_eq!(about(json, &replay), None, "{json}");
        }
    }
}
