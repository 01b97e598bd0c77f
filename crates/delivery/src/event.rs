//! What an application published.

use crate::ids::{EndpointId, EventId, EventType, Tenant};
use crate::time::UnixMillis;
use bytes::Bytes;

/// An event: its payload is never re-serialised, receivers get the bytes that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its id: `webhook-id` on every attempt to every endpoint.
    pub id: EventId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is about.
    pub event_type: EventType,
    /// The body.
    pub payload: Bytes,
    /// The media type of the body.
    pub content_type: String,
    /// CloudEvents attributes to pass on, lower-case names.
    pub headers: Vec<(String, String)>,
    /// W3C trace context of the publisher.
    pub traceparent: Option<String>,
    /// When it was accepted.
    pub accepted_at: UnixMillis,
    /// Not fanned out before this time.
    pub deliver_at: Option<UnixMillis>,
    /// A test send goes to this endpoint alone.
    pub only_endpoint: Option<EndpointId>,
}

/// The type of a test send, and of nothing else that is for one endpoint only.
pub const TEST_TYPE: &str = "posthorn.test";

/// How far ahead `Deliver-At` may lie: 30 days.
pub const MAX_DELIVER_AHEAD: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);

impl Event {
    /// The time from which `max_age` counts: acceptance, or the time it was asked to go out.
    #[must_use]
    pub fn counts_from(&self) -> UnixMillis {
        self.deliver_at
            .map_or(self.accepted_at, |at| at.max(self.accepted_at))
    }
}
