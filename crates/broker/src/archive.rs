//! Reading the archive: events as they were published, long after they were fanned out.
//!
//! The server copies each event from EVENTS and adds where it lay there, which with the time is
//! what an event without an id of its own is named by. Whoever published chose the other
//! headers, among them some that end the connection of the client library (see
//! [`crate::Unreadable`]). So the archive is read over the connection that may end, and what
//! ends it is stepped over one by one.

use crate::broker::Broker;
use crate::codec::{Intake, read_event};
use crate::error::BrokerError;
use crate::log::{Start, ask, parse_time, request};
use crate::names::StreamName;
use crate::unreadable::is_readable;
use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use posthorn_delivery::{Event, UnixMillis};
use std::time::Duration;

/// Bytes of one read.
const MAX_READ: usize = 2 * 1024 * 1024;
/// The longest wait for the next message of an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// An event in the archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Archived {
    /// Where it lies.
    pub sequence: u64,
    /// Since when.
    pub stored_at: UnixMillis,
    /// Its sequence in EVENTS.
    pub event_seq: u64,
    /// It came through a stream EVENTS that has been deleted and made anew since.
    pub is_of_former_stream: bool,
    /// The event.
    pub event: Event,
}

/// Some events in the order in which they were published.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchivePage {
    /// The events. What cannot be read as one is left out.
    pub items: Vec<Archived>,
    /// Everything that matches up to this sequence has been seen; 0 where nothing was.
    pub up_to: u64,
    /// Whether nothing more matches.
    pub is_last: bool,
}

/// The archive of an installation.
#[derive(Clone)]
pub struct Archive {
    broker: Broker,
}

impl Broker {
    /// The archive of events.
    #[must_use]
    pub fn archive(&self) -> Archive {
        Archive {
            broker: self.clone(),
        }
    }
}

impl Archive {
    /// Up to `max` events on subjects that match `filter`, from a place on.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read(
        &self,
        filter: &str,
        from: Start,
        max: usize,
    ) -> Result<ArchivePage, BrokerError> {
        let link = self.broker.intake().await?;
        let stream = self.broker.names().stream(StreamName::Archive);
        let request = request(filter, from, max, Some(MAX_READ));
        let answer = ask(&link.client, &stream, &request, PATIENCE).await?;
        let is_last = answer.complete && answer.pending == 0;
        let place = |message: &async_nats::Message| nth_last(message.headers.as_ref()?, SEQ, 0);
        let Some(up_to) = answer.messages.iter().filter_map(place).max() else {
            return match is_last {
                true => Ok(empty()),
                false => self.step_over(filter, from).await,
            };
        };
        let read = |message: async_nats::Message| {
            let headers = message.headers.as_ref()?;
            // A status line of a publisher's own.
            if message.status.is_some_and(|status| status.as_u16() != 200) {
                return None;
            }
            let subject: String = nth_last(headers, "Nats-Subject", 0)?;
            let found = Found {
                sequence: nth_last(headers, SEQ, 0)?,
                stored_at: parse_time(&nth_last::<String>(headers, TIME, 0)?)?,
                subject: &subject,
                headers,
                copied: 1,
            };
            self.archived(&found, message.payload)
        };
        Ok(ArchivePage {
            items: answer.messages.into_iter().filter_map(read).collect(),
            up_to,
            is_last,
        })
    }

    /// The event at a sequence; `None` when it is not there any more.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn at(&self, filter: &str, sequence: u64) -> Result<Option<Archived>, BrokerError> {
        let page = self.read(filter, Start::Sequence(sequence), 1).await?;
        let mut items = page.items.into_iter();
        Ok(items.find(|found| found.sequence == sequence))
    }

    /// One message in the form that carries headers as they are.
    async fn step_over(&self, filter: &str, from: Start) -> Result<ArchivePage, BrokerError> {
        let mut asked = request(filter, from, 1, None);
        if let Some(fields) = asked.as_object_mut() {
            fields.remove("batch");
        }
        let Some(raw) = self.broker.raw(StreamName::Archive, &asked).await? else {
            return Ok(empty());
        };
        let up_to = raw.sequence;
        let readable = is_readable(&raw)
            .then(|| StreamMessage::try_from(raw).ok())
            .flatten();
        let event = readable.and_then(|message| {
            let found = Found {
                sequence: message.sequence,
                stored_at: millis(message.time),
                subject: &message.subject,
                headers: &message.headers,
                copied: 0,
            };
            self.archived(&found, message.payload.clone())
        });
        Ok(ArchivePage {
            items: event.into_iter().collect(),
            up_to,
            is_last: false,
        })
    }

    fn archived(&self, found: &Found<'_>, payload: Bytes) -> Option<Archived> {
        let event_seq = nth_last(found.headers, SEQ, found.copied)?;
        let published = nth_last::<String>(found.headers, TIME, found.copied);
        let published = published
            .and_then(|text| parse_time(&text))
            .unwrap_or(found.stored_at);
        let created = self.broker.events_created();
        let intake = Intake {
            subject: found.subject,
            headers: Some(found.headers),
            payload,
            sequence: event_seq,
            stored_at: published,
            stream_created: created,
        };
        // What is no event has been dead-lettered as such.
        let event = read_event(self.broker.names(), &intake).ok()?;
        Some(Archived {
            sequence: found.sequence,
            stored_at: found.stored_at,
            event_seq,
            is_of_former_stream: published.0 < created,
            event,
        })
    }
}

/// A message of the archive before it is read.
struct Found<'a> {
    sequence: u64,
    stored_at: UnixMillis,
    subject: &'a str,
    headers: &'a HeaderMap,
    /// How many values the server has put behind those of the copy.
    copied: usize,
}

const SEQ: &str = "Nats-Sequence";
const TIME: &str = "Nats-Time-Stamp";

fn empty() -> ArchivePage {
    ArchivePage {
        items: Vec::new(),
        up_to: 0,
        is_last: true,
    }
}

/// A header's value, counted from the last one: what a publisher wrote stands before what the
/// server added.
fn nth_last<V: std::str::FromStr>(headers: &HeaderMap, name: &str, n: usize) -> Option<V> {
    let all: Vec<&str> = headers.get_all(name).map(|value| value.as_str()).collect();
    all.iter().rev().nth(n)?.parse().ok()
}

fn millis(at: time::OffsetDateTime) -> UnixMillis {
    let millis = at.unix_timestamp_nanos() / 1_000_000;
    UnixMillis(i64::try_from(millis).unwrap_or(0))
}
