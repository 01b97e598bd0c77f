//! The handle that services hold.

use crate::codec::Wire;
use crate::connect::{ConnectSettings, Connections};
use crate::consume::PullConsumer;
use crate::drift::Drift;
use crate::error::BrokerError;
use crate::kv::Bucket;
use crate::link::{Intake, Link};
use crate::log::{LogReader, Start};
use crate::names::{BucketName, Names, StreamName};
use crate::pump::{ConsumerName, Pump};
use crate::room::{NEAR, NEAR_WHEN_FULL, Waiting};
use crate::topology::Topology;
use async_nats::Client;
use async_nats::jetstream::Context;
use futures_util::StreamExt;
use posthorn_delivery::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A connection to an installation.
#[derive(Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    intake: Intake,
    topology: Topology,
    /// When EVENTS was created, in milliseconds: with a sequence it names an event.
    events_created: AtomicI64,
}

impl Broker {
    /// Connects, checks the server, and makes the installation's streams what they should be.
    ///
    /// # Errors
    /// [`BrokerError::Unreachable`] after the timeout, [`BrokerError::TooOld`],
    /// [`BrokerError::NoJetStream`], or [`BrokerError::Missing`] where nothing may be created.
    pub async fn connect(
        settings: &ConnectSettings,
        topology: Topology,
    ) -> Result<Broker, BrokerError> {
        let broker = Broker {
            inner: Arc::new(Inner {
                link: Link::open(settings).await?,
                intake: Intake::new(settings),
                topology,
                events_created: AtomicI64::new(0),
            }),
        };
        broker.ensure().await?;
        Ok(broker)
    }

    /// Compares the installation's streams with what they should be, and makes them so where
    /// that is allowed. May be called again at any time.
    ///
    /// # Errors
    /// As [`Broker::connect`].
    pub async fn ensure(&self) -> Result<Vec<Drift>, BrokerError> {
        let drifts = self.inner.topology.ensure(self.context()).await?;
        let events = self.stream(StreamName::Events).await?;
        let info = events.get_info().await.map_err(BrokerError::refused)?;
        let created = info.created.unix_timestamp_nanos() / 1_000_000;
        self.inner
            .events_created
            .store(i64::try_from(created).unwrap_or(0), Ordering::Relaxed);
        Ok(drifts)
    }

    /// Creates what has gone missing since, as when a bucket was deleted or the broker came
    /// back without its data.
    ///
    /// # Errors
    /// [`BrokerError::Missing`] where nothing may be created, or when the server does not answer.
    pub async fn restore(&self) -> Result<(), BrokerError> {
        self.inner.topology.restore(self.context()).await
    }

