//! Taking messages from a work queue, and settling them so that it holds.

use crate::connect::Connections;
use crate::error::BrokerError;
use async_nats::jetstream::{self, AckKind, consumer::pull};
use async_nats::{Client, HeaderMap, Request};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use posthorn_delivery::UnixMillis;
use std::future::Future;
use std::time::Duration;

/// A killed process keeps its messages for this long; it can never be changed later, because
/// a change makes parked NAKs come back at once.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(10);
/// How often a message in work says so.
const PROGRESS: Duration = Duration::from_secs(3);
/// How often a lost acknowledgement is repeated before the message is left to come again.
const ACK_TRIES: u32 = 5;

/// A durable pull consumer.
#[derive(Clone)]
pub struct PullConsumer {
    /// Of the connection that the messages come by.
    pub(crate) own: Connections,
    pub(crate) client: Client,
    pub(crate) connections: Connections,
    pub(crate) inner: jetstream::consumer::Consumer<pull::Config>,
}

impl PullConsumer {
    /// Asks for up to `max` messages and yields them as they come, until `max` have come or
    /// `expires` has passed.
    ///
    /// # Errors
    /// When the request cannot be sent.
    pub(crate) async fn fetch(
        &self,
        max: usize,
        expires: Duration,
    ) -> Result<impl Stream<Item = Result<Incoming, BrokerError>> + Unpin + use<>, BrokerError>
    {
        let batch = self
            .inner
            .batch()
            .max_messages(max)
            .expires(expires)
            .messages()
            .await
            .map_err(BrokerError::refused)?;
        let (client, connections) = (self.client.clone(), self.connections.clone());
        Ok(batch.map(move |message| match message {
            Ok(message) => Ok(Incoming::new(client.clone(), connections.clone(), message)),
            Err(error) => Err(BrokerError::Refused(error)),
        }))
    }

    /// Everything up to this sequence of the stream has been acknowledged.
    pub(crate) async fn ack_floor(&self) -> Result<u64, BrokerError> {
        let info = self.inner.get_info().await.map_err(BrokerError::refused)?;
        // With nothing handed out, gaps below what was delivered are messages that were removed.
        Ok(match info.num_ack_pending {
            0 => info
                .ack_floor
                .stream_sequence
                .max(info.delivered.stream_sequence),
            _ => info.ack_floor.stream_sequence,
        })
    }

    /// How many messages wait, and how many are with a consumer and not yet acknowledged.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn backlog(&self) -> Result<(u64, u64), BrokerError> {
        let info = self.inner.get_info().await.map_err(BrokerError::refused)?;
        Ok((
            info.num_pending,
            u64::try_from(info.num_ack_pending).unwrap_or(0),
        ))
    }
}

/// A message taken from a work queue. Dropped without being settled it comes again after the
/// ack wait.
pub struct Incoming {
    client: Client,
    connections: Connections,
    message: jetstream::Message,
    sequence: u64,
    delivered: i64,
    stored_at: UnixMillis,
}

impl Incoming {
    fn new(client: Client, connections: Connections, message: jetstream::Message) -> Incoming {
        let (sequence, delivered, stored_at) = message.info().map_or((0, 0, 0), |info| {
            let millis = info.published.unix_timestamp_nanos() / 1_000_000;
            (
                info.stream_sequence,
                info.delivered,
                i64::try_from(millis).unwrap_or(0),
            )
        });
        Incoming {
            client,
            connections,
            message,
            sequence,
            delivered,
            stored_at: UnixMillis(stored_at),
        }
    }

    /// Its subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.message.subject.as_str()
    }

    /// Its bytes, shared with the network buffer.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.message.payload.clone()
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.message.headers.as_ref()
    }

    /// Where it is stored.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How often the broker has handed it out, as far as it remembers. Never the number of
    /// attempts.
    #[must_use]
    pub fn delivered(&self) -> i64 {
        self.delivered
    }

    /// When it was stored.
    #[must_use]
    pub fn stored_at(&self) -> UnixMillis {
        self.stored_at
    }

    /// Acknowledges and waits until the server has answered: a plain ack is only a publish,
    /// and what it settled comes back if the connection or the server dies first.
    ///
    /// # Errors
    /// [`BrokerError::TimedOut`] when no answer came; the message may come again.
    pub async fn ack(&self) -> Result<(), BrokerError> {
        let Some(reply) = self.message.reply.clone() else {
            return Ok(());
        };
        for _ in 0..ACK_TRIES {
            // A request over the client's one inbox; the client's own double ack subscribes
            // and unsubscribes for each.
            let request = Request::new()
                .payload(Bytes::from_static(b"+ACK"))
                .timeout(Some(Duration::from_secs(2)));
            let answer = tokio::select! {
                answer = self.client.send_request(reply.clone(), request) => answer,
                () = self.connections.renewed() => continue,
            };
            match answer {
                Ok(_) => return Ok(()),
                Err(error) => tracing::debug!(%error, "an acknowledgement got no answer"),
            }
        }
        Err(BrokerError::TimedOut)
    }

    /// Gives it back, to come again after `delay`, or at once.
    pub async fn nak(&self, delay: Option<Duration>) {
        if let Err(error) = self.message.ack_with(AckKind::Nak(delay)).await {
            tracing::debug!(error, "a NAK could not be sent; the ack wait gives it back");
        }
    }

    /// Runs `work` and tells the server meanwhile that the message is being worked on.
    pub async fn while_working<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(PROGRESS) => self.progress().await,
            }
        }
    }

    async fn progress(&self) {
        if let Err(error) = self.message.ack_with(AckKind::Progress).await {
            tracing::debug!(error, "a progress ack could not be sent");
        }
    }
}
