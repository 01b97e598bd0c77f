//! When to try again, and when to stop.

mod backoff;
mod jitter;
mod policy;
mod preset;
mod retry_after;

pub use backoff::Backoff;
pub use jitter::Jitter;
pub use policy::{
    DEFAULT_MAX_AGE, DEFAULT_PERMANENT, MAX_ATTEMPTS, PolicyError, RetryPolicy, RetryPolicyParts,
    Schedule,
};
pub use preset::Preset;
pub use retry_after::{RETRY_AFTER_CEILING, RetryAfter};
