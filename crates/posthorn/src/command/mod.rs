//! The commands that are plain clients of the two services.

pub(crate) mod breakers;
pub(crate) mod deliveries;
pub(crate) mod dlq;
pub(crate) mod endpoint_options;
pub(crate) mod endpoints;
pub(crate) mod filter;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod progress;
pub(crate) mod replays;
pub(crate) mod secrets;
pub(crate) mod send;
pub(crate) mod tail;
