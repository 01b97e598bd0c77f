//! What the dispatcher does with real receivers, good and bad, over real sockets.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "http/answers.rs"]
mod answers;
#[path = "http/connections.rs"]
mod connections;
#[path = "http/frames.rs"]
mod frames;
#[path = "http/memory.rs"]
mod memory;
#[path = "http/names.rs"]
mod names;
#[path = "http/process.rs"]
mod process;
#[path = "http/proxy.rs"]
mod proxy;
#[path = "http/quiet.rs"]
mod quiet;
#[path = "http/raw.rs"]
mod raw;
#[path = "http/secure.rs"]
mod secure;
#[path = "http/support.rs"]
mod support;
#[path = "http/tricks.rs"]
mod tricks;
#[path = "http/wire.rs"]
mod wire;
