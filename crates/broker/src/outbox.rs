//! What services publish: each message with its subject, its deterministic id and its PubAck.

use crate::broker::Broker;
use crate::codec::{AuditEntry, Wire};
use crate::error::BrokerError;
use crate::kept::{AGAIN, ENTRY};
use crate::names::StreamName;
use crate::publish::{Outgoing, Patience, Stored, publish};
use crate::room::Waiting;
use async_nats::HeaderMap;
use bytes::Bytes;
use posthorn_delivery::{
    Attempt, DeadLetter, Delivery, Event, LetterEntry, LetterState, MessageId, UnixMillis,
};
use std::time::Duration;

/// The media type of an event in protobuf.
pub const EVENT_PROTOBUF: &str = "application/vnd.posthorn.event.v1+protobuf";

impl Broker {
    /// Publishes an event under its deduplication key.
    ///
    /// # Errors
    /// See [`BrokerError`]; [`BrokerError::Full`] when EVENTS refuses.
    pub async fn publish_event(
        &self,
        event: &Event,
        dedupe: &str,
        patience: Patience,
    ) -> Result<Stored, BrokerError> {
        let mut headers = HeaderMap::new();
        headers.insert("Content-Type", EVENT_PROTOBUF);
        let subject = self.names().event(&event.tenant, &event.event_type);
        self.send(
            subject,
            headers,
            event.to_wire(),
            Some(dedupe.to_owned()),
            None,
            patience,
        )
        .await
    }

    /// Puts a delivery where dispatchers take it from.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn publish_delivery(&self, delivery: &Delivery) -> Result<Stored, BrokerError> {
        let subject = self.names().delivery(&delivery.endpoint_id);
        let id = delivery.message_id().as_str().to_owned();
        self.send(
            subject,
            HeaderMap::new(),
            delivery.to_wire(),
            Some(id),
            None,
            Patience::WORKER,
        )
        .await
    }

    /// Puts something where it waits for its time. `near` is how soon it must be due to wait
    /// on the durable.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn publish_waiting(
        &self,
        waiting: &Waiting,
        near: Duration,
        now: UnixMillis,
        patience: Patience,
    ) -> Result<Stored, BrokerError> {
        let subject = waiting.subject(self.names(), near, now);
        let id = waiting.message_id(false).as_str().to_owned();
        self.send(
            subject,
            HeaderMap::new(),
            waiting.to_wire(),
            Some(id),
            None,
            patience,
        )
        .await
    }

    /// Moves something from the calendar to the durable.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn move_near(&self, waiting: &Waiting) -> Result<Stored, BrokerError> {
        let id = waiting.message_id(true).as_str().to_owned();
        let subject = self.names().retry_near();
        self.send(
            subject,
            HeaderMap::new(),
            waiting.to_wire(),
            Some(id),
            None,
            Patience::WORKER,
        )
        .await
    }

    /// Writes the record of an attempt. A duplicate means that the attempt has been decided
    /// already, and where.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn publish_attempt(&self, attempt: &Attempt) -> Result<Stored, BrokerError> {
        let subject =
            self.names()
                .attempt(&attempt.tenant, &attempt.endpoint_id, &attempt.event_id);
        let id = attempt.message_id().as_str().to_owned();
        self.send(
            subject,
            HeaderMap::new(),
            attempt.to_wire(),
            Some(id),
            None,
            Patience::WORKER,
        )
        .await
    }

    /// Writes a letter. With `expected`, only over the letter at that sequence. One that lies
    /// dead is entered in the register first: an entry without a letter is passed over, whereas
    /// a letter without an entry would not be found.
    ///
    /// # Errors
    /// [`BrokerError::Conflict`] when the letter has changed meanwhile.
    pub async fn publish_letter(
        &self,
        letter: &DeadLetter,
        id: &str,
        expected: Option<u64>,
    ) -> Result<Stored, BrokerError> {
        let subject = self
            .names()
            .letter(&letter.tenant, letter.endpoint_id.as_ref(), &letter.id);
        let entry = match letter.state {
            LetterState::Dead => self.register(letter, id).await?,
            LetterState::Replaying | LetterState::Delivered => letter.entry,
        };
        let letter = DeadLetter {
            entry,
            ..letter.clone()
        };
        self.send(
            subject,
            headers_of(&letter),
            letter.to_wire(),
            Some(id.to_owned()),
            expected,
            Patience::WORKER,
        )
        .await
    }

    /// Enters a death in the register, under an id made of its letter's; returns where.
    async fn register(&self, letter: &DeadLetter, id: &str) -> Result<u64, BrokerError> {
        let endpoint = letter.endpoint_id.as_ref();
        let subject = (self.names()).entry(&letter.tenant, endpoint, letter.reason);
        let id = MessageId::of("register", &[id.as_bytes()]);
        let stored = self
            .send(
                subject,
                HeaderMap::new(),
                LetterEntry::of(letter).to_wire(),
                Some(id.as_str().to_owned()),
                None,
                Patience::WORKER,
            )
            .await?;
        Ok(stored.sequence)
    }

    /// Strikes a death from the register: its letter's replay has ended, or the letter is gone.
    /// One that is not there any more, or 0, is no error.
    ///
    /// # Errors
    /// See [`BrokerError`]. What is left behind is passed over by whoever reads.
    pub async fn strike(&self, entry: u64) -> Result<(), BrokerError> {
        if entry == 0 {
            return Ok(());
        }
        let register = self.log::<LetterEntry>(StreamName::Register).await?;
        register.delete(entry).await
    }

    /// Writes down an act before it is done, or that it failed.
    ///
    /// # Errors
    /// See [`BrokerError`]; the act must then not be done.
    pub async fn publish_audit(
        &self,
        entry: &AuditEntry,
        patience: Patience,
    ) -> Result<Stored, BrokerError> {
        let subject = self.names().audit(entry.tenant.as_ref(), &entry.action);
        let id = format!("{}.{}", entry.id, entry.result.as_str());
        self.send(
            subject,
            HeaderMap::new(),
            entry.to_wire(),
            Some(id),
            None,
            patience,
        )
        .await
    }

    pub(crate) async fn send(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        id: Option<String>,
        expect_subject_sequence: Option<u64>,
        patience: Patience,
    ) -> Result<Stored, BrokerError> {
        let outgoing = Outgoing {
            subject,
            headers,
            payload,
            id,
            expect_subject_sequence,
        };
        publish(self.context(), self.connections(), &outgoing, patience).await
    }
}

/// What is to be known of a letter without reading it: whether it takes another's place, and
/// where it is registered.
fn headers_of(letter: &DeadLetter) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if letter.entry > 0 {
        headers.insert(ENTRY, letter.entry.to_string());
    }
    if letter.replays > 0 || letter.state != LetterState::Dead {
        headers.insert(AGAIN, "1");
    }
    headers
}
