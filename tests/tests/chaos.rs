//! The real binaries, killed at random moments under load, judged by an oracle: what was
//! accepted is delivered or dead-lettered, and a fresh event still passes.
#![allow(clippy::unwrap_used, missing_docs)]
// The figures are part of what a run tells.
#![allow(clippy::print_stdout)]

#[path = "chaos/drain.rs"]
mod drain;
#[path = "chaos/kills.rs"]
mod kills;
#[path = "chaos/load.rs"]
mod load;
#[path = "chaos/order.rs"]
mod order;
#[path = "chaos/outage.rs"]
mod outage;
#[path = "chaos/owners.rs"]
mod owners;
#[path = "chaos/parking.rs"]
mod parking;
#[path = "chaos/replays.rs"]
mod replays;
#[path = "chaos/restarts.rs"]
mod restarts;
#[path = "chaos/site.rs"]
mod site;
#[path = "chaos/storm.rs"]
mod storm;
#[path = "chaos/turn.rs"]
mod turn;
#[path = "chaos/weather.rs"]
mod weather;
