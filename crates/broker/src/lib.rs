//! The only crate that knows NATS.
//!
//! Services speak to it in domain types: a delivery, an attempt, a dead letter. Subjects,
//! headers, protobuf, acknowledgements and the broker's error codes stop here, so what was
//! learnt of JetStream the hard way is in one place:
//!
//! - a publish that timed out may have been stored, so it is repeated under the same id;
//! - an ack is only an ack once the server has answered it;
//! - nothing is fetched without a free permit, because what lies in a buffer ages;
//! - a delayed NAK on a consumer postpones others unless NAKs come in bursts.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod archive;
mod broker;
pub mod codec;
mod connect;
mod consume;
mod direct;
mod discard;
mod drift;
mod error;
mod kept;
mod kv;
mod lanes;
mod link;
mod log;
mod metric;
mod names;
mod outbox;
mod publish;
mod pump;
mod room;
mod state;
mod topology;
mod unreadable;
mod watched;

pub use archive::{Archive, ArchivePage, Archived};
pub use async_nats::HeaderMap;
pub use broker::Broker;
pub use codec::{DecodeError, Wire};
pub use connect::{ConnectSettings, MINIMUM_SERVER};
pub use consume::{Incoming, PullConsumer};
pub use drift::Drift;
pub use error::BrokerError;
pub use kept::{Kept, Weighed};
pub use kv::{Bucket, Versioned};
pub use lanes::{Answers, LaneStore};
pub use log::{Below, LogPage, LogReader, Logged, Start};
pub use names::{BucketName, DISPATCH, FANOUT, Names, RETRY_NEAR, StreamName, TOKENS};
pub use publish::{Patience, Stored};
pub use pump::{Pump, Pumped};
pub use room::Waiting;
pub use state::StreamState;
pub use topology::{Retention, Topology};
pub use unreadable::Unreadable;
pub use watched::Watched;
