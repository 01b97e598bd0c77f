//! The state of a lane that is held: what its owner has written into the bucket.

use crate::context::Context;
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{LaneId, LaneReason, LaneState, Tenant, UnixMillis};

/// A lost compare-and-swap is repeated so often: others write a lane's state rarely.
const TRIES: u32 = 8;

/// What is written under our ownership.
pub(crate) struct Hold {
    known: Versioned<LaneState>,
}

impl Hold {
    /// Becomes the owner of a lane that is active; `None` when it is not.
    pub async fn take(context: &Context, lane: &LaneId) -> Result<Option<Hold>, BrokerError> {
        for _ in 0..TRIES {
            let Some(found) = context.lanes.read(lane).await? else {
                return Ok(None);
            };
            let taken = found.value.taken();
            match swap(context, lane, &taken, found.revision).await {
                Ok(known) => return Ok(Some(Hold { known })),
                Err(BrokerError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(BrokerError::Conflict)
    }

    /// Opens a lane that holds something although nobody knows of it, and owns it.
    pub async fn open(
        context: &Context,
        lane: &LaneId,
        tenant: &Tenant,
    ) -> Result<Option<Hold>, BrokerError> {
        let now = posthorn_wiring::now();
        let state = LaneState::open(tenant, LaneReason::Draining, UnixMillis(0), now);
        match swap(context, lane, &state.taken(), 0).await {
            Ok(known) => Ok(Some(Hold { known })),
            Err(BrokerError::Conflict) => Hold::take(context, lane).await,
            Err(error) => Err(error),
        }
    }

    pub fn state(&self) -> &LaneState {
        &self.known.value
    }

    pub fn revision(&self) -> u64 {
        self.known.revision
    }

    /// Whether nobody has taken over, as far as the watch says.
    pub fn is_mine(&self, context: &Context, lane: &LaneId) -> bool {
        context
            .lanes
            .get(lane)
            .is_some_and(|seen| seen.value.is_owned_as(&self.known.value))
    }

    /// What others than the owner may have changed: what a replay job asks for.
    pub fn refresh(&mut self, context: &Context, lane: &LaneId) {
        if let Some(seen) = context.lanes.get(lane)
            && seen.value.is_owned_as(&self.known.value)
            && seen.revision > self.known.revision
        {
            self.known = (*seen).clone();
        }
    }

    /// Says why the lane is active now, where that has changed. `false` when somebody has taken
    /// over meanwhile.
    pub async fn describe(
        &mut self,
        context: &Context,
        lane: &LaneId,
        reason: LaneReason,
        until: UnixMillis,
    ) -> Result<bool, BrokerError> {
        for _ in 0..TRIES {
            let Some(next) = self.known.value.moved(reason, until) else {
                return Ok(true);
            };
            match swap(context, lane, &next, self.known.revision).await {
                Ok(known) => {
                    self.known = known;
                    return Ok(true);
                }
                Err(BrokerError::Conflict) => {
                    if !self.reread(context, lane).await? {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(BrokerError::Conflict)
    }

    /// Writes the state anew after its key was deleted. `false` when somebody else has.
    pub async fn reopen(&mut self, context: &Context, lane: &LaneId) -> Result<bool, BrokerError> {
        match swap(context, lane, &self.known.value.clone(), 0).await {
            Ok(known) => {
                self.known = known;
                Ok(true)
            }
            Err(BrokerError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the state anew; `false` when it is not ours any more.
    pub async fn reread(&mut self, context: &Context, lane: &LaneId) -> Result<bool, BrokerError> {
        match context.lanes.read(lane).await? {
            Some(found) if found.value.is_owned_as(&self.known.value) => {
                self.known = found;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

async fn swap(
    context: &Context,
    lane: &LaneId,
    state: &LaneState,
    revision: u64,
) -> Result<Versioned<LaneState>, BrokerError> {
    let (key, watched) = (lane.key(), context.lanes.watched());
    let revision = watched.bucket().swap(&key, state, revision).await?;
    watched.learn(&key, state.clone(), revision);
    Ok(Versioned {
        value: state.clone(),
        revision,
    })
}
