//! What is sent again goes into the endpoint's replay lane, so that it never stands before
//! live traffic, and neither does it run far ahead of its job: what is in a lane is out of the
//! job's hands, and a pause or a cancellation no longer reaches it.

use crate::jobs::law::run_ahead;
use crate::replay::Published;
use crate::store::Store;
use posthorn_broker::BrokerError;
use posthorn_delivery::{Delivery, Endpoint, LaneId, LaneReason, LaneState, UnixMillis};
use posthorn_lanes::{Lanes, Place, Why};

/// How often a rate is written against an owner that writes at the same time.
const TRIES: u32 = 20;

/// How much of a job a lane may hold, and how much lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Deliveries that it may hold.
    pub bound: u64,
    /// Deliveries that lie in it, whoever put them there.
    pub depth: u64,
}

impl Room {
    /// How many more it takes.
    #[must_use]
    pub fn left(self) -> u64 {
        self.bound.saturating_sub(self.depth)
    }

    /// Whether it is worth going on after it had been full: a job that went on with every
    /// delivery that is let go would read its letters again for each.
    #[must_use]
    pub fn is_half_empty(self) -> bool {
        self.depth <= self.bound / 2
    }
}

/// Parks a delivery in its replay lane, which is opened at this rate if it is not active.
///
/// # Errors
/// [`BrokerError::Full`] when the lane holds as much as its endpoint permits; others when it is
/// not certain that the delivery is stored.
pub async fn hand_in(
    lanes: &Lanes,
    delivery: Delivery,
    endpoint: &Endpoint,
    rate_per_second: u32,
) -> Result<Published, BrokerError> {
    let why = Why {
        reason: LaneReason::Replay,
        until: UnixMillis(0),
        rate_per_second,
    };
    match lanes.park(delivery, endpoint, why).await? {
        Place::Parked { duplicate } => Ok(Published {
            by_another: duplicate,
        }),
        Place::Full(_) => Err(BrokerError::Full),
    }
}

/// How much of a job at this rate `lane` takes now. A lane that is active already goes at the
/// job's rate from here on.
///
/// A lane that is held takes as much as its endpoint permits: nobody knows for how long, and a
/// job about many endpoints must not stand still because one of them is down.
///
/// # Errors
/// When the broker does not answer.
pub async fn room(store: &Store, lane: &LaneId, rate_per_second: u32) -> Result<Room, BrokerError> {
    let lanes = store.lanes();
    let ahead = run_ahead(rate_per_second);
    let Some(state) = at_rate(lanes, lane, rate_per_second).await? else {
        let (bound, depth) = (ahead, 0);
        return Ok(Room { bound, depth });
    };
    let endpoint = store.endpoint_of(&state.tenant, &lane.endpoint);
    let most = endpoint.map_or(u64::MAX, |endpoint| endpoint.value.max_backlog);
    let held = state.reason.is_hold();
    Ok(Room {
        bound: if held { most } else { most.min(ahead) },
        depth: lanes.store().depth(lane).await?,
    })
}

/// Writes the rate over that of another job, or of none; `None` when the lane is not active.
async fn at_rate(
    lanes: &Lanes,
    lane: &LaneId,
    rate_per_second: u32,
) -> Result<Option<LaneState>, BrokerError> {
    let Some(mut known) = lanes.get(lane).map(|known| (*known).clone()) else {
        return Ok(None);
    };
    for _ in 0..TRIES {
        if known.value.rate_per_second == rate_per_second {
            return Ok(Some(known.value));
        }
        let next = LaneState {
            rate_per_second,
            ..known.value
        };
        let (key, watched) = (lane.key(), lanes.watched());
        match watched.bucket().swap(&key, &next, known.revision).await {
            Ok(revision) => {
                watched.learn(&key, next.clone(), revision);
                return Ok(Some(next));
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error),
        }
        match lanes.read(lane).await? {
            Some(now) => known = now,
            None => return Ok(None),
        }
    }
    Err(BrokerError::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_takes_no_more_until_half_of_it_is_gone() {
        let room = |depth| Room { bound: 100, depth };
        assert_eq!((room(0).left(), room(40).left()), (100, 60));
        assert_eq!((room(100).left(), room(130).left()), (0, 0));
        assert!(room(50).is_half_empty() && !room(51).is_half_empty());
    }

    #[test]
    fn the_smallest_lane_takes_one_again_when_it_is_empty() {
        let room = |depth| Room { bound: 1, depth };
        assert!(room(0).is_half_empty() && !room(1).is_half_empty());
    }
}
