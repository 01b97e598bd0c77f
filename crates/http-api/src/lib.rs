//! What both HTTP interfaces have in common: how an error looks, who a caller is, how a list is
//! paged, how a time is written, and how a listener is served and drained.
//!
//! Two services that each had their own answer to these would drift, and a client would need
//! two sets of rules for one product. Here is none of what either service is about.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod audit;
pub mod auth;
pub mod body;
mod from_broker;
pub mod job;
pub mod key;
pub mod limit;
pub mod list;
pub mod openapi;
pub mod problem;
pub mod query;
pub mod server;
pub mod session;
pub mod time;
mod trace;

pub use audit::{Act, Action, Audit};
pub use auth::{Authenticator, Identity, KeyHolder, KeySource};
pub use body::{Json, read_body};
pub use job::JobView;
pub use key::MintedKey;
pub use limit::Limiter;
pub use list::{List, Paging};
pub use posthorn_broker::codec::Scope;
pub use problem::{FieldError, Problem};
pub use query::Query;
pub use server::{Limits, dress, serve};
