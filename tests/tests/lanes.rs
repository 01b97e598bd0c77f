//! Lanes: what may not be sent waits in order, costs nothing, and is eased back in.

#![allow(clippy::unwrap_used)]

#[path = "lanes/closing.rs"]
mod closing;
#[path = "lanes/holds.rs"]
mod holds;
#[path = "lanes/limits.rs"]
mod limits;
#[path = "lanes/ordered.rs"]
mod ordered;
#[path = "lanes/replays.rs"]
mod replays;
#[path = "lanes/support.rs"]
mod support;
#[path = "lanes/tokens.rs"]
mod tokens;
