//! The operator's API on a real nats-server: letters are written as dispatchers write them,
//! requests go through the whole router, and what is on the streams afterwards is looked at.

#![allow(clippy::unwrap_used)]

mod audit;
mod breakers;
mod jobs;
mod keys;
mod lanes;
mod letters;
mod lookup;
mod process;
mod queries;
mod room;
mod surface;
mod tenants;
