//! Signatures of webhooks: making them, and checking them.
//!
//! A receiver has only the bytes of a request to tell a delivery from a forgery, so everything
//! that decides that question is here and is pure: no clock, no I/O, no source of randomness of
//! its own. The sender calls [`sign`] anew for every attempt, because the timestamp is part of
//! what is signed and a receiver refuses an old one. A receiver calls [`Verifier`], which knows
//! several secrets at once so that a rotation never refuses a good delivery.
//!
//! Four schemes are spoken, see [`Scheme`]: two of the Standard Webhooks specification and two
//! for receivers that were written for another sender.
//!
//! ```
//! use posthorn_signing::{Keys, Scheme, Secret, SignedMessage, Verifier, sign};
//!
//! let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
//! let message = SignedMessage::try_new("evt_1", 1_700_000_000, b"{}")?;
//! let keys = Keys { secrets: std::slice::from_ref(&secret), pairs: &[] };
//! let headers = sign(&[Scheme::V1], &keys, &message)?;
//! assert_eq!(headers[0], ("webhook-id", "evt_1".to_owned()));
//!
//! let verifier = Verifier::new([secret]);
//! verifier.verify("evt_1", "1700000000", &headers[2].1, b"{}", 1_700_000_003)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ed25519;
mod headers;
mod hex;
mod mac;
mod message;
mod scheme;
mod secret;
mod sign;
mod verify;

pub use ed25519::{KeyError, KeyPair, PublicKey};
pub use headers::{
    HUB_SIGNATURE, HUB_TIMESTAMP, SVIX_ID, SVIX_SIGNATURE, SVIX_TIMESTAMP, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP,
};
pub use message::{IdError, MAX_ID_BYTES, SignedMessage};
pub use scheme::{Scheme, UnknownScheme};
pub use secret::{Secret, SecretError};
pub use sign::{Keys, SignError, sign};
pub use verify::{DEFAULT_TOLERANCE, MAX_SIGNATURES, Verifier, VerifyError};
