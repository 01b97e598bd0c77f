//! One request as it came.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

/// A request that was read to its end.
#[derive(Debug)]
pub struct Received {
    at: Instant,
    unix_ms: u64,
    connection: usize,
    head: Head,
    body: Bytes,
    answered: OnceLock<(u16, Instant)>,
}

/// The request line and the headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub method: String,
    pub target: String,
    /// As written by the sender, in its order.
    pub headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn path(&self) -> &str {
        let target = &self.target;
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl Received {
    pub(crate) fn now(connection: usize, head: Head, body: Bytes) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at: Instant::now(),
            unix_ms: u64::try_from(unix.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            connection,
            head,
            body,
            answered: OnceLock::new(),
        }
    }

    /// When the request was complete.
    #[must_use]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// When the request was complete, in milliseconds since 1970.
    #[must_use]
    pub fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    /// On which connection it came, counted from 1.
    #[must_use]
    pub fn connection(&self) -> usize {
        self.connection
    }

    /// The method, such as `POST`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.head.method
    }

    /// The path, without a query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.head.path()
    }

    /// The target as it was written: path and query.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.head.target
    }

    /// The first header of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Every header in the sender's order and writing.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.head.headers
    }

    /// The `webhook-id`, or nothing.
    #[must_use]
    pub fn webhook_id(&self) -> &str {
        self.header("webhook-id").unwrap_or_default()
    }

    /// The body's bytes.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The status that was written out to its end; `None` while, or if, there is none.
    #[must_use]
    pub fn answered(&self) -> Option<u16> {
        self.answered.get().map(|(status, _)| *status)
    }

    /// How long the answer took from the complete request to its last byte.
    #[must_use]
    pub fn answered_after(&self) -> Option<Duration> {
        self.answered.get().map(|(_, at)| *at - self.at)
    }

    pub(crate) fn set_answered(&self, status: u16) {
        // Only one answer is ever written.
        let _ = self.answered.set((status, Instant::now()));
    }

    /// A request that never came, for the tests of what reads requests.
    #[cfg(test)]
    pub(crate) fn for_test(path: &str, headers: &[(&str, &str)], status: Option<u16>) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let head = Head {
            method: "POST".to_owned(),
            target: path.to_owned(),
            headers: headers.iter().map(own).collect(),
        };
        let received = Self::now(1, head, Bytes::new());
        if let Some(status) = status {
            received.set_answered(status);
        }
        received
    }
}
