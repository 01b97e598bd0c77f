//! Delivery policy: every decision that Posthorn takes about a delivery, and nothing else.
//!
//! The code here performs no I/O and reads neither clock nor randomness: `now` and `rng` are
//! arguments. That is what lets a test walk through a three-day outage in a microsecond, and
//! what keeps the services free of choices: they fetch a message, ask here, and carry out
//! the answer.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission;
pub mod attempt;
pub mod breaker;
pub mod classify;
pub mod decide;
pub mod delivery;
pub mod endpoint;
pub mod event;
pub mod exchange;
pub mod ids;
pub mod lane;
pub mod letter;
pub mod matching;
pub mod outcome;
pub mod pacer;
pub mod pause;
pub mod ramp;
pub mod recover;
pub mod register;
pub mod replay;
pub mod retry;
pub mod time;

#[cfg(test)]
mod testing;

pub use admission::{Admission, admit};
pub use attempt::{Attempt, AttemptResult, AttemptSummary, Disposition};
pub use breaker::{BreakerPolicy, BreakerSignal, BreakerState};
pub use decide::{Decision, decide};
pub use delivery::Delivery;
pub use endpoint::{DisabledReason, Endpoint, Ordering, RateLimit};
pub use event::Event;
pub use exchange::Exchange;
pub use ids::{EndpointId, EventId, EventType, LetterId, MessageId, Tenant};
pub use lane::{LaneId, LaneKind, LaneReason, LaneState};
pub use letter::{DeadLetter, LetterState, Reason};
pub use matching::Pattern;
pub use outcome::{Failure, Outcome};
pub use register::LetterEntry;
pub use replay::{Counted, Recovery, ReplayJob, ReplayState};
pub use retry::RetryPolicy;
pub use time::UnixMillis;
