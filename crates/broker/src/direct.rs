//! Direct gets of many messages at once, which the client has no call for.
//!
//! The server answers out of what it stores, without a consumer: messages from a sequence or a
//! time on, or the last of each subject below a sequence.

use crate::error::BrokerError;
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use posthorn_delivery::UnixMillis;
use std::time::Duration;

/// Messages asked for in one request.
const MAX_BATCH: usize = 1_000;

/// Where a read begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// At this sequence.
    Sequence(u64),
    /// At what was stored at this time.
    Time(UnixMillis),
}

/// A direct get was refused.
#[derive(Debug, thiserror::Error)]
#[error("direct get answered {0}")]
struct Answered(u16);

/// What a server answers when more subjects match than it takes the last messages of.
const TOO_MANY_SUBJECTS: u16 = 413;

/// The newest message below a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// It is there.
    At(u64),
    /// There is none.
    Nothing,
    /// The server does not say, because the filter matches more than 1,024 subjects.
    Unknown,
}

/// What came of a batched direct get.
pub(crate) struct Answer {
    /// The messages in their order, with the server's headers behind their own.
    pub messages: Vec<async_nats::Message>,
    /// How many more match beyond the last one.
    pub pending: u64,
    /// Whether it came to its end. Some of it may have come before it broke off.
    pub complete: bool,
}

/// A batched direct get of up to `max` messages, with payloads of up to `max_bytes` together.
pub(crate) fn request(
    filter: &str,
    from: Start,
    max: usize,
    max_bytes: Option<usize>,
) -> serde_json::Value {
    let batch = max.clamp(1, MAX_BATCH);
    let mut request = serde_json::json!({ "next_by_subj": filter, "batch": batch });
    match from {
        Start::Sequence(sequence) => request["seq"] = sequence.max(1).into(),
        Start::Time(time) => request["start_time"] = rfc3339(time).into(),
    }
    if let Some(bytes) = max_bytes {
        request["max_bytes"] = bytes.into();
    }
    request
}

/// Asks for messages of `stream`, waiting at most `patience` for each.
pub(crate) async fn ask(
    client: &Client,
    stream: &str,
    request: &serde_json::Value,
    patience: Duration,
) -> Result<Answer, BrokerError> {
    let inbox = client.new_inbox();
    let subscribed = client.subscribe(inbox.clone()).await;
    let mut answers = subscribed.map_err(BrokerError::refused)?;
    let subject = format!("$JS.API.DIRECT.GET.{stream}");
    let body = Bytes::from(request.to_string());
    let asked = client.publish_with_reply(subject, inbox, body).await;
    asked.map_err(BrokerError::refused)?;
    let mut answer = Answer {
        messages: Vec::new(),
        pending: 0,
        complete: false,
    };
    loop {
        let next = tokio::time::timeout(patience, answers.next()).await;
        let Ok(Some(message)) = next else {
            return Ok(answer);
        };
        answer.pending = header(&message, "Nats-Num-Pending").unwrap_or(answer.pending);
        // What has a place in a stream is a message, whatever status its publisher wrote.
        let is_message = header::<u64>(&message, "Nats-Sequence").is_some();
        match message.status.map(|status| status.as_u16()) {
            _ if is_message => answer.messages.push(message),
            None | Some(200) => answer.messages.push(message),
            Some(204 | 404) => {
                answer.complete = true;
                return Ok(answer);
            }
            Some(503) => return Ok(answer),
            Some(code) => {
                return Err(BrokerError::Refused(Box::new(Answered(code))));
            }
        }
    }
}

/// Whether that is why it was refused.
pub(crate) fn is_too_many(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let answered = error.downcast_ref::<Answered>();
    answered.is_some_and(|answered| answered.0 == TOO_MANY_SUBJECTS)
}

fn rfc3339(at: UnixMillis) -> String {
    let nanos = i128::from(at.0) * 1_000_000;
    let format = &time::format_description::well_known::Rfc3339;
    time::OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|at| at.format(format).ok())
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// A header of the server's, which stands behind what a publisher wrote by the same name.
pub(crate) fn header<V: std::str::FromStr>(message: &async_nats::Message, name: &str) -> Option<V> {
    let headers = message.headers.as_ref()?;
    headers.get_last(name)?.as_str().parse().ok()
}

pub(crate) fn parse_time(text: &str) -> Option<UnixMillis> {
    let format = &time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::parse(text, format).ok()?;
    Some(UnixMillis(
        i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?,
    ))
}
