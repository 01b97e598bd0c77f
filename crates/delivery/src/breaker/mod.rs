//! The circuit breaker of one endpoint, shared by all dispatchers.
//!
//! Its state lives in one key that changes by compare-and-swap only, so the functions here
//! are from a state to the state that should replace it. Every transition raises the
//! generation, and every attempt carries the one that it started under: an answer to a
//! question asked before the last transition can neither close nor re-open anything.

mod state;
mod streak;
mod transition;

#[cfg(test)]
mod model_test;

pub use state::{BreakerPolicy, BreakerPolicyError, BreakerSignal, BreakerState, Phase, Probe};
pub use streak::Streak;
pub use transition::{Attempted, claim, close_by_hand, hold, observe, open_by_hand};
