//! Whether an endpoint is owed an event of the archive.
//!
//! Nothing says so in one place. The log of attempts says how a delivery went, the letter that
//! it died, and as long as it waits for its first attempt only the place where it lies says that
//! there is one. A recovery looks at all of them, in the order in which a delivery walks: where
//! events wait to be fanned out, in the lanes, at the dispatchers, then in the log. What it finds
//! under way it leaves to the line, which ends it: delivered, or as a letter.

use crate::attempt::{Attempt, Disposition};
use crate::delivery::{Delivery, ReplayMark};
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::ids::{EndpointId, EventId, LetterId, Tenant};
use crate::letter::ReplayWindow;
use crate::pause::MAX_HOLD;
use crate::replay::replay_generation;
use crate::time::UnixMillis;
use std::time::Duration;

/// What comes due in RETRIES may be so late before it is a delivery.
const LATE: Duration = Duration::from_secs(60);

/// What the log of attempts says of one event at one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    delivered: bool,
    ours: bool,
    retried_at: Option<UnixMillis>,
}

impl Standing {
    /// After one more record, in the order of the log. `ours` is the generation of the recovery
    /// itself.
    #[must_use]
    pub fn after(self, record: &Attempt, ours: u64) -> Standing {
        Standing {
            delivered: self.delivered || record.disposition == Disposition::Complete,
            ours: self.ours || record.replay_generation == ours,
            retried_at: match record.disposition {
                Disposition::Retry { .. } => Some(record.at),
                _ => None,
            },
        }
    }

    /// Whether one of the attempts was a success, and none the recovery's own.
    #[must_use]
    pub fn is_delivered_by_others(self) -> bool {
        self.delivered && !self.ours
    }
}

/// All that is known of an event when it is its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// What the log says.
    pub standing: Standing,
    /// The generation of a delivery that was seen where deliveries wait; 0 in its first life.
    pub waiting: Option<u64>,
    /// It waits to be fanned out, so that nobody can know yet.
    pub before_fan_out: bool,
    /// When it was asked to go out.
    pub deliver_at: Option<UnixMillis>,
    /// The generation that the recovery gives it.
    pub generation: u64,
}

/// What a recovery does about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is owed.
    Send,
    /// This recovery has sent it already.
    Sent,
    /// It has been delivered.
    Delivered,
    /// Its delivery is under way.
    UnderWay,
}

/// Decides about an event that `endpoint` subscribed to.
#[must_use]
pub fn fate(known: &Known, endpoint: &Endpoint, include_delivered: bool, now: UnixMillis) -> Fate {
    if known.standing.ours || known.waiting == Some(known.generation) {
        return Fate::Sent;
    }
    let due_later = known.deliver_at.is_some_and(|at| at + LATE > now);
    if known.waiting.is_some() || known.before_fan_out || due_later {
        return Fate::UnderWay;
    }
    if known
        .standing
        .retried_at
        .is_some_and(|at| may_wait(at, endpoint, now))
    {
        return Fate::UnderWay;
    }
    match known.standing.delivered && !include_delivered {
        true => Fate::Delivered,
        false => Fate::Send,
    }
}

/// Whether a delivery that was to be tried again after an attempt at this time can still be on
/// its way: no longer than its life, which began before that, and the pauses that are credited.
fn may_wait(retried_at: UnixMillis, endpoint: &Endpoint, now: UnixMillis) -> bool {
    let paused = endpoint.disabled_for(now).min(MAX_HOLD);
    now < retried_at + endpoint.retry.max_age() + paused + LATE
}

/// The generation of what the recovery `job` sends of an event.
#[must_use]
pub fn recovery_generation(
    job: &str,
    tenant: &Tenant,
    event: &EventId,
    endpoint: &EndpointId,
) -> u64 {
    replay_generation(&LetterId::of(tenant, event, endpoint), job)
}

/// The delivery that brings an endpoint an event of the archive: a new life, with a fresh
/// budget, that waits in the replay lane.
#[must_use]
pub fn recovered(
    event: &Event,
    endpoint: &Endpoint,
    event_seq: u64,
    mark: ReplayMark,
    window: ReplayWindow,
) -> Delivery {
    Delivery {
        not_before: window.not_before,
        expires_at: window.expires_at,
        pauses_known: None,
        replay: Some(mark),
        ..Delivery::of(event, endpoint, event_seq, 0, window.not_before)
    }
}

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
