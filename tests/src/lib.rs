//! The test harness: what the suites stand on.
//!
//! A suite runs the real binaries on a real nats-server against a real HTTP receiver, breaks
//! one of them, and asks an oracle whether every accepted event was delivered or dead-lettered.
//! So the harness must not lie: the receiver notes what it saw before it decides what to do,
//! the oracle counts per event and endpoint, and each instrument that could be wrong is tested
//! on known values.
//!
//! | module | is |
//! |---|---|
//! | [`nats`] | a nats-server of the test's own |
//! | [`receiver`] | the endpoint: records every request, answers by script |
//! | [`dns`], [`tls`] | names that say what a test wants, and receivers behind TLS |
//! | [`bins`], [`process`], [`cluster`] | the real binaries, one by one or as a system |
//! | [`api`] | a client of the HTTP interfaces |
//! | [`fault_proxy`] | a connection that can be paused and cut |
//! | [`oracle`], [`stats`] | the judgement |
//! | [`wait`] | waiting for a condition, never for a duration |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
pub mod bins;
pub mod cluster;
pub mod dns;
pub mod fault_proxy;
pub mod nats;
pub mod oracle;
pub mod process;
pub mod receiver;
pub mod rig;
pub mod stats;
pub mod tls;
pub mod wait;

pub use cluster::{Cluster, Role};
pub use nats::TestNats;
pub use receiver::{Receiver, Reply};
pub use wait::{eventually, eventually_some};

/// What a condition is waited for where a test says nothing else: generous, because a test
/// that fails by it has failed on any machine.
pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);
