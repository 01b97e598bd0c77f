//! API keys over HTTP: making, listing and revoking them. Only the admin key may.
//!
//! A key is shown once, when it is made; what is kept cannot be turned back into it. A revoked
//! key is deleted, and every copy of both services hears of it within a second; who made and who
//! revoked it is in the audit log.

pub mod calls;
mod new_key;
mod view;

pub use new_key::NewKey;
pub use view::{CreatedKey, KeyRate, KeyView};
