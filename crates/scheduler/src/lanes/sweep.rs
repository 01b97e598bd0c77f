//! A lane without a token is owned by nobody, and so is one whose token is not handed out any
//! more. Whoever died between two steps may have left the one, a server that forgot something
//! the other; every scheduler looks for them now and then.

use crate::context::Context;
use posthorn_broker::BrokerError;
use posthorn_delivery::lane::keeps_lane;
use posthorn_delivery::{LaneId, LaneKind, LaneState};
use posthorn_runtime::{Shutdown, rng};
use rand::RngExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Before the first sweep, so that a scheduler that is restarted again and again sweeps too.
const FIRST: Duration = Duration::from_secs(5);
/// Between two sweeps; with up to a tenth more, as before the first.
const EVERY: Duration = Duration::from_secs(30);
/// A lane that is opening or closing has no token for a moment: one that is missed is looked
/// for again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Looks until shut down.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    let mut pause = FIRST;
    loop {
        let most = u64::try_from(pause.as_millis() / 10).unwrap_or(0);
        let jitter = Duration::from_millis(rng::rng().random_range(0..=most));
        tokio::select! {
            () = shutdown.triggered() => return,
            () = tokio::time::sleep(pause + jitter) => {}
        }
        pause = EVERY;
        let swept = tokio::select! {
            () = shutdown.triggered() => return,
            swept = sweep(&context) => swept,
        };
        match swept {
            Ok(0) => {}
            Ok(found) => tracing::info!(found, "lanes that nobody owned were given a token"),
            Err(error) => tracing::debug!(%error, "the lanes could not be looked through"),
        }
    }
}

/// Gives a token to every lane that needs one and has had none for a while.
async fn sweep(context: &Context) -> Result<usize, BrokerError> {
    let missed = without_owner(context).await?;
    if missed.is_empty() {
        return Ok(0);
    }
    tokio::time::sleep(AGAIN).await;
    let still = without_owner(context).await?;
    let stranded: Vec<_> = still.intersection(&missed).collect();
    let store = context.lanes.store();
    for (lane, token) in &stranded {
        match token {
            Some(sequence) => store.replace_token(lane, *sequence).await?,
            None => store.put_token(lane).await?,
        }
    }
    metrics::counter!("posthorn_lanes_repaired_total").increment(stranded.len() as u64);
    Ok(stranded.len())
}

/// Lanes that nobody will own, with the token that is of no use where there is one.
async fn without_owner(context: &Context) -> Result<HashSet<(LaneId, Option<u64>)>, BrokerError> {
    let store = context.lanes.store();
    // In this order: a lane that is opened meanwhile has its token before it is missed.
    let mut needed = needed(context, store.lanes().await?);
    if needed.is_empty() {
        return Ok(HashSet::new());
    }
    for lane in store.tokens().await? {
        needed.remove(&lane);
    }
    let missed = needed.into_iter().map(|lane| (lane, None));
    let settled = store.settled_tokens().await?.into_iter();
    let settled = settled.map(|(lane, sequence)| (lane, Some(sequence)));
    Ok(missed.chain(settled).collect())
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
