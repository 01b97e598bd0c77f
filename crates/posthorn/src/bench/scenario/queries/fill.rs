//! Letters and attempts as the services store them.

use super::super::rig::Rig;
use crate::bench::failed;
use crate::failure::Failure;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_delivery::{
    Attempt, AttemptResult, AttemptSummary, BreakerSignal, DeadLetter, Disposition, EndpointId,
    EventId, EventType, LetterId, LetterState, MessageId, Reason, Tenant, UnixMillis,
};
use std::ops::Range;

/// The number of the endpoint whose letters and attempts are the oldest.
pub(super) const OLDEST: u32 = 0;
/// The number of one of the nine others.
pub(super) const COMMON: u32 = 3;

/// Whose all of it is.
pub(super) const TENANT: &str = "queried";
const OTHERS: u32 = 9;
/// Publishes in flight.
const AT_ONCE: usize = 256;

/// What is stored, and what is known of it.
pub(super) struct Fill {
    payload: Bytes,
    /// When all events were accepted, as far as their ids tell.
    accepted: UnixMillis,
    /// So many are the oldest.
    oldest: u32,
}

impl Fill {
    /// Of letters with so many bytes of payload, of which so many are the oldest.
    pub fn new(payload: u32, oldest: u32) -> Fill {
        Fill {
            payload: Bytes::from(vec![b'x'; usize::try_from(payload).unwrap_or(0)]),
            accepted: posthorn_wiring::now(),
            oldest,
        }
    }

    /// Stores some of the letters.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn letters(&self, rig: &Rig, which: Range<u32>) -> Result<(), Failure> {
        let publishes = which.map(|n| async move {
            let id = MessageId::of("bench-letter", &[&n.to_be_bytes()]);
            let letter = self.letter(n);
            let stored = rig.broker.publish_letter(&letter, id.as_str(), None).await;
            stored.map(drop).map_err(failed("publishing a letter"))
        });
        futures_util::stream::iter(publishes)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Stores some of the attempts.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn attempts(&self, rig: &Rig, which: Range<u32>) -> Result<(), Failure> {
        let publishes = which.map(|n| async move {
            let stored = rig.broker.publish_attempt(&self.attempt(n)).await;
            stored.map(drop).map_err(failed("publishing an attempt"))
        });
        futures_util::stream::iter(publishes)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// The event of a letter and an attempt. Every other id is made by the clock.
    pub fn event(&self, n: u32) -> EventId {
        let at = u128::try_from(self.accepted.0).unwrap_or(0);
        EventId::from_bits(match n.is_multiple_of(2) {
            true => (at << 80) | (7 << 76) | (2 << 62) | u128::from(n),
            false => (1 << 100) | u128::from(n),
        })
    }

    fn endpoint(&self, n: u32) -> EndpointId {
        match n < self.oldest {
            true => endpoint(OLDEST),
            false => endpoint(1 + n % OTHERS),
        }
    }

    fn kind(&self, n: u32) -> EventType {
        let text = match n < self.oldest {
            true => "invoice.oldest".to_owned(),
            false => format!("invoice.paid.{}", n % OTHERS),
        };
        EventType::parse(&text).expect("the name follows its rule")
    }

    fn reason(&self, n: u32) -> (Reason, u16) {
        match n {
            _ if n < self.oldest => (Reason::Gone, 410),
            _ if n.is_multiple_of(OTHERS) => (Reason::PermanentStatus, 404),
            _ => (Reason::Exhausted, 503),
        }
    }

    fn letter(&self, n: u32) -> DeadLetter {
        let now = posthorn_wiring::now();
        let (event, endpoint) = (self.event(n), self.endpoint(n));
        let (reason, status) = self.reason(n);
        let answer = match n < self.oldest {
            true => "gone for good",
            false => "no",
        };
        DeadLetter {
            id: LetterId::of(&tenant(), &event, &endpoint),
            tenant: TENANT.to_owned(),
            event_id: event.to_string(),
            event_type: self.kind(n).to_string(),
            endpoint_id: Some(endpoint),
            reason,
            detail: String::new(),
            died_at: now,
            accepted_at: now,
            payload: self.payload.clone(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            traceparent: None,
            history: vec![AttemptSummary {
                at: now,
                number: 1,
                result: AttemptResult::Status(status),
                latency_ms: 5,
                sequence: u64::from(n) + 1,
            }],
            state: LetterState::Dead,
            state_since: now,
            replay_generation: 0,
            replays: 0,
            event_seq: u64::from(n) + 1,
            replay_id: String::new(),
            entry: 0,
            answer: answer.to_owned(),
        }
    }

    fn attempt(&self, n: u32) -> Attempt {
        let (reason, status) = self.reason(n);
        Attempt {
            tenant: tenant(),
            event_id: self.event(n),
            event_type: self.kind(n),
            endpoint_id: self.endpoint(n),
            number: 1,
            hop: 0,
            replay_generation: 0,
            at: posthorn_wiring::now(),
            latency_ms: 5,
            result: AttemptResult::Status(status),
            response_body: Bytes::from_static(b"no"),
            disposition: Disposition::Dead(reason),
            breaker_generation: 0,
            probe: false,
            breaker_signal: BreakerSignal::Failure,
            hold_until: None,
            disable_endpoint: false,
            in_order: false,
            detail: String::new(),
            exchange: None,
        }
    }
}

fn tenant() -> Tenant {
    Tenant::parse(TENANT).expect("the name follows its rule")
}

/// The id of an endpoint by its number.
pub(super) fn endpoint(number: u32) -> EndpointId {
    EndpointId::from_bits(u128::from(number) + 1)
}
