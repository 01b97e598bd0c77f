//! What the dispatcher does with real receivers, good and bad, over real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "http/answers.rs"]
mod answers;
#[path = "http/raw.rs"]
mod raw;
#[path = "http/support.rs"]
mod support;
