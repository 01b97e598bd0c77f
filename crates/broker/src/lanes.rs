//! Lanes and their tokens, one operation each. What they add up to is the `lanes` crate.
//!
//! Whoever looks whether a lane is empty asks the stream's leader: a direct get may be answered
//! by a replica that lags behind what was appended a moment ago.

use crate::broker::Broker;
use crate::codec::{Parked, Wire};
use crate::error::BrokerError;
use crate::log::{LogPage, LogReader, Start};
use crate::names::{Names, StreamName};
use crate::publish::{Patience, Stored};
use crate::pump::ConsumerName;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, RawMessageErrorKind};
use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use posthorn_delivery::{Attempt, Delivery, EndpointId, LaneId, Tenant, UnixMillis};

/// So far apart, in milliseconds, may be the clocks of whoever accepted and of the broker.
const CLOCKS_DIFFER: i64 = 60_000;
/// Bytes of one read: an owner's memory does not grow with the size of payloads.
const MAX_READ: usize = 2 * 1024 * 1024;

/// The streams that an owner works on.
pub struct LaneStore {
    broker: Broker,
    reader: LogReader<Parked>,
    deliveries: LogReader<Parked>,
    attempts: LogReader<Attempt>,
}

/// Answers of one endpoint as they are recorded. A hint: one may be missed, and what must not
/// be missed is read from the stream.
pub struct Answers {
    inner: Subscriber,
}

impl Answers {
    /// The next one; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Attempt> {
        loop {
            let message = self.inner.next().await?;
            if let Ok(attempt) = Attempt::from_wire(message.payload) {
                return Some(attempt);
            }
        }
    }

    /// The next one that is here already.
    pub fn ready(&mut self) -> Option<Attempt> {
        self.next().now_or_never().flatten()
    }
}

