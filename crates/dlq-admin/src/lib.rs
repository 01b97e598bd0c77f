//! The operator's room: dead letters, what happened to an event, circuit breakers, lanes, API keys
//! and the log of who did what; and the page that shows it all.
//!
//! Everything here is about what the line has put aside. The service reads the streams DLQ and
//! ATTEMPTS as logs, without consumers, and so takes nothing from the line and can be away or
//! there five times. What it puts back onto the line is replays, in the replay lane of their
//! endpoint: what is sent again never stands before what is published now.
//!
//! What it promises: a letter is never lost by a replay, and each accepted replay is one
//! delivery ([`replay`]); a job sends each matching letter once, through crashes of this
//! service ([`jobs`]); nobody sees or touches another tenant's letters ([`app`]).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
pub mod api_keys;
pub mod app;
pub mod attempts;
pub mod audit;
pub mod breakers;
pub mod config;
pub mod deliveries;
pub mod endpoints;
pub mod filter;
pub mod jobs;
pub mod lanes;
pub mod letters;
pub mod overview;
pub mod page;
pub mod replay;
pub mod retention;
pub mod scan;
mod service;
pub mod store;
#[cfg(test)]
mod testing;
pub mod view;
pub mod walk;

pub use config::{Config, Settings};
pub use service::{Deps, run, serve};
