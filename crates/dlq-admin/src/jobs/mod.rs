//! Replay jobs: every dead letter that matches a filter, once, at a rate, through restarts.

pub mod api;
pub mod law;
pub mod step;
pub mod view;
pub mod worker;