impl LaneStore {
    /// Opens it.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn open(broker: &Broker) -> Result<LaneStore, BrokerError> {
        Ok(LaneStore {
            broker: broker.clone(),
            reader: broker.log(StreamName::Lanes).await?,
            deliveries: broker.log(StreamName::Deliveries).await?,
            attempts: broker.log(StreamName::Attempts).await?,
        })
    }

    /// Appends a delivery to the tail of `lane`, under its own message id.
    ///
    /// # Errors
    /// [`BrokerError`] when it is not certain that it was stored.
    pub async fn append(
        &self,
        lane: &LaneId,
        delivery: &Delivery,
        patience: Patience,
    ) -> Result<Stored, BrokerError> {
        let id = delivery.message_id().as_str().to_owned();
        let subject = self.names().lane(lane);
        let (headers, body) = (HeaderMap::new(), delivery.to_wire());
        self.broker
            .send(subject, headers, body, Some(id), None, patience)
            .await
    }

    /// Makes sure that `lane` has a token. It carries no id: inside the dedupe window it could
    /// not be made again.
    ///
    /// # Errors
    /// When it is not certain that there is one.
    pub async fn put_token(&self, lane: &LaneId) -> Result<(), BrokerError> {
        let subject = self.names().token(lane);
        let sent = self.broker.send(
            subject,
            HeaderMap::new(),
            Bytes::new(),
            None,
            None,
            Patience::caller(std::time::Duration::from_secs(5)),
        );
        match sent.await {
            Ok(_) | Err(BrokerError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives `lane` a new token in place of whatever it has. It is handed out at once, and an
    /// acknowledgement of the old one no longer touches anything.
    ///
    /// # Errors
    /// When it is not certain that there is one; the sweep then gives it one.
    pub async fn renew_token(&self, lane: &LaneId) -> Result<(), BrokerError> {
        match self.token(lane).await? {
            Some(sequence) => self.replace_token(lane, sequence).await,
            None => self.put_token(lane).await,
        }
    }

    /// Gives `lane` a new token in place of the one at `sequence`.
    ///
    /// It is removed by itself, and not by a purge of its subject: after a purge of some subjects
    /// of a work queue and a restart, the server takes others that were handed out for settled,
    /// and never hands them out again (nats-server 2.15.1).
    ///
    /// # Errors
    /// As for [`Self::renew_token`].
    pub async fn replace_token(&self, lane: &LaneId, sequence: u64) -> Result<(), BrokerError> {
        self.broker.discard(StreamName::Tokens, sequence).await?;
        self.put_token(lane).await
    }

    /// Where the token of `lane` lies, as the stream's leader knows it.
    async fn token(&self, lane: &LaneId) -> Result<Option<u64>, BrokerError> {
        let stream = self.broker.stream(StreamName::Tokens).await?;
        let subject = self.names().token(lane);
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(found) => Ok(Some(found.sequence)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(BrokerError::refused(error)),
        }
    }

    /// Tokens at a sequence up to which the consumer takes everything for settled: they are
    /// about to go, or will not be handed out any more.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn settled_tokens(&self) -> Result<Vec<(LaneId, u64)>, BrokerError> {
        let consumer = self.broker.consumer(&ConsumerName::Tokens).await?;
        let floor = consumer.ack_floor().await?;
        let stream = self.broker.stream(StreamName::Tokens).await?;
        let info = stream.get_info().await.map_err(BrokerError::refused)?;
        let all = self.names().all_of(StreamName::Tokens);
        let mut from = info.state.first_sequence;
        let mut settled = Vec::new();
        while info.state.messages > 0 && from <= floor {
            let found = match stream.get_first_raw_message_by_subject(&all, from).await {
                Ok(found) if found.sequence <= floor => found,
                Ok(_) => break,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
                Err(error) => return Err(BrokerError::refused(error)),
            };
            from = found.sequence + 1;
            if let Some(lane) = self.names().parse_lane(&found.subject) {
                settled.push((lane, found.sequence));
            }
        }
        Ok(settled)
    }

    /// Up to `max` of what lies in `lane` from position `from` on, in order.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn read(
        &self,
        lane: &LaneId,
        from: u64,
        max: usize,
    ) -> Result<LogPage<Parked>, BrokerError> {
        let subject = self.names().lane(lane);
        read_bounded(&self.reader, &subject, from, max).await
    }

    /// Up to `max` of the deliveries of `endpoint` that are on their way, from position `from`
    /// on.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn read_on_their_way(
        &self,
        endpoint: &EndpointId,
        from: u64,
        max: usize,
    ) -> Result<LogPage<Parked>, BrokerError> {
        let subject = self.names().delivery(endpoint);
        read_bounded(&self.deliveries, &subject, from, max).await
    }

    /// Removes everything of `lane` up to and with `position`.
    ///
    /// # Errors
    /// When the broker refuses or does not answer.
    pub async fn remove_up_to(&self, lane: &LaneId, position: u64) -> Result<(), BrokerError> {
        // A purge up to sequence 0 is taken for a purge of everything.
        if position == 0 {
            return Ok(());
        }
        let stream = self.broker.stream(StreamName::Lanes).await?;
        let purge = stream.purge().sequence(position.saturating_add(1));
        let purge = purge.filter(self.names().lane(lane));
        purge.await.map(drop).map_err(BrokerError::refused)
    }

    /// Removes what lies at `position`.
    ///
    /// # Errors
    /// When the broker refuses or does not answer; not when it is gone already.
    pub async fn remove(&self, position: u64) -> Result<(), BrokerError> {
        self.broker.discard(StreamName::Lanes, position).await
    }

    /// How many deliveries lie in `lane`, as the stream's leader knows it.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn depth(&self, lane: &LaneId) -> Result<u64, BrokerError> {
        self.reader.count(&self.names().lane(lane)).await
    }

    /// How many deliveries of `endpoint` are on their way: let go and not settled.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn on_their_way(&self, endpoint: &EndpointId) -> Result<u64, BrokerError> {
        let subject = self.names().delivery(endpoint);
        self.broker
            .count_subject(StreamName::Deliveries, &subject)
            .await
    }

    /// All lanes that hold something, with how much.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn lanes(&self) -> Result<Vec<(LaneId, u64)>, BrokerError> {
        self.subjects(StreamName::Lanes).await
    }

    /// All lanes that have a token.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn tokens(&self) -> Result<Vec<LaneId>, BrokerError> {
        let found = self.subjects(StreamName::Tokens).await?;
        Ok(found.into_iter().map(|(lane, _)| lane).collect())
    }

    async fn subjects(&self, stream: StreamName) -> Result<Vec<(LaneId, u64)>, BrokerError> {
        let handle = self.broker.stream(stream).await?;
        let mut found = handle
            .info_with_subjects(self.names().all_of(stream))
            .await
            .map_err(BrokerError::refused)?;
        let mut lanes = Vec::new();
        while let Some(subject) = found.next().await {
            let (subject, count) = subject.map_err(BrokerError::refused)?;
            if let Some(lane) = self.names().parse_lane(&subject) {
                lanes.push((lane, u64::try_from(count).unwrap_or(0)));
            }
        }
        Ok(lanes)
    }

    /// Up to which sequence of EVENTS everything has been fanned out, without a gap.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn fanned_out(&self) -> Result<u64, BrokerError> {
        self.broker.fanout_info().await?.ack_floor().await
    }

    /// The records of all attempts of one event to one endpoint; of a replay, those since it is
    /// due.
    ///
    /// They are looked for from when the event was accepted on, and not from when the delivery
    /// came into its lane: after a kill of the server, which then forgets what ids it has met,
    /// fan-out may put one into a lane again that was answered before. What is replayed may have
    /// been accepted weeks ago, with all that its endpoint was sent since then in between.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn records(&self, delivery: &Delivery) -> Result<Vec<(u64, Attempt)>, BrokerError> {
        const PAGE: usize = 256;
        let begun = match delivery.replay {
            Some(_) => delivery.accepted_at.max(delivery.not_before),
            None => delivery.accepted_at,
        };
        let since = UnixMillis(begun.0.saturating_sub(CLOCKS_DIFFER));
        let subject =
            self.names()
                .attempt(&delivery.tenant, &delivery.endpoint_id, &delivery.event_id);
        let mut records = Vec::new();
        let mut page = self.attempts.read_since(&subject, since, PAGE).await?;
        while let Some(last) = page.items.last().map(|item| item.sequence) {
            let of_it = page.items.into_iter();
            records.extend(
                of_it
                    .filter(|item| item.value.event_id == delivery.event_id)
                    .map(|item| (item.sequence, item.value)),
            );
            if page.pending == 0 {
                break;
            }
            page = self.attempts.read(&subject, last + 1, PAGE).await?;
        }
        Ok(records)
    }

    /// Hears of the answers of an endpoint from now on.
    ///
    /// # Errors
    /// When the subscription cannot be made.
    pub async fn answers(
        &self,
        tenant: &Tenant,
        endpoint: &EndpointId,
    ) -> Result<Answers, BrokerError> {
        let subject = self
            .names()
            .attempts_of_endpoint(tenant.as_str(), endpoint.as_str());
        let client = self.broker.client();
        let inner = client
            .subscribe(subject)
            .await
            .map_err(BrokerError::refused)?;
        Ok(Answers { inner })
    }

    fn names(&self) -> &Names {
        self.broker.names()
    }
}

/// A read whose memory does not grow with the size of payloads.
async fn read_bounded(
    reader: &LogReader<Parked>,
    subject: &str,
    from: u64,
    max: usize,
) -> Result<LogPage<Parked>, BrokerError> {
    let from = Start::Sequence(from);
    let page = reader
        .read_within(subject, from, max, Some(MAX_READ))
        .await?;
    if page.items.is_empty() && page.pending > 0 {
        // One that is larger than a read by itself.
        return reader.read_within(subject, from, 1, None).await;
    }
    Ok(page)
}
