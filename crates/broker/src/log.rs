//! Reading a stream as a log, by sequence and subject, without a consumer.
//!
//! One request brings many messages (the batched form of a direct get), so looking for the
//! attempts of an event or the letters of an endpoint costs the broker an index look-up and
//! no state.

use crate::codec::Wire;
use crate::error::BrokerError;
use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use posthorn_delivery::UnixMillis;
use std::marker::PhantomData;
use std::time::Duration;

/// A message of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged<T> {
    /// Where it is stored.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// When it was stored.
    pub stored_at: UnixMillis,
    /// What it says.
    pub value: T,
}

/// Some messages in ascending order of their sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage<T> {
    /// The messages.
    pub items: Vec<Logged<T>>,
    /// How many more match beyond the last one.
    pub pending: u64,
}

/// Reads one stream whose messages are of one type.
pub struct LogReader<T> {
    client: Client,
    stream: String,
    handle: async_nats::jetstream::stream::Stream<()>,
    kind: PhantomData<fn() -> T>,
}

/// The longest wait between two messages of one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a server answers when the message to be deleted is not there.
const GONE: [u64; 2] = [10_043, 10_057];
/// Messages asked for in one request.
const MAX_BATCH: usize = 1_000;

impl<T: Wire> LogReader<T> {
    pub(crate) fn new(
        client: Client,
        stream: String,
        handle: async_nats::jetstream::stream::Stream<()>,
    ) -> LogReader<T> {
        LogReader {
            client,
            stream,
            handle,
            kind: PhantomData,
        }
    }

    /// The first and the last sequence of the stream.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn bounds(&self) -> Result<(u64, u64), BrokerError> {
        let info = self.handle.get_info().await.map_err(BrokerError::refused)?;
        Ok((info.state.first_sequence, info.state.last_sequence))
    }

    /// How many messages match a subject filter, where the server counts them per subject.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn count(&self, filter: &str) -> Result<u64, BrokerError> {
        let mut subjects = self
            .handle
            .info_with_subjects(filter)
            .await
            .map_err(BrokerError::refused)?;
        let mut total = 0_u64;
        while let Some(subject) = subjects.next().await {
            let (_, count) = subject.map_err(BrokerError::refused)?;
            total += u64::try_from(count).unwrap_or(0);
        }
        Ok(total)
    }

    /// Up to `max` messages that match `filter`, from sequence `from` on. What cannot be read
    /// is left out and logged.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read(
        &self,
        filter: &str,
        from: u64,
        max: usize,
    ) -> Result<LogPage<T>, BrokerError> {
        self.read_within(filter, Start::Sequence(from), max, None)
            .await
    }

    /// Up to `max` messages on `filter` that were stored at `since` or later.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read_since(
        &self,
        filter: &str,
        since: UnixMillis,
        max: usize,
    ) -> Result<LogPage<T>, BrokerError> {
        self.read_within(filter, Start::Time(since), max, None)
            .await
    }

    /// The sequence of the oldest message on `filter` that was stored at `at` or later; `None`
    /// when there is none.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn first_since(
        &self,
        filter: &str,
        at: UnixMillis,
    ) -> Result<Option<u64>, BrokerError> {
        let request = request(filter, Start::Time(at), 1, None);
        let answer = ask(&self.client, &self.stream, &request, PATIENCE).await?;
        if !answer.complete {
            return Err(BrokerError::TimedOut);
        }
        let first = answer.messages.first();
        Ok(first.and_then(|message| header(message, "Nats-Sequence")))
    }

    /// How many messages match `filter`: the server counts them by subject, and does not read
    /// them.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn how_many(&self, filter: &str) -> Result<u64, BrokerError> {
        let request = request(filter, Start::Sequence(1), 1, None);
        let answer = ask(&self.client, &self.stream, &request, PATIENCE).await?;
        if !answer.complete {
            return Err(BrokerError::TimedOut);
        }
        let first = u64::try_from(answer.messages.len()).unwrap_or(0);
        Ok(first + answer.pending)
    }

    /// Where the newest message on `filter` below the sequence `below` lies. The server finds it
    /// by what it knows of each subject, over whatever lies between.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn newest_below(&self, filter: &str, below: u64) -> Result<Below, BrokerError> {
        if below <= 1 {
            return Ok(Below::Nothing);
        }
        let request = serde_json::json!({ "multi_last": [filter], "up_to_seq": below - 1 });
        let answer = match ask(&self.client, &self.stream, &request, PATIENCE).await {
            Err(BrokerError::Refused(error)) if is_too_many(error.as_ref()) => {
                return Ok(Below::Unknown);
            }
            other => other?,
        };
        if !answer.complete {
            return Err(BrokerError::TimedOut);
        }
        let sequences = answer.messages.iter();
        let newest = sequences.filter_map(|message| header(message, "Nats-Sequence"));
        Ok(newest.max().map_or(Below::Nothing, Below::At))
    }

    /// The same, and no more than `max_bytes` of payload, of which the first message may be
    /// more by itself.
    pub(crate) async fn read_within(
        &self,
        filter: &str,
        from: Start,
        max: usize,
        max_bytes: Option<usize>,
    ) -> Result<LogPage<T>, BrokerError> {
        let request = request(filter, from, max, max_bytes);
        let answer = ask(&self.client, &self.stream, &request, PATIENCE).await?;
        if !answer.complete {
            return Err(BrokerError::TimedOut);
        }
        Ok(LogPage {
            items: answer.messages.into_iter().filter_map(logged).collect(),
            pending: answer.pending,
        })
    }

    /// The one message at a sequence; `None` when it is not there any more.
    ///
    /// # Errors
    /// When the server does not answer, or the message cannot be read.
    pub async fn at(&self, sequence: u64) -> Result<Option<Logged<T>>, BrokerError> {
        use async_nats::jetstream::stream::DirectGetErrorKind;
        match self.handle.direct_get(sequence).await {
            Ok(message) => stored(message).map(Some),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(BrokerError::refused(error)),
        }
    }

    /// The last message on a subject, which may hold wildcards.
    ///
    /// # Errors
    /// When the server does not answer, or the message cannot be read.
    pub async fn last(&self, subject: &str) -> Result<Option<Logged<T>>, BrokerError> {
        use async_nats::jetstream::stream::DirectGetErrorKind;
        match self.handle.direct_get_last_for_subject(subject).await {
            Ok(message) => stored(message).map(Some),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(BrokerError::refused(error)),
        }
    }

    /// Deletes the message at a sequence. Deleting what is gone is no error.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn delete(&self, sequence: u64) -> Result<(), BrokerError> {
        self.remove(sequence).await.map(drop)
    }

    /// The same, and says whether it was this call that did it.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn remove(&self, sequence: u64) -> Result<bool, BrokerError> {
        match self.handle.delete_message(sequence).await {
            Ok(_) => Ok(true),
            Err(error)
                if crate::error::code_of(&error).is_some_and(|code| GONE.contains(&code)) =>
            {
                Ok(false)
            }
            Err(error) => Err(BrokerError::refused(error)),
        }
    }
}

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

