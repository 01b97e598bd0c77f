//! Finds and runs nats-server, for `posthorn dev` and for the tests.
//!
//! Everything Posthorn promises rests on a real broker, so neither development nor a test
//! uses a stand-in for it. What makes a real one bearable is that it costs nothing to get:
//! [`find()`] looks where a nats-server may already be and fetches a pinned one otherwise, and
//! [`NatsServer`] starts it on a free port in some tens of milliseconds.
//!
//! Three things go wrong when a server is simply spawned, and each has its own module:
//!
//! * a child outlives a parent that was killed: `supervisor`;
//! * two servers on one data folder both start and corrupt it, as nats-server takes no lock:
//!   `lock`;
//! * a second start on a folder whose server still runs has to find that one: `attach`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attach;
mod builder;
mod command;
mod config;
mod error;
pub mod find;
mod info;
mod lock;
mod probe;
mod server;
mod state;
mod supervisor;
mod version;

pub use builder::Builder;
pub use error::{SignalError, StartError};
pub use find::{FindError, FindOptions, Miss, MissReason, Source, find};
pub use probe::ProbeError;
pub use server::NatsServer;
pub use version::{MINIMUM, Version, VersionError};
