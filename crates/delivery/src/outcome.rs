//! What came back from an attempt.

use crate::retry::RetryAfter;
use std::fmt;

/// What came back: a status, or a failure to get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered; only the status line decides.
    Status {
        /// The HTTP status.
        code: u16,
        /// The one valid `Retry-After` of the response.
        retry_after: Option<RetryAfter>,
    },
    /// No status came, or no request could be made.
    Failed(Failure),
}

/// Why no status came. Each has a stable name that records and metrics use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name did not resolve.
    Dns,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The whole exchange took longer than the endpoint's timeout.
    Timeout,
    /// A connection that had been kept alive was closed before any byte of an answer.
    StaleConnection,
    /// The connection was lost before a status came.
    Reset,
    /// The peer shut the HTTP/2 connection down (GOAWAY) or refused the stream.
    GoAway,
    /// What came was not HTTP.
    MalformedResponse,
    /// This process has run out of sockets or memory: never the endpoint's fault.
    Local,
    /// The address is one that may not be called.
    EgressDenied,
    /// The endpoint's configuration gives no valid request or signature.
    Unsignable,
    /// Its `max_age` had passed.
    Expired,
    /// The endpoint was deleted.
    EndpointDeleted,
    /// The endpoint had said that it is gone for good.
    EndpointGone,
    /// As much waits for the endpoint as may.
    BacklogFull,
}

impl Failure {
    /// All of them, for tables and tests.
    pub const ALL: [Failure; 15] = [
        Failure::Dns,
        Failure::Connect,
        Failure::Tls,
        Failure::Timeout,
        Failure::StaleConnection,
        Failure::Reset,
        Failure::GoAway,
        Failure::MalformedResponse,
        Failure::Local,
        Failure::EgressDenied,
        Failure::Unsignable,
        Failure::Expired,
        Failure::EndpointDeleted,
        Failure::EndpointGone,
        Failure::BacklogFull,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Dns => "dns",
            Failure::Connect => "connect",
            Failure::Tls => "tls",
            Failure::Timeout => "timeout",
            Failure::StaleConnection => "stale_connection",
            Failure::Reset => "reset",
            Failure::GoAway => "goaway",
            Failure::MalformedResponse => "malformed_response",
            Failure::Local => "local",
            Failure::EgressDenied => "egress_denied",
            Failure::Unsignable => "unsignable",
            Failure::Expired => "expired",
            Failure::EndpointDeleted => "endpoint_deleted",
            Failure::EndpointGone => "endpoint_gone",
            Failure::BacklogFull => "backlog_full",
        }
    }

    /// From the stable name; `None` for one that this version does not know.
    #[must_use]
    pub fn parse(text: &str) -> Option<Failure> {
        Failure::ALL
            .into_iter()
            .find(|failure| failure.as_str() == text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
