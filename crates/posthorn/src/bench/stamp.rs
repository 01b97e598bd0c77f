//! The time that a payload was sent at, in the payload.
//!
//! Load and receivers are in one process and read one monotonic clock, so the difference is the
//! latency, whatever happens to the wall clock.

use axum::body::Bytes;
use std::time::Instant;

/// Where the time begins in a payload, and how long it is.
const STAMP: std::ops::Range<usize> = 9..25;

/// A monotonic clock that begins at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        Clock {
            epoch: Instant::now(),
        }
    }

    /// Nanoseconds since the beginning.
    pub fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A payload of `bytes` bytes, at least of what the stamp needs, that says that it is sent
    /// now.
    pub fn payload(&self, bytes: u32) -> Bytes {
        let sent = self.now();
        let mut text = format!("{{\"sent\":\"{sent:016x}\",\"pad\":\"");
        let pad = usize::try_from(bytes).unwrap_or(0);
        text.extend(std::iter::repeat_n('x', pad.saturating_sub(text.len() + 2)));
        text.push_str("\"}");
        Bytes::from(text)
    }
}

/// When a payload was sent, in nanoseconds of its [`Clock`].
pub(crate) fn sent_at(body: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(body.get(STAMP)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_when_it_was_sent() {
        let clock = Clock::start();
        let before = clock.now();
        let payload = clock.payload(1_024);
        assert_eq!(payload.len(), 1_024);
        assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
        let sent = sent_at(&payload).unwrap();
        assert!((before..=clock.now()).contains(&sent));
        assert_eq!(sent_at(b"{}"), None);
    }
}
