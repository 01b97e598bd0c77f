//! The line from a published event to its receivers, in one process on a real nats-server.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "pipeline/breaker.rs"]
mod breaker;
#[path = "pipeline/flow.rs"]
mod flow;
#[path = "pipeline/retry.rs"]
mod retry;