    /// The names of the installation.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.inner.topology.names
    }

    /// When EVENTS was created, milliseconds since the epoch.
    #[must_use]
    pub fn events_created(&self) -> i64 {
        self.inner.events_created.load(Ordering::Relaxed)
    }

    /// The largest message that the server takes, headers included, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.client().max_payload()
    }

    /// Whether the connection stands.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client().connection_state() == async_nats::connection::State::Connected
    }

    /// Waits until everything that was sent has left.
    pub async fn flush(&self) {
        let flushed = tokio::time::timeout(Duration::from_secs(2), self.client().flush()).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("the NATS connection could not be flushed");
        }
    }

    /// A bucket of one type.
    ///
    /// # Errors
    /// When the server does not answer, or there is no such bucket.
    pub async fn bucket<T: Wire>(&self, name: BucketName) -> Result<Bucket<T>, BrokerError> {
        let store = self
            .context()
            .get_key_value(self.names().bucket(name))
            .await;
        Ok(Bucket::new(store.map_err(BrokerError::refused)?, name))
    }

    /// A reader of a stream whose messages are of one type.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn log<T: Wire>(&self, stream: StreamName) -> Result<LogReader<T>, BrokerError> {
        let handle = self.stream(stream).await?;
        Ok(LogReader::new(
            self.client().clone(),
            self.names().stream(stream),
            handle,
        ))
    }

    /// The loop that takes events to be fanned out.
    #[must_use]
    pub fn pump_events(
        &self,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump::new(self.clone(), ConsumerName::Fanout, permits, batch, stop)
    }

    /// The loop that takes deliveries to be attempted.
    #[must_use]
    pub fn pump_deliveries(
        &self,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump::new(self.clone(), ConsumerName::Dispatch, permits, batch, stop)
    }

    /// The loop that takes what is due soon.
    #[must_use]
    pub fn pump_near(
        &self,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump::new(self.clone(), ConsumerName::RetryNear, permits, batch, stop)
    }

    /// Takes lane tokens.
    #[must_use]
    pub fn pump_tokens(
        &self,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump::new(self.clone(), ConsumerName::Tokens, permits, batch, stop)
    }

    /// The loop that takes what the calendar holds for an hour.
    #[must_use]
    pub fn pump_far(
        &self,
        hour: i64,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump::new(
            self.clone(),
            ConsumerName::RetryFar(hour),
            permits,
            batch,
            stop,
        )
    }

    /// How many deliveries wait to be fetched, and how many are with dispatchers.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn dispatch_backlog(&self) -> Result<(u64, u64), BrokerError> {
        self.consumer(&ConsumerName::Dispatch)
            .await?
            .backlog()
            .await
    }

    /// How many retries wait on the durable: not yet handed out, and handed out to wait.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn near_backlog(&self) -> Result<(u64, u64), BrokerError> {
        self.consumer(&ConsumerName::RetryNear)
            .await?
            .backlog()
            .await
    }

    /// How many messages the durable for retries may hold before dispatchers put what is due
    /// later into the calendar.
    #[must_use]
    pub fn near_capacity() -> u64 {
        u64::try_from(crate::topology::NEAR_PENDING).unwrap_or(u64::MAX)
    }

    /// How many messages a stream holds.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn stream_messages(&self, stream: StreamName) -> Result<u64, BrokerError> {
        let handle = self.stream(stream).await?;
        Ok(handle
            .get_info()
            .await
            .map_err(BrokerError::refused)?
            .state
            .messages)
    }

    /// When the oldest message of a stream was stored; `None` when it is empty.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn oldest(&self, stream: StreamName) -> Result<Option<UnixMillis>, BrokerError> {
        let handle = self.stream(stream).await?;
        let state = handle.get_info().await.map_err(BrokerError::refused)?.state;
        let millis = state.first_timestamp.unix_timestamp_nanos() / 1_000_000;
        let at = UnixMillis(i64::try_from(millis).unwrap_or(0));
        Ok((state.messages > 0).then_some(at))
    }

    /// Since when the oldest retry has been due that is seen at the head of the durable; none
    /// of them is due in the common case. A look at the first few is enough: what is not let
    /// go stays at the head, and all others leave it within minutes.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn oldest_retry_due(&self) -> Result<Option<UnixMillis>, BrokerError> {
        const FIRST: (usize, usize) = (32, 256 * 1024);
        let waiting = self.log::<Waiting>(StreamName::Retries).await?;
        let subject = self.names().retry_near();
        let page = waiting
            .read_within(&subject, Start::Sequence(1), FIRST.0, Some(FIRST.1))
            .await?;
        Ok(page.items.iter().map(|item| item.value.not_before()).min())
    }

    /// The hours of the calendar that hold anything, with how much.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn far_hours(&self) -> Result<Vec<(i64, u64)>, BrokerError> {
        let handle = self.stream(StreamName::Retries).await?;
        let filter = self.names().retry_far_all();
        let mut subjects = handle
            .info_with_subjects(filter)
            .await
            .map_err(BrokerError::refused)?;
        let mut hours = Vec::new();
        while let Some(subject) = subjects.next().await {
            let (subject, count) = subject.map_err(BrokerError::refused)?;
            if let Some(hour) = self.names().parse_far_hour(&subject) {
                hours.push((hour, u64::try_from(count).unwrap_or(0)));
            }
        }
        hours.sort_unstable();
        Ok(hours)
    }

    /// How soon a retry must be due to wait on the durable while that has room.
    #[must_use]
    pub fn near() -> Duration {
        NEAR
    }

    /// The same while the durable is full.
    #[must_use]
    pub fn near_when_full() -> Duration {
        NEAR_WHEN_FULL
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.inner.topology
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.inner.link.connections
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.link.client
    }

    pub(crate) fn context(&self) -> &Context {
        &self.inner.link.context
    }

    /// How many messages `subject` has in `stream`, as the stream's leader knows it.
    pub(crate) async fn count_subject(
        &self,
        stream: StreamName,
        subject: &str,
    ) -> Result<u64, BrokerError> {
        let handle = self.stream(stream).await?;
        let mut found = handle
            .info_with_subjects(subject)
            .await
            .map_err(BrokerError::refused)?;
        let mut total = 0_u64;
        while let Some(subject) = found.next().await {
            let (_, count) = subject.map_err(BrokerError::refused)?;
            total += u64::try_from(count).unwrap_or(0);
        }
        Ok(total)
    }

    pub(crate) async fn stream(
        &self,
        stream: StreamName,
    ) -> Result<async_nats::jetstream::stream::Stream<()>, BrokerError> {
        let name = self.names().stream(stream);
        self.context()
            .get_stream_no_info(&name)
            .await
            .map_err(BrokerError::refused)
    }

    /// The connection that a publisher's headers may end.
    pub(crate) async fn intake(&self) -> Result<Link, BrokerError> {
        self.inner.intake.link().await
    }

    /// A consumer to fetch from, over the connection that its messages may come by.
    pub(crate) async fn consumer(&self, name: &ConsumerName) -> Result<PullConsumer, BrokerError> {
        match name {
            ConsumerName::Fanout => {
                self.consumer_over(&self.inner.intake.link().await?, name)
                    .await
            }
            _ => self.consumer_over(&self.inner.link, name).await,
        }
    }

    /// The consumer of events to ask about, not to fetch from.
    pub(crate) async fn fanout_info(&self) -> Result<PullConsumer, BrokerError> {
        self.consumer_over(&self.inner.link, &ConsumerName::Fanout)
            .await
    }

    async fn consumer_over(
        &self,
        link: &Link,
        name: &ConsumerName,
    ) -> Result<PullConsumer, BrokerError> {
        let topology = &self.inner.topology;
        let (stream, config) = match name {
            ConsumerName::Fanout => topology.fanout(),
            ConsumerName::Dispatch => topology.dispatch(),
            ConsumerName::RetryNear => topology.retry_near(),
            ConsumerName::RetryFar(hour) => topology.retry_far(*hour),
            ConsumerName::Tokens => topology.tokens(),
        };
        let durable = config.durable_name.clone().unwrap_or_default();
        let stream = link
            .context
            .get_stream_no_info(self.names().stream(stream))
            .await
            .map_err(BrokerError::refused)?;
        // Only an hour of the calendar is created here; the others belong to `ensure`.
        let inner = match name {
            ConsumerName::RetryFar(_) => stream
                .get_or_create_consumer(&durable, config)
                .await
                .map_err(BrokerError::refused)?,
            _ => stream
                .get_consumer(&durable)
                .await
                .map_err(BrokerError::refused)?,
        };
        Ok(PullConsumer {
            own: link.connections.clone(),
            // Acknowledged over the connection that no message of a publisher can end.
            client: self.client().clone(),
            connections: self.inner.link.connections.clone(),
            inner,
        })
    }
}
