//! Lanes, let go by whoever holds their token.
//!
//! One token for each active lane lies in a work queue; the scheduler that takes it owns the
//! lane until it gives the token back with a delay, finds the lane empty, or sees that another
//! has taken over.

mod answers;
mod close;
mod drain;
mod head;
mod hold;
mod ordered;
mod owner;
mod release;
pub(crate) mod sweep;

use crate::context::Context;
use owner::Owner;
use posthorn_broker::{BrokerError, Incoming, Pumped};
use posthorn_delivery::LaneId;
use std::sync::Arc;
use std::time::Duration;

/// How an owner leaves its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The token is gone: the lane is empty, or somebody has a new token for it.
    Done,
    /// There is nothing to do for so long.
    Back(Duration),
}

/// After a failure the lane is looked at again so soon.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Works on the lane of one token.
pub(crate) async fn handle(context: Arc<Context>, pumped: Pumped) {
    pumped
        .work(|token| async move {
            let Some(lane) = context.broker.names().parse_lane(token.subject()) else {
                return discard(&token).await;
            };
            match own(&context, &lane, &token).await {
                Ok(End::Done) => {}
                Ok(End::Back(wait)) => token.nak((!wait.is_zero()).then_some(wait)).await,
                Err(error) => {
                    tracing::warn!(%lane, %error, "a lane could not be worked on");
                    token.nak(Some(AFTER_FAILURE)).await;
                }
            }
        })
        .await;
}

/// A token of no lane that there could be.
async fn discard(token: &Incoming) {
    tracing::warn!(sequence = token.sequence(), "a token names no lane");
    if let Err(error) = token.ack().await {
        tracing::debug!(%error, "a token of no lane could not be removed yet");
    }
}

async fn own(context: &Context, lane: &LaneId, token: &Incoming) -> Result<End, BrokerError> {
    if token.delivered() > 1 {
        // Whoever had it before may be slow and not dead. With a new token, what it still
        // says about the old one touches nothing.
        let store = context.lanes.store();
        store.replace_token(lane, token.sequence()).await?;
        return Ok(End::Done);
    }
    match Owner::take(context, lane, token).await? {
        Some(owner) => owner.run().await,
        None => Ok(End::Done),
    }
}
