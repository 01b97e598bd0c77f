//! Dead letters: deliveries given up, kept with their reason and every attempt.

use crate::attempt::AttemptSummary;
use crate::delivery::{Death, Delivery, ReleaseMark, ReplayMark};
use crate::ids::{EndpointId, EventId, EventType, LetterId, Tenant};
use crate::time::UnixMillis;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// Why a delivery was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The attempt budget is spent.
    Exhausted,
    /// `max_age` passed.
    Expired,
    /// The receiver refused it for good.
    PermanentStatus,
    /// 410: the receiver is gone, and its endpoint is disabled.
    Gone,
    /// The endpoint was deleted while the delivery waited.
    EndpointDeleted,
    /// The address may not be called.
    EgressDenied,
    /// The endpoint's configuration gives no valid request or signature.
    Unsignable,
    /// What was published could not be read as an event.
    InvalidEvent,
    /// The message is too large for the broker.
    TooLarge,
    /// The endpoint's backlog is full.
    BacklogFull,
}

impl Reason {
    /// All of them, for tables and tests.
    pub const ALL: [Reason; 10] = [
        Reason::Exhausted,
        Reason::Expired,
        Reason::PermanentStatus,
        Reason::Gone,
        Reason::EndpointDeleted,
        Reason::EgressDenied,
        Reason::Unsignable,
        Reason::InvalidEvent,
        Reason::TooLarge,
        Reason::BacklogFull,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Expired => "expired",
            Reason::PermanentStatus => "permanent_status",
            Reason::Gone => "gone",
            Reason::EndpointDeleted => "endpoint_deleted",
            Reason::EgressDenied => "egress_denied",
            Reason::Unsignable => "unsignable",
            Reason::InvalidEvent => "invalid_event",
            Reason::TooLarge => "too_large",
            Reason::BacklogFull => "backlog_full",
        }
    }

    /// From the stable name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a letter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterState {
    /// Waiting for an operator.
    Dead,
    /// Replayed; its delivery is on its way.
    Replaying,
    /// A replay was delivered: no longer listed, still shown by id.
    Delivered,
}

impl LetterState {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LetterState::Dead => "dead",
            LetterState::Replaying => "replaying",
            LetterState::Delivered => "delivered",
        }
    }
}

/// When a replayed delivery may go out, and when it is given up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    /// The earliest time of its first attempt.
    pub not_before: UnixMillis,
    /// The end of its new `max_age`, which counts from the request.
    pub expires_at: UnixMillis,
}

/// A dead letter.
///
/// Tenant, event and type are plain text: a letter also holds what could not be read as an
/// event, and must be able to say what was there.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Its id, the same however often its delivery dies.
    pub id: LetterId,
    /// Whose event.
    pub tenant: String,
    /// Which event; empty when it could not be read.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// To which endpoint; `None` when it never came to one.
    pub endpoint_id: Option<EndpointId>,
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub detail: String,
    /// When it died last.
    pub died_at: UnixMillis,
    /// When the event was accepted.
    pub accepted_at: UnixMillis,
    /// The body.
    pub payload: Bytes,
    /// Its media type.
    pub content_type: String,
    /// CloudEvents attributes.
    pub headers: Vec<(String, String)>,
    /// Trace context.
    pub traceparent: Option<String>,
    /// Attempts over all its lives.
    pub history: Vec<AttemptSummary>,
    /// Where it stands.
    pub state: LetterState,
    /// When it came to stand there.
    pub state_since: UnixMillis,
    /// Generation of the last replay; 0 when there was none.
    pub replay_generation: u64,
    /// How many replays there were.
    pub replays: u32,
    /// The event's sequence in EVENTS.
    pub event_seq: u64,
    /// The request or job that replayed it last.
    pub replay_id: String,
    /// Where its death stands in the register; 0 where that is not known.
    pub entry: u64,
    /// The beginning of the last answer, at most [`crate::register::MAX_EXCERPT`] bytes.
    pub answer: String,
}

impl DeadLetter {
    /// The letter of `delivery`, which died of `reason` at `now`.
    #[must_use]
    pub fn of(delivery: &Delivery, reason: Reason, now: UnixMillis) -> DeadLetter {
        DeadLetter {
            id: delivery.letter_id(),
            tenant: delivery.tenant.to_string(),
            event_id: delivery.event_id.to_string(),
            event_type: delivery.event_type.to_string(),
            endpoint_id: Some(delivery.endpoint_id.clone()),
            reason,
            detail: String::new(),
            died_at: now,
            accepted_at: delivery.accepted_at,
            payload: delivery.payload.clone(),
            content_type: delivery.content_type.clone(),
            headers: delivery.headers.clone(),
            traceparent: delivery.traceparent.clone(),
            history: delivery.history.clone(),
            state: LetterState::Dead,
            state_since: now,
            replay_generation: delivery.replay_generation(),
            replays: delivery.replay.as_ref().map_or(0, |replay| replay.count),
            event_seq: delivery.event_seq,
            replay_id: delivery
                .replay
                .as_ref()
                .map_or_else(String::new, |r| r.replay_id.clone()),
            entry: 0,
            answer: String::new(),
        }
    }

    /// The letter of a replayed delivery that has now been delivered: it keeps the reason and
    /// the time of the death that the replay undid. `None` for a delivery that had not died,
    /// which has no letter.
    #[must_use]
    pub fn delivered(delivery: &Delivery, now: UnixMillis) -> Option<DeadLetter> {
        let death = delivery.replay.as_ref()?.death?;
        Some(DeadLetter {
            state: LetterState::Delivered,
            died_at: death.at,
            ..DeadLetter::of(delivery, death.reason, now)
        })
    }

    /// The delivery that replays this letter: the same event with a fresh budget, its history
    /// kept. `None` for a letter that never was a delivery (`invalid_event`).
    ///
    /// `generation` must be new for each request, and the same when that request is repeated
    /// after a crash.
    #[must_use]
    pub fn replay(
        &self,
        generation: u64,
        replay_id: &str,
        window: ReplayWindow,
    ) -> Option<Delivery> {
        Some(Delivery {
            tenant: Tenant::parse_any(&self.tenant).ok()?,
            event_id: EventId::parse(&self.event_id).ok()?,
            event_type: EventType::parse(&self.event_type).ok()?,
            endpoint_id: self.endpoint_id.clone()?,
            payload: self.payload.clone(),
            content_type: self.content_type.clone(),
            headers: self.headers.clone(),
            traceparent: self.traceparent.clone(),
            accepted_at: self.accepted_at,
            event_seq: self.event_seq,
            config_revision: 0,
            attempt: 1,
            hop: 0,
            stale_retries: 0,
            release: ReleaseMark::default(),
            not_before: window.not_before,
            expires_at: window.expires_at,
            held: Duration::ZERO,
            pauses_known: None,
            replay: Some(ReplayMark {
                generation,
                replay_id: replay_id.to_owned(),
                count: self.replays.saturating_add(1),
                death: Some(Death {
                    reason: self.reason,
                    at: self.died_at,
                    entry: self.entry,
                }),
            }),
            test: false,
            history: self.history.clone(),
        })
    }
}
