//! Replay jobs: every dead letter that matches a filter, or what an endpoint has missed, once, at
//! a rate, through restarts.

pub mod api;
pub mod law;
pub mod recover;
pub mod step;
pub mod view;
mod work;
pub mod worker;
