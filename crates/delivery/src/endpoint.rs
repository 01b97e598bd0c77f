//! A URL of a tenant that subscribed to event types, with its secrets and policies.

use crate::breaker::BreakerPolicy;
use crate::ids::{EndpointId, EventType, Tenant};
use crate::matching::Pattern;
use crate::retry::RetryPolicy;
use crate::time::UnixMillis;
use std::fmt;
use std::time::Duration;

/// Bounds of an endpoint's settings, stated once for the API, its documentation and tests.
pub mod limits {
    use std::time::Duration;
    /// Custom headers of one endpoint.
    pub const MAX_HEADERS: usize = 32;
    /// Bytes of one custom header value.
    pub const MAX_HEADER_VALUE: usize = 4096;
    /// Characters of a description.
    pub const MAX_DESCRIPTION: usize = 1024;
    /// Patterns of one endpoint.
    pub const MAX_PATTERNS: usize = 64;
    /// Shortest and longest timeout of an attempt.
    pub const TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
    /// Requests in flight to one endpoint.
    pub const MAX_IN_FLIGHT: u32 = 1024;
    /// Deliveries that may wait in a lane.
    pub const MAX_BACKLOG: u64 = 1_000_000;
    /// Secrets that sign at the same time.
    pub const MAX_SECRETS: usize = 10;
    /// The longest overlap of a secret rotation: 7 days.
    pub const MAX_OVERLAP: Duration = Duration::from_secs(7 * 86_400);
}

/// In which order an endpoint gets its deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ordering {
    /// As they come; a retry lets others pass.
    #[default]
    None,
    /// One after the other, in the order in which the events were accepted; a retry holds up
    /// all that follow.
    Fifo,
}

impl Ordering {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Ordering::None => "none",
            Ordering::Fifo => "fifo",
        }
    }

    /// From the stable name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Ordering> {
        [Ordering::None, Ordering::Fifo]
            .into_iter()
            .find(|ordering| ordering.as_str() == text)
    }
}

/// So many requests a second, over all dispatchers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    per_second_milli: u32,
}

/// Why a number is no rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rate_limit.per_second is from 0.01 to 10000")]
pub struct RateLimitError;

impl RateLimit {
    /// `rate` requests a second, from 0.01 to 10,000, kept to the thousandth.
    ///
    /// # Errors
    /// [`RateLimitError`] outside of that.
    pub fn per_second(rate: f64) -> Result<RateLimit, RateLimitError> {
        if !(0.01..=10_000.0).contains(&rate) {
            return Err(RateLimitError);
        }
        // In range, so the cast keeps the value.
        RateLimit::from_milli((rate * 1_000.0).round() as u32)
    }

    /// The same in requests per 1,000 seconds, from 10 to 10,000,000.
    ///
    /// # Errors
    /// [`RateLimitError`] outside of that.
    pub fn from_milli(per_second_milli: u32) -> Result<RateLimit, RateLimitError> {
        match per_second_milli {
            10..=10_000_000 => Ok(RateLimit { per_second_milli }),
            _ => Err(RateLimitError),
        }
    }

    /// Requests per 1,000 seconds.
    #[must_use]
    pub fn milli(self) -> u32 {
        self.per_second_milli
    }

    /// The time from one request to the next.
    #[must_use]
    pub fn interval(self) -> Duration {
        Duration::from_micros(1_000_000_000 / u64::from(self.per_second_milli))
    }
}

/// Why an endpoint is disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisabledReason {
    /// Somebody paused it.
    Paused,
    /// Its breaker has been open for days.
    Breaker,
    /// It answered 410.
    Gone,
}

impl DisabledReason {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DisabledReason::Paused => "paused",
            DisabledReason::Breaker => "breaker",
            DisabledReason::Gone => "gone",
        }
    }

    /// From the stable name.
    #[must_use]
    pub fn parse(text: &str) -> Option<DisabledReason> {
        [
            DisabledReason::Paused,
            DisabledReason::Breaker,
            DisabledReason::Gone,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == text)
    }
}

/// Text that must not be printed: a signing secret, a URL with a token in its path.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides `text`.
    #[must_use]
    pub fn new(text: String) -> Hidden {
        Hidden(text)
    }

    /// The text, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A signing secret and how long it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    /// `whsec_…` or `whsk_…`.
    pub text: Hidden,
    /// It signs until then; `None` for the newest, which has no end.
    pub expires_at: Option<UnixMillis>,
}

impl StoredSecret {
    /// Whether it signs at `now`.
    #[must_use]
    pub fn is_live(&self, now: UnixMillis) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// An endpoint. The ingest service checks every field before one is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where to.
    pub url: Hidden,
    /// Which types it wants; any match is enough.
    pub event_types: Vec<Pattern>,
    /// For people.
    pub description: String,
    /// Sent with every request; values may hold credentials.
    pub headers: Vec<(String, Hidden)>,
    /// Signature schemes by name: `v1`, `v1a`, `hub`, `svix`.
    pub signatures: Vec<String>,
    /// Symmetric secrets, newest first.
    pub secrets: Vec<StoredSecret>,
    /// Ed25519 pairs, newest first.
    pub key_pairs: Vec<StoredSecret>,
    /// Why and since when it is disabled; `None` when it is enabled.
    pub disabled: Option<(DisabledReason, UnixMillis)>,
    /// How long it was disabled before, all times together.
    pub disabled_before: Duration,
    /// In which order it gets its deliveries.
    pub ordering: Ordering,
    /// Bound of the requests a second; `None` is none.
    pub rate_limit: Option<RateLimit>,
    /// Bound of what waits in its lane, from 1 to [`limits::MAX_BACKLOG`]; what comes beyond it
    /// is dead-lettered as `backlog_full`.
    pub max_backlog: u64,
    /// When and how often to try again.
    pub retry: RetryPolicy,
    /// Bound of one whole exchange.
    pub timeout: Duration,
    /// Bound of the requests in flight.
    pub max_in_flight: u32,
    /// When to stop trying for a while; `None` is never.
    pub breaker: Option<BreakerPolicy>,
    /// Raised by a change of URL or secret: what the breaker knew of the old target says
    /// nothing about the new one.
    pub target_epoch: u64,
    /// When it was created.
    pub created_at: UnixMillis,
    /// When it was changed last.
    pub updated_at: UnixMillis,
}

impl Endpoint {
    /// Whether it subscribed to this type.
    #[must_use]
    pub fn wants(&self, event_type: &EventType) -> bool {
        self.event_types
            .iter()
            .any(|pattern| pattern.matches(event_type))
    }

    /// Why it is disabled, if it is.
    #[must_use]
    pub fn disabled_reason(&self) -> Option<DisabledReason> {
        self.disabled.map(|(reason, _)| reason)
    }
}
