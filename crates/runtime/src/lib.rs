//! The scaffolding of a process: everything a service needs before and after its own work.
//!
//! Five binaries parse the same flags, answer the same probes, drain on the same signal and exit
//! with the same codes. Written five times, they would drift; here they are written once, and a
//! service is a `run(config, shutdown)` that [`process::main_of`] calls.
//!
//! This crate knows nothing of deliveries or of NATS. It holds the two places where a process
//! touches what cannot be replayed, the [`clock`] and the [`rng`], so that all other code can
//! take time and randomness as arguments.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod clock;
pub mod config;
pub mod error;
pub mod metrics;
pub mod ops;
pub mod process;
pub mod readiness;
pub mod rng;
pub mod secret;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod trace;

pub use error::{ExitError, ExitKind};
pub use process::ServiceConfig;
pub use readiness::{Component, Readiness};
pub use secret::SecretString;
pub use shutdown::Shutdown;
