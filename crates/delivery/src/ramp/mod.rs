//! How an endpoint is eased back in after an outage.
//!
//! When a breaker closes, up to a million deliveries wait in the endpoint's lane. An endpoint
//! that has just come up and gets all it can hold of them goes down again, so its lane's owner
//! asks here how many it may let go. Nobody tells what the endpoint can bear: the only
//! evidence is its answers since the ramp began, how many, how fast and how good. Each ramp
//! starts afresh; what was true before the outage may have been its cause.
//!
//! Two bounds hold at once. The *pace* is a rate that begins at ten a second, at most doubles
//! in a second, never runs far ahead of what was answered well, and after a sign of distress
//! falls below the rate of good answers. The *window* bounds what is in flight; when latency
//! has doubled it shrinks to what the endpoint had in hand without a queue. Signs of distress
//! are latency well above this ramp's lowest, and more failures than this endpoint usually has.
//!
//! The pace is TCP Westwood's, the window TCP Vegas's; where they come from, what else was
//! tried, and what each does with simulated receivers is in
//! `docs/adr/0012-ramp-after-recovery.md`.

mod failures;
mod latency;
mod law;
mod pace;
mod passed;
mod tally;

#[cfg(test)]
mod simulation;

pub use law::{Answer, Ramp};
