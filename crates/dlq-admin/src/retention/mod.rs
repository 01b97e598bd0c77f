//! What the limits of the streams drop, and the budgets of tenants.
//!
//! The broker drops the oldest of what is too old or too much, and tells nobody. A look every
//! ten seconds finds out from the streams' states how much that was. What is more than a
//! tenant's budget of dead letters it does not know at all: a limit of its own is for a whole
//! stream, where one tenant's storm would push out all the others' letters. So the letters are
//! weighed here, without being read, and the oldest of a tenant that is over go.

pub mod api;
mod budget;
mod drops;
mod watch;

pub use drops::{Drops, Limit};
pub(crate) use watch::watch;
