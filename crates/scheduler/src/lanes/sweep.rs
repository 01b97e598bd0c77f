//! A lane without a token is owned by nobody. Whoever died between two steps may have left
//! one; every scheduler looks for them now and then.

use crate::context::Context;
use posthorn_broker::BrokerError;
use posthorn_delivery::lane::keeps_lane;
use posthorn_delivery::{LaneId, LaneKind, LaneState};
use posthorn_runtime::{Shutdown, rng};
use rand::RngExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks, with as much as a tenth more.
const EVERY: Duration = Duration::from_secs(30);

/// Looks until shut down.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    loop {
        let jitter = Duration::from_millis(rng::rng().random_range(0..=3_000));
        tokio::select! {
            () = shutdown.triggered() => return,
            () = tokio::time::sleep(EVERY + jitter) => {}
        }
        match sweep(&context).await {
            Ok(0) => {}
            Ok(found) => tracing::info!(found, "lanes without a token were given one"),
            Err(error) => tracing::debug!(%error, "the lanes could not be looked through"),
        }
    }
}

/// Gives a token to every lane that needs one and has none.
async fn sweep(context: &Context) -> Result<usize, BrokerError> {
    let store = context.lanes.store();
    // In this order: a lane that is opened meanwhile has its token before it is missed.
    let needed = needed(context, store.lanes().await?);
    if needed.is_empty() {
        return Ok(0);
    }
    let owned: HashSet<LaneId> = store.tokens().await?.into_iter().collect();
    let stranded: Vec<&LaneId> = needed.iter().filter(|lane| !owned.contains(lane)).collect();
    for lane in &stranded {
        store.put_token(lane).await?;
    }
    metrics::counter!("posthorn_lanes_repaired_total").increment(stranded.len() as u64);
    Ok(stranded.len())
}

/// Lanes that hold something, and lanes that are active without need.
fn needed(context: &Context, filled: Vec<(LaneId, u64)>) -> HashSet<LaneId> {
    let mut needed: HashSet<LaneId> = filled.into_iter().map(|(lane, _)| lane).collect();
    for (key, state) in context.lanes.watched().all() {
        let Some(lane) = LaneId::parse(&key) else {
            continue;
        };
        if !rests_empty(context, &lane, &state.value) {
            needed.insert(lane);
        }
    }
    needed
}

fn rests_empty(context: &Context, lane: &LaneId, state: &LaneState) -> bool {
    let key = format!("{}.{}", state.tenant, lane.endpoint);
    let endpoint = context.endpoints.get(&key);
    lane.kind == LaneKind::Live && endpoint.is_some_and(|endpoint| keeps_lane(&endpoint.value))
}
