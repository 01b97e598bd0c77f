//! The commands that are plain clients of the two services.

pub(crate) mod audit;
pub(crate) mod breakers;
pub(crate) mod deliveries;
pub(crate) mod dlq;
pub(crate) mod endpoint_options;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod filter;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod letter;
pub(crate) mod listing;
pub(crate) mod overview;
pub(crate) mod progress;
pub(crate) mod recover;
pub(crate) mod replays;
pub(crate) mod secrets;
pub(crate) mod send;
pub(crate) mod tail;
pub(crate) mod target;
pub(crate) mod trial;
