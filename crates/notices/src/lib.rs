//! What the services tell operators: events of the reserved tenant `_posthorn`.
//!
//! They are events like any other: published into EVENTS, fanned out to whoever subscribed in
//! that tenant, signed, retried, dead-lettered. So they may never be about their own kind: what
//! concerns an endpoint, a delivery or a letter of `_posthorn` is told to nobody, or a broken
//! alert endpoint would be told of itself for ever.
//!
//! Each has an id that follows from what it is about. Whoever is redelivered the message that
//! made it says it again, and the broker keeps one; over many copies of a service too. None is
//! worth a delivery: what cannot be published within a few seconds is counted and given up.
//!
//! [`notice`] says what there is to tell and builds the event, [`tally`] bounds how often dead
//! letters are told one by one, [`Notices`] publishes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod body;
mod letters;
pub mod notice;
mod publish;
pub mod tally;

pub use letters::Notices;
pub use notice::Notice;
pub use publish::tell;
