//! Reading a stream as a log, by sequence and subject, without a consumer.
//!
//! One request brings many messages (the batched form of a direct get), so looking for the
//! attempts of an event or the letters of an endpoint costs the broker an index look-up and
//! no state.

use crate::codec::Wire;
use crate::direct::{header, is_too_many};
use crate::error::BrokerError;
use async_nats::Client;
use futures_util::StreamExt;
use posthorn_delivery::UnixMillis;
use std::marker::PhantomData;
use std::time::Duration;

pub use crate::direct::{Below, Start};
pub(crate) use crate::direct::{ask, parse_time, request};

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
        // It knows that without fetching the oldest of them.
        if filter == ">" {
            let info = self.handle.get_info().await.map_err(BrokerError::refused)?;
            return Ok(info.state.messages);
        }
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

    /// The same from a sequence or a time on, and no more than `max_bytes` of payload, of which
    /// the first message may be more by itself.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read_within(
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
