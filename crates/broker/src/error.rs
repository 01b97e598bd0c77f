//! What can go wrong between a service and the broker, and whose fault it is.

use async_nats::jetstream;
use std::error::Error;

/// A broker error. No text holds a payload, a header value or a URL.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The server could not be reached within the time allowed.
    #[error("NATS is not reachable")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The connection settings cannot be used: a file that is not there, a bad address.
    #[error("the NATS connection settings are not usable: {0}")]
    Settings(String),
    /// The server is older than [`crate::MINIMUM_SERVER`].
    #[error("nats-server {found} is too old: {minimum} or newer is needed")]
    TooOld {
        /// What answered.
        found: String,
        /// What is needed.
        minimum: String,
    },
    /// JetStream is off, or the account has none.
    #[error("JetStream is not available to this account")]
    NoJetStream(#[source] Box<dyn Error + Send + Sync>),
    /// A stream, bucket or consumer is missing.
    #[error("missing in JetStream: {0}")]
    Missing(String),
    /// No answer in time. What was sent may have been stored.
    #[error("no answer from NATS in time")]
    TimedOut,
    /// Somebody else wrote first.
    #[error("the value has been changed meanwhile")]
    Conflict,
    /// A stream is at its limit and refuses, rather than lose what is not delivered.
    #[error("the stream is full")]
    Full,
    /// The message is over the server's `max_payload`.
    #[error("the message is larger than the server's max_payload")]
    TooLarge,
    /// The server refused for another reason.
    #[error("NATS refused the request")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
    /// The value stored is not what it should be.
    #[error("a stored value could not be read")]
    Undecodable(#[source] crate::DecodeError),
}

impl BrokerError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            BrokerError::Unreachable(_)
                | BrokerError::TimedOut
                | BrokerError::Full
                | BrokerError::Refused(_)
                | BrokerError::Missing(_)
        )
    }

    /// Wraps what a client call returned.
    pub(crate) fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> BrokerError {
        let error = error.into();
        match code_of(error.as_ref()) {
            // 10164 is what a lost compare-and-swap on a replicated stream often comes as.
            Some(10_071 | 10_164) => BrokerError::Conflict,
            Some(10_047 | 10_077 | 10_122 | 10_023) => BrokerError::Full,
            Some(10_039 | 10_076) => BrokerError::NoJetStream(error),
            Some(STREAM_NOT_FOUND | CONSUMER_NOT_FOUND) => BrokerError::Missing(error.to_string()),
            Some(10_054) => BrokerError::TooLarge,
            _ => BrokerError::Refused(error),
        }
    }
}

/// The JetStream error code somewhere in an error's chain.
pub(crate) fn code_of(error: &(dyn Error + 'static)) -> Option<u64> {
    let mut at = Some(error);
    while let Some(here) = at {
        if let Some(code) = code_here(here) {
            return Some(code);
        }
        at = here.source();
    }
    None
}

/// The client keeps the server's code inside of its kinds, which are no sources: each call has
/// an error type of its own.
fn code_here(error: &(dyn Error + 'static)) -> Option<u64> {
    use jetstream::context::{
        ConsumerInfoError, ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind,
        GetStreamError, GetStreamErrorKind,
    };
    use jetstream::stream::{
        ConsumerError, ConsumerErrorKind, DeleteMessageError, DeleteMessageErrorKind,
    };
    if let Some(error) = error.downcast_ref::<jetstream::Error>() {
        return Some(error.error_code().0);
    }
    if let Some(error) = error.downcast_ref::<ConsumerInfoError>() {
        return match error.kind() {
            ConsumerInfoErrorKind::NotFound => Some(CONSUMER_NOT_FOUND),
            ConsumerInfoErrorKind::StreamNotFound => Some(STREAM_NOT_FOUND),
            ConsumerInfoErrorKind::JetStream(inner) => Some(inner.error_code().0),
            _ => None,
        };
    }
    macro_rules! inner {
        ($($error:ty => $kind:path),*) => {
            $(if let Some($kind(inner)) = error.downcast_ref::<$error>().map(|e| e.kind()) {
                return Some(inner.error_code().0);
            })*
        };
    }
    inner!(
        GetStreamError => GetStreamErrorKind::JetStream,
        CreateStreamError => CreateStreamErrorKind::JetStream,
        ConsumerError => ConsumerErrorKind::JetStream,
        DeleteMessageError => DeleteMessageErrorKind::JetStream
    );
    None
}

const STREAM_NOT_FOUND: u64 = 10_059;
const CONSUMER_NOT_FOUND: u64 = 10_014;