fn is_too_many(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
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
fn header<V: std::str::FromStr>(message: &async_nats::Message, name: &str) -> Option<V> {
    let headers = message.headers.as_ref()?;
    headers.get_last(name)?.as_str().parse().ok()
}

/// One that cannot be read is left out and said so: it must not hide all the others.
fn logged<T: Wire>(message: async_nats::Message) -> Option<Logged<T>> {
    let sequence = header(&message, "Nats-Sequence").unwrap_or(0);
    let stored_at = header::<String>(&message, "Nats-Time-Stamp")
        .and_then(|text| parse_time(&text))
        .unwrap_or_default();
    let subject = header(&message, "Nats-Subject").unwrap_or_default();
    match T::from_wire(message.payload) {
        Ok(value) => Some(Logged {
            sequence,
            subject,
            stored_at,
            value,
        }),
        Err(error) => {
            tracing::error!(sequence, %error, "a stored message cannot be read");
            None
        }
    }
}

fn stored<T: Wire>(
    message: async_nats::jetstream::message::StreamMessage,
) -> Result<Logged<T>, BrokerError> {
    let millis = message.time.unix_timestamp_nanos() / 1_000_000;
    Ok(Logged {
        sequence: message.sequence,
        subject: message.subject.to_string(),
        stored_at: UnixMillis(i64::try_from(millis).unwrap_or(0)),
        value: T::from_wire(message.payload).map_err(BrokerError::Undecodable)?,
    })
}

pub(crate) fn parse_time(text: &str) -> Option<UnixMillis> {
    let format = &time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::parse(text, format).ok()?;
    Some(UnixMillis(
        i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?,
    ))
}
