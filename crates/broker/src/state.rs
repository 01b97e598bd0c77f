//! What the streams look like from outside: counts, ends and ages, for whoever shows them.

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::names::StreamName;
use posthorn_delivery::UnixMillis;
use std::time::Duration;

/// A stream at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Messages that it holds.
    pub messages: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// The sequence of the oldest; one above the last where there is none.
    pub first_sequence: u64,
    /// The sequence of the newest there ever was: how many were stored in all.
    pub last_sequence: u64,
    /// When the oldest was stored.
    pub oldest: Option<UnixMillis>,
}

impl Broker {
    /// What a stream holds.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn stream_state(&self, stream: StreamName) -> Result<StreamState, BrokerError> {
        let handle = self.stream(stream).await?;
        let state = handle.get_info().await.map_err(BrokerError::refused)?.state;
        let millis = state.first_timestamp.unix_timestamp_nanos() / 1_000_000;
        let oldest = UnixMillis(i64::try_from(millis).unwrap_or(0));
        Ok(StreamState {
            messages: state.messages,
            bytes: state.bytes,
            first_sequence: state.first_sequence,
            last_sequence: state.last_sequence,
            oldest: (state.messages > 0).then_some(oldest),
        })
    }

    /// For how long, at `now`, the oldest thing has been due that nobody has sent yet: an event
    /// that is not fanned out, a delivery that is not settled, a retry whose time has come.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn oldest_due(&self, now: UnixMillis) -> Result<Duration, BrokerError> {
        let mut oldest = Duration::ZERO;
        for stream in [StreamName::Events, StreamName::Deliveries] {
            if let Some(at) = self.oldest(stream).await? {
                oldest = oldest.max(now.since(at));
            }
        }
        if let Some(due) = self.oldest_retry_due().await? {
            oldest = oldest.max(now.since(due));
        }
        Ok(oldest)
    }
}
