//! The record of an attempt, and what a delivery remembers of it.

use crate::breaker::BreakerSignal;
use crate::exchange::Exchange;
use crate::ids::{EndpointId, EventId, EventType, MessageId, Tenant};
use crate::letter::Reason;
use crate::outcome::{Failure, Outcome};
use crate::time::UnixMillis;
use bytes::Bytes;

/// How many attempts a delivery remembers. Records in ATTEMPTS go on beyond it.
pub const MAX_HISTORY: usize = 64;

/// How many bytes of a response body are kept.
pub const MAX_RESPONSE_BODY: usize = 4096;

/// A status, or the reason why none came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The receiver answered with this status.
    Status(u16),
    /// It did not.
    Error(Failure),
}

impl From<&Outcome> for AttemptResult {
    fn from(outcome: &Outcome) -> AttemptResult {
        match outcome {
            Outcome::Status { code, .. } => AttemptResult::Status(*code),
            Outcome::Failed(failure) => AttemptResult::Error(*failure),
        }
    }
}

/// One attempt as a delivery remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptSummary {
    /// When it began.
    pub at: UnixMillis,
    /// Its number, from 1; a replay begins at 1 again.
    pub number: u32,
    /// What came back.
    pub result: AttemptResult,
    /// How long it took, milliseconds.
    pub latency_ms: u32,
    /// Sequence of the full record in ATTEMPTS.
    pub sequence: u64,
}

/// What happens next with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Delivered.
    Complete,
    /// Attempted again, not before this time.
    Retry {
        /// The earliest time of the next attempt.
        not_before: UnixMillis,
        /// The next attempt has this attempt's number: it spent nothing of the budget.
        same_attempt: bool,
    },
    /// Given up.
    Dead(Reason),
    /// Never attempted, because the endpoint was disabled for good when the event came.
    Skipped,
}

/// The full record of an attempt.
///
/// It is written before anything else is done about the outcome and holds the decision: a
/// second dispatcher that gets the same message finds the record and carries out that
/// decision instead of making another.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Whose event.
    pub tenant: Tenant,
    /// Which event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: EventType,
    /// To which endpoint.
    pub endpoint_id: EndpointId,
    /// Attempt number, from 1.
    pub number: u32,
    /// The delivery's hop.
    pub hop: u32,
    /// The delivery's replay generation.
    pub replay_generation: u64,
    /// When it began.
    pub at: UnixMillis,
    /// How long it took, milliseconds.
    pub latency_ms: u32,
    /// What came back.
    pub result: AttemptResult,
    /// The first [`MAX_RESPONSE_BODY`] bytes of the response.
    pub response_body: Bytes,
    /// What was decided.
    pub disposition: Disposition,
    /// The breaker generation that it started under.
    pub breaker_generation: u64,
    /// Whether it was the one probe of a half-open breaker.
    pub probe: bool,
    /// What it tells the breaker.
    pub breaker_signal: BreakerSignal,
    /// Until when the whole endpoint asked to be left alone.
    pub hold_until: Option<UnixMillis>,
    /// Whether the endpoint said that it is gone for good.
    pub disable_endpoint: bool,
    /// It was sent in order: a retry is left to the owner of the lane.
    pub in_order: bool,
    /// The rule that kept the request from being made; empty where the result says it all.
    pub detail: String,
    /// Of a test send: what was said and answered. Nothing else keeps it.
    pub exchange: Option<Box<Exchange>>,
}

impl Attempt {
    /// The id that makes the record unique for its input message.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        MessageId::of_delivery(
            &self.tenant,
            &self.event_id,
            &self.endpoint_id,
            self.replay_generation,
            self.hop,
        )
    }

    /// What the delivery keeps of it.
    #[must_use]
    pub fn summary(&self, sequence: u64) -> AttemptSummary {
        AttemptSummary {
            at: self.at,
            number: self.number,
            result: self.result,
            latency_ms: self.latency_ms,
            sequence,
        }
    }
}
