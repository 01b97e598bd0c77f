//! One event owed to one endpoint, with the state that travels with it.

use crate::attempt::{AttemptSummary, MAX_HISTORY};
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::ids::{EndpointId, EventId, EventType, LetterId, MessageId, Tenant};
use crate::letter::Reason;
use crate::time::UnixMillis;
use bytes::Bytes;
use std::time::Duration;

/// A delivery.
///
/// Everything that any copy of any service must know to go on with it is in here: the attempt
/// number is never the broker's redelivery count, which a restart forgets.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Whose event.
    pub tenant: Tenant,
    /// Which event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// To which endpoint.
    pub endpoint_id: EndpointId,
    /// The body.
    pub payload: Bytes,
    /// Its media type.
    pub content_type: String,
    /// CloudEvents attributes to pass on.
    pub headers: Vec<(String, String)>,
    /// Trace context of the publisher.
    pub traceparent: Option<String>,
    /// When the event was accepted.
    pub accepted_at: UnixMillis,
    /// The event's sequence in EVENTS.
    pub event_seq: u64,
    /// An attempt is made under this revision of the endpoints or a later one.
    pub config_revision: u64,
    /// Number of the next attempt, from 1.
    pub attempt: u32,
    /// One more in every successor, whichever stream it goes to.
    pub hop: u32,
    /// Immediate repeats spent on this attempt number after a stale connection.
    pub stale_retries: u32,
    /// The state of the endpoint that it was released under.
    pub release: ReleaseMark,
    /// Not attempted before.
    pub not_before: UnixMillis,
    /// Dead-lettered as expired after.
    pub expires_at: UnixMillis,
    /// Time spent paused or disabled, which does not count against `max_age`.
    pub held: Duration,
    /// How long its endpoint had been disabled, all times together, when that was last
    /// credited; `None` before the first look.
    pub pauses_known: Option<Duration>,
    /// Which replay this is; `None` in its first life.
    pub replay: Option<ReplayMark>,
    /// A test send: attempted once, at once, whatever its endpoint's lane, breaker and switch
    /// say, and without consequences for them. Its record is all that is left of it.
    pub test: bool,
    /// The attempts so far, oldest first, at most [`MAX_HISTORY`].
    pub history: Vec<AttemptSummary>,
}

/// Under which lane epoch and breaker generation a held delivery was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseMark {
    /// Epoch of the endpoint's lane; 0 when it did not come from one.
    pub lane_epoch: u64,
    /// Generation of the endpoint's breaker.
    pub breaker_generation: u64,
    /// Its owner keeps the order: it stays in the lane, and its retries are the owner's.
    pub in_order: bool,
}

/// Which replay a delivery belongs to, and what its letter said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMark {
    /// Never 0; part of every message id.
    pub generation: u64,
    /// The request or job.
    pub replay_id: String,
    /// How many replays there have been, this one included.
    pub count: u32,
    /// The death that it undoes; `None` where it had not died, as of an event that its endpoint
    /// never was sent.
    pub death: Option<Death>,
}

/// How a delivery ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// Why.
    pub reason: Reason,
    /// When.
    pub at: UnixMillis,
    /// Where it stands in the register, to be struck when the replay has ended; 0 where that is
    /// not known.
    pub entry: u64,
}

impl Delivery {
    /// What `event` owes to `endpoint`: fan-out makes one of these for each match.
    #[must_use]
    pub fn of(
        event: &Event,
        endpoint: &Endpoint,
        event_seq: u64,
        config_revision: u64,
        now: UnixMillis,
    ) -> Delivery {
        Delivery {
            tenant: event.tenant.clone(),
            event_id: event.id.clone(),
            event_type: event.event_type.clone(),
            endpoint_id: endpoint.id.clone(),
            payload: event.payload.clone(),
            content_type: event.content_type.clone(),
            headers: event.headers.clone(),
            traceparent: event.traceparent.clone(),
            accepted_at: event.accepted_at,
            event_seq,
            config_revision,
            attempt: 1,
            hop: 0,
            stale_retries: 0,
            release: ReleaseMark::default(),
            not_before: event.counts_from(),
            expires_at: event.counts_from() + endpoint.retry.max_age(),
            held: Duration::ZERO,
            pauses_known: Some(endpoint.disabled_for(now)),
            replay: None,
            test: event.only_endpoint.is_some(),
            history: Vec::new(),
        }
    }

    /// The generation of its replay; 0 in its first life.
    #[must_use]
    pub fn replay_generation(&self) -> u64 {
        self.replay.as_ref().map_or(0, |replay| replay.generation)
    }

    /// The deduplication id of the message that carries it.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        MessageId::of_delivery(
            &self.tenant,
            &self.event_id,
            &self.endpoint_id,
            self.replay_generation(),
            self.hop,
        )
    }

    /// The letter it becomes when it dies.
    #[must_use]
    pub fn letter_id(&self) -> LetterId {
        LetterId::of(&self.tenant, &self.event_id, &self.endpoint_id)
    }

    /// The same delivery one hop on, for the next stream. Without the hop the second trip of
    /// a held delivery would be a duplicate, which the broker acknowledges and does not store.
    #[must_use]
    pub fn next_hop(self) -> Delivery {
        Delivery {
            hop: self.hop.saturating_add(1),
            ..self
        }
    }

    /// The successor that waits until `not_before` without having been attempted.
    #[must_use]
    pub fn deferred(self, not_before: UnixMillis) -> Delivery {
        Delivery {
            not_before,
            ..self.next_hop()
        }
    }

    /// The successor that carries one more attempt in its history.
    #[must_use]
    pub fn with_attempt(mut self, summary: AttemptSummary) -> Delivery {
        if self.history.len() >= MAX_HISTORY {
            self.history.drain(..=self.history.len() - MAX_HISTORY);
        }
        self.history.push(summary);
        self
    }

    /// Whether its `max_age` has passed.
    #[must_use]
    pub fn has_expired(&self, now: UnixMillis) -> bool {
        now >= self.expires_at
    }
}
