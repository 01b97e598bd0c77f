//! Events that the client library cannot read.
//!
//! A publisher may put any bytes into a subject and into headers, and the server stores them.
//! Our client closes its connection over a header that is no text, or that is none at all, and
//! takes a status line for the server's own. Such a message is never handed to anybody, so it
//! comes again after every ack wait, for ever, and takes the connection of all others with it.
//!
//! They are found by their age: an event that was handed out and still lies there after some
//! seconds is asked for in the JSON form, which carries headers and payload as base64.

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::names::StreamName;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::RawMessage;
use async_nats::{HeaderName, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use posthorn_delivery::UnixMillis;
use std::str::FromStr;
use std::time::Duration;

/// Events looked at in one call while none is found; the next call goes on where the consumer
/// then stands.
const MAX_LOOKED_AT: usize = 256;
/// And once one is found: who sends one such event sends more, and one that is taken out before
/// it is handed over costs no connection.
const MAX_LOOKED_AHEAD: usize = 2_048;
const NO_MESSAGE: u64 = 10_037;

/// An event whose subject or headers the client library cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Where it is stored.
    pub sequence: u64,
    /// Its subject; what is no UTF-8 in it has been replaced.
    pub subject: String,
    /// Its bytes.
    pub payload: Bytes,
    /// When it was stored.
    pub stored_at: UnixMillis,
}

impl Broker {
    /// Events that were handed out, are at least `age` old, and cannot be read, and with them
    /// those that follow. Where nothing is stuck this costs one or two requests.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn unreadable_events(
        &self,
        now: UnixMillis,
        age: Duration,
    ) -> Result<Vec<Unreadable>, BrokerError> {
        let consumer = self.fanout_info().await?;
        let info = consumer
            .inner
            .get_info()
            .await
            .map_err(BrokerError::refused)?;
        let mut found = Vec::new();
        if info.num_ack_pending == 0 {
            return Ok(found);
        }
        let mut from = info.ack_floor.stream_sequence + 1;
        for looked_at in 0..MAX_LOOKED_AHEAD {
            let Some(raw) = self.raw_event(from).await? else {
                break;
            };
            let stored_at = millis(&raw);
            // In the order of sequences what follows is younger still.
            let stuck = looked_at < MAX_LOOKED_AT
                && raw.sequence <= info.delivered.stream_sequence
                && now.since(stored_at) >= age;
            if found.is_empty() && !stuck {
                break;
            }
            from = raw.sequence + 1;
            if !is_readable(&raw) {
                found.push(Unreadable {
                    sequence: raw.sequence,
                    payload: STANDARD.decode(&raw.payload).unwrap_or_default().into(),
                    subject: raw.subject,
                    stored_at,
                });
            }
        }
        Ok(found)
    }

    /// Takes an event out of the queue by its place; it cannot be acknowledged. One that is
    /// gone already is no error.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn remove_event(&self, sequence: u64) -> Result<(), BrokerError> {
        let log = self.log::<posthorn_delivery::Event>(StreamName::Events);
        log.await?.delete(sequence).await
    }

    /// The first event at or after a sequence.
    async fn raw_event(&self, from: u64) -> Result<Option<RawMessage>, BrokerError> {
        let filter = self.names().events_all();
        let asked = serde_json::json!({ "seq": from, "next_by_subj": filter });
        self.raw(StreamName::Events, &asked).await
    }

    /// The message that is asked for, with its headers as they are; `None` when there is none.
    pub(crate) async fn raw(
        &self,
        stream: StreamName,
        asked: &serde_json::Value,
    ) -> Result<Option<RawMessage>, BrokerError> {
        let stream = self.names().stream(stream);
        let request = Request::new().payload(asked.to_string().into());
        let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
        let answer = self
            .client()
            .send_request(subject, request)
            .await
            .map_err(BrokerError::refused)?;
        let answer = serde_json::from_slice::<Response<Found>>(&answer.payload);
        match answer.map_err(BrokerError::refused)? {
            Response::Ok(found) => Ok(Some(found.message)),
            Response::Err { error } if error.error_code().0 == NO_MESSAGE => Ok(None),
            Response::Err { error } => Err(BrokerError::refused(error)),
        }
    }
}

#[derive(serde::Deserialize)]
struct Found {
    message: RawMessage,
}

fn millis(raw: &RawMessage) -> UnixMillis {
    let millis = raw.time.unix_timestamp_nanos() / 1_000_000;
    UnixMillis(i64::try_from(millis).unwrap_or(0))
}

/// Whether the client library hands this message over as what it is.
pub(crate) fn is_readable(raw: &RawMessage) -> bool {
    let headers = raw
        .headers
        .as_deref()
        .map_or(Ok(Vec::new()), |text| STANDARD.decode(text));
    !raw.subject.contains(char::REPLACEMENT_CHARACTER)
        && headers.is_ok_and(|headers| headers.is_empty() || are_readable(&headers))
}

/// The rules of the client: text without a line break of its own, a version line without a
/// status, and names with values.
fn are_readable(headers: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(headers) else {
        return false;
    };
    if text.replace("\r\n", "\n").contains('\r') {
        return false;
    }
    let mut lines = text.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("NATS/1.0"));
    if status.is_none_or(|status| !status.trim().is_empty()) {
        return false;
    }
    let mut after_a_header = false;
    lines.filter(|line| !line.is_empty()).all(|line| {
        let continues = after_a_header && line.starts_with(char::is_whitespace);
        after_a_header = true;
        continues
            || line
                .split_once(':')
                .is_some_and(|(name, _)| HeaderName::from_str(name).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn js_17_headers_are_judged_as_the_client_reads_them() {
        for (headers, readable) in [
            (&b"NATS/1.0\r\n\r\n"[..], true),
            (
                b"NATS/1.0\r\nNats-Msg-Id: acme:1\r\nX: \xc3\xa4\r\n\r\n",
                true,
            ),
            (b"NATS/1.0\r\nX: a\r\n b\r\n\r\n", true),
            (b"NATS/1.0\r\nX:\r\n\r\n", true),
            (b"NATS/1.0\r\nX: \xff\r\n\r\n", false),
            (b"NATS/1.0\r\nX: a\rb\r\n\r\n", false),
            (b"NATS/1.0\r\nno colon\r\n\r\n", false),
            (b"NATS/1.0\r\nX Y: a\r\n\r\n", false),
            (b"NATS/1.0 404\r\n\r\n", false),
            (b"NATS/1.0 503 No Responders\r\n\r\n", false),
            (b"NATS/2.0\r\n\r\n", false),
            (b"abcd", false),
        ] {
            let shown = String::from_utf8_lossy(headers);
            assert_eq!(are_readable(headers), readable, "{shown:?}");
        }
    }
}
