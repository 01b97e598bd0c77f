//! The API on a real nats-server: what is answered, and what is stored.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod about;
mod attempts;
mod batches;
mod endpoints;
mod flow;
mod harness;
mod keys;
mod lanes;
mod publishing;
mod recover;
mod sealing;
mod secrets;
