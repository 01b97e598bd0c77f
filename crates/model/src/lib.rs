//! The line as a model: one endpoint, its lane, its breaker, and everybody who works on them.
//!
//! What cannot be seen by looking at the code of a service is what happens between two
//! services, a broker and a crash. So that is written down here once more, step by step, and a
//! checker walks every order of the steps. Each write to the broker is a step of its own, after
//! each a process may be killed; what it had in its memory is gone, and what it had taken and
//! not acked comes back. Every decision in between is made by the functions that the services
//! call: the breaker's, the gate's, the lane's.
//!
//! A process that is behind in what it watches is a decision on the value before the last
//! change: it may be taken wherever the other one may, so often in a run as the settings say.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod action;
pub mod arguments;
pub mod breaker;
pub mod canon;
pub mod closing;
pub mod dispatch;
pub mod explore;
pub mod fan;
pub mod key;
pub mod line;
pub mod mishap;
pub mod model;
pub mod owner;
pub mod parcel;
pub mod properties;
pub mod settings;
pub mod state;
pub mod story;
pub mod streams;
pub mod suite;
pub mod templates;
pub mod work;
