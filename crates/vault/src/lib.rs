//! Secrets at rest: what of an endpoint must not be read out of the store.
//!
//! A bucket is copied in backups, mirrored to other regions and read by whoever may read NATS.
//! So an endpoint's secrets, the values of its headers and its URL are kept sealed, and opened
//! only where they are used. What is sealed names the key that opens it, so that keys can be
//! changed one endpoint at a time while deliveries run; and it is bound to its place, so that
//! nobody who can write to the bucket gets at a secret by moving it to an endpoint of his own.
//!
//! The cipher is AES-256-GCM with a random nonce of 96 bits, drawn from the generator that is
//! passed in: one key is good for 2^32 seals (NIST SP 800-38D, 8.3), some forty million changes
//! of endpoints with a hundred fields.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod endpoint;
mod key;
mod mark;
mod place;
mod text;
mod vault;

#[cfg(test)]
mod tests;

pub use key::{KeyId, KeysError, MAX_KEYS};
pub use mark::{MARK_BYTES, Marker};
pub use place::{Field, Place};
pub use text::is_sealed;
pub use vault::{OpenError, Vault};
