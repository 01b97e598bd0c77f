//! The names of the headers, in one place so that signer and verifier cannot drift apart.
//!
//! All are lower case, as HTTP/2 demands and HTTP/1.1 allows.

/// The id of the event: the same on every attempt, and the receiver's idempotency key.
pub const WEBHOOK_ID: &str = "webhook-id";
/// The time of this attempt, in whole unix seconds.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Space-separated signatures, each `<version>,<base64>`.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// The id under the name that receivers written for Svix read.
pub const SVIX_ID: &str = "svix-id";
/// The timestamp under the name that receivers written for Svix read.
pub const SVIX_TIMESTAMP: &str = "svix-timestamp";
/// The signatures under the name that receivers written for Svix read.
pub const SVIX_SIGNATURE: &str = "svix-signature";
/// `sha256=` and the hexadecimal digest over timestamp and body.
pub const HUB_SIGNATURE: &str = "x-hub-signature-256";
/// The timestamp that [`HUB_SIGNATURE`] covers.
pub const HUB_TIMESTAMP: &str = "x-webhook-timestamp";
