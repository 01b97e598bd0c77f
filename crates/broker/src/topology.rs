//! What the installation needs of JetStream, and how far what is there differs from it.

use crate::consume::ACK_WAIT;
use crate::drift::{
    Drift, FIXED_SETTINGS, STAYING_SETTINGS, consumer_drifts, merged, stream_drifts,
};
use crate::error::BrokerError;
use crate::names::{self, BucketName, Names, StreamName};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Republish, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{Context, kv};
use futures_util::TryStreamExt;
use std::collections::HashSet;
use std::time::Duration;

/// How long and how much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The window in which EVENTS remembers message ids.
    pub dedupe_window: Duration,
    /// Age and bytes of ARCHIVE; the bytes also bound EVENTS, which then refuses.
    pub events: (Duration, Option<u64>),
    /// Age and bytes of ATTEMPTS.
    pub attempts: (Duration, Option<u64>),
    /// Age and bytes of DLQ.
    pub dlq: (Duration, Option<u64>),
    /// Bytes of DLQ that one tenant may have.
    pub dlq_of_tenant: Option<u64>,
    /// Age and bytes of AUDIT.
    pub audit: (Duration, Option<u64>),
}

impl Default for Retention {
    fn default() -> Retention {
        let days = |n: u64| Duration::from_secs(n * 86_400);
        Retention {
            dedupe_window: Duration::from_secs(600),
            events: (days(7), None),
            attempts: (days(34), None),
            dlq: (days(30), None),
            dlq_of_tenant: None,
            audit: (days(90), None),
        }
    }
}

/// The streams, buckets and consumers that should exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Their names.
    pub names: Names,
    /// JetStream replicas: 1, 3 or 5.
    pub replicas: usize,
    /// Whether what is missing may be created and what differs changed.
    pub manage: bool,
    /// How long and how much is kept.
    pub retention: Retention,
}

const INTERNAL_DEDUPE: Duration = Duration::from_secs(120);
/// How long an idempotency key is good for.
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 3_600);
/// A dispatcher that has not been heard of for this long does not count.
const DISPATCHER_GONE: Duration = Duration::from_secs(10);
/// How many retries may wait on the durable: each is an entry in the server's memory, and
/// above 100,000 fresh ones on the same consumer begin to feel it.
pub(crate) const NEAR_PENDING: i64 = 100_000;
/// What may be in flight to all dispatchers together.
const DISPATCH_PENDING: i64 = 8_192;
/// A token waits for its lane's next move on the consumer: as many as there may be lanes.
const TOKENS_PENDING: i64 = 100_000;
/// The largest `max_backlog`, and room for what several appenders add at the same moment.
const LANE_ROOM: i64 = 1_100_000;
const FANOUT_PENDING: i64 = 4_096;
/// A calendar hour's durable goes by itself when nobody has asked for so long.
const FAR_IDLE: Duration = Duration::from_secs(2 * 3_600);

impl Topology {
    /// A single-node topology that manages its streams.
    #[must_use]
    pub fn new(prefix: &str) -> Topology {
        Topology {
            names: Names::new(prefix),
            replicas: 1,
            manage: true,
            retention: Retention::default(),
        }
    }

    pub(crate) fn stream(&self, stream: StreamName) -> Config {
        let base = Config {
            name: self.names.stream(stream),
            subjects: vec![self.names.all_of(stream)],
            storage: StorageType::File,
            num_replicas: self.replicas,
            allow_direct: true,
            duplicate_window: INTERNAL_DEDUPE,
            max_bytes: -1,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_message_size: -1,
            max_consumers: -1,
            ..Config::default()
        };
        let queue = Config {
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            ..base.clone()
        };
        let log = Config {
            discard: DiscardPolicy::Old,
            ..base
        };
        let kept = &self.retention;
        match stream {
            StreamName::Events => Config {
                duplicate_window: kept.dedupe_window,
                max_bytes: limit(kept.events.1),
                republish: Some(Republish {
                    source: self.names.all_of(StreamName::Events),
                    destination: self.names.all_of(StreamName::Archive),
                    headers_only: false,
                }),
                ..queue
            },
            StreamName::Deliveries | StreamName::Retries => queue,
            // Kept in order until it is let go; one lane never fills the stream for others.
            StreamName::Lanes => Config {
                discard: DiscardPolicy::New,
                discard_new_per_subject: true,
                max_messages_per_subject: LANE_ROOM,
                ..log
            },
            StreamName::Tokens => Config {
                discard_new_per_subject: true,
                max_messages_per_subject: 1,
                ..queue
            },
            StreamName::Archive => aged(log, kept.events),
            StreamName::Attempts => aged(log, kept.attempts),
            StreamName::Audit => aged(log, kept.audit),
            // One message per letter: a letter that dies again replaces itself.
            StreamName::Dlq => Config {
                max_messages_per_subject: 1,
                ..aged(log, kept.dlq)
            },
            // As long as the letters. Their byte limit is not its own: an entry is small, and one
            // whose letter was dropped is passed over.
            StreamName::Register => aged(log, (kept.dlq.0, None)),
        }
    }

    pub(crate) fn bucket(&self, bucket: BucketName) -> kv::Config {
        kv::Config {
            bucket: self.names.bucket(bucket),
            history: 1,
            storage: StorageType::File,
            num_replicas: self.replicas,
            max_age: match bucket {
                BucketName::Dispatchers => DISPATCHER_GONE,
                BucketName::Idempotency => IDEMPOTENCY,
                BucketName::Endpoints
                | BucketName::Breakers
                | BucketName::Replays
                | BucketName::Lanes
                | BucketName::Keys => Duration::ZERO,
            },
            ..kv::Config::default()
        }
    }

    pub(crate) fn fanout(&self) -> (StreamName, pull::Config) {
        let subject = self.names.all_of(StreamName::Events);
        (
            StreamName::Events,
            durable(names::FANOUT, subject, FANOUT_PENDING),
        )
    }

    pub(crate) fn dispatch(&self) -> (StreamName, pull::Config) {
        let subject = self.names.all_of(StreamName::Deliveries);
        (
            StreamName::Deliveries,
            durable(names::DISPATCH, subject, DISPATCH_PENDING),
        )
    }

    pub(crate) fn retry_near(&self) -> (StreamName, pull::Config) {
        (
            StreamName::Retries,
            durable(names::RETRY_NEAR, self.names.retry_near(), NEAR_PENDING),
        )
    }

    pub(crate) fn tokens(&self) -> (StreamName, pull::Config) {
        (
            StreamName::Tokens,
            durable(
                names::TOKENS,
                self.names.all_of(StreamName::Tokens),
                TOKENS_PENDING,
            ),
        )
    }

    fn durables(&self) -> [(StreamName, pull::Config); 4] {
        [
            self.fanout(),
            self.dispatch(),
            self.retry_near(),
            self.tokens(),
        ]
    }

    pub(crate) fn retry_far(&self, hour: i64) -> (StreamName, pull::Config) {
        let name = Names::far_consumer(hour);
        let config = durable(&name, self.names.retry_far(hour), NEAR_PENDING);
        (
            StreamName::Retries,
            pull::Config {
                inactive_threshold: FAR_IDLE,
                ..config
            },
        )
    }

    /// Creates what is missing, compares what is there, and sets right what can be changed
    /// without harm.
    pub(crate) async fn ensure(&self, context: &Context) -> Result<Vec<Drift>, BrokerError> {
        let mut drifts = Vec::new();
        for stream in StreamName::ALL {
            drifts.extend(self.ensure_stream(context, self.stream(stream)).await?);
        }
        for bucket in BucketName::ALL {
            self.ensure_bucket(context, bucket).await?;
        }
        for (stream, config) in self.durables() {
            drifts.extend(self.ensure_consumer(context, stream, config).await?);
        }
        for drift in &drifts {
            let Drift { repaired, .. } = drift;
            tracing::warn!(%drift, repaired, "JetStream is not as configured");
        }
        Ok(drifts)
    }

    /// Creates what is missing and looks at nothing else: cheap enough to be asked often.
    pub(crate) async fn restore(&self, context: &Context) -> Result<(), BrokerError> {
        let present = present_streams(context).await?;
        for stream in StreamName::ALL {
            if !present.contains(&self.names.stream(stream)) {
                self.ensure_stream(context, self.stream(stream)).await?;
            }
        }
        for bucket in BucketName::ALL {
            if !present.contains(&format!("KV_{}", self.names.bucket(bucket))) {
                self.ensure_bucket(context, bucket).await?;
            }
        }
        for (stream, config) in self.durables() {
            self.ensure_consumer(context, stream, config).await?;
        }
        Ok(())
    }

    async fn ensure_stream(
        &self,
        context: &Context,
        wanted: Config,
    ) -> Result<Vec<Drift>, BrokerError> {
        let name = wanted.name.clone();
        let found = match context.get_stream(&name).await {
            Ok(stream) => stream.cached_info().config.clone(),
            Err(error) if !is_missing(&error) => return Err(BrokerError::refused(error)),
            Err(_) if !self.manage => return Err(BrokerError::Missing(name)),
            Err(_) => {
                context
                    .create_stream(wanted)
                    .await
                    .map_err(BrokerError::refused)?;
                tracing::info!(stream = name, "created");
                return Ok(Vec::new());
            }
        };
        let mut drifts = stream_drifts(&found, &wanted);
        let fixable = drifts
            .iter()
            .all(|drift| !FIXED_SETTINGS.contains(&drift.setting));
        if !drifts.is_empty() && self.manage && fixable {
            context
                .update_stream(merged(found, wanted))
                .await
                .map_err(BrokerError::refused)?;
            for drift in &mut drifts {
                drift.repaired = !STAYING_SETTINGS.contains(&drift.setting);
            }
        }
        Ok(drifts)
    }

    async fn ensure_bucket(
        &self,
        context: &Context,
        bucket: BucketName,
    ) -> Result<(), BrokerError> {
        let wanted = self.bucket(bucket);
        let stream = format!("KV_{}", wanted.bucket);
        match context.get_stream(&stream).await {
            Ok(_) => Ok(()),
            Err(error) if !is_missing(&error) => Err(BrokerError::refused(error)),
            Err(_) if !self.manage => Err(BrokerError::Missing(wanted.bucket)),
            Err(_) => {
                let name = wanted.bucket.clone();
                context
                    .create_key_value(wanted)
                    .await
                    .map_err(BrokerError::refused)?;
                tracing::info!(bucket = name, "created");
                Ok(())
            }
        }
    }

    /// A durable is never deleted and made again, and its ack wait never changed: either
    /// makes everything that is parked on it come back at once.
    async fn ensure_consumer(
        &self,
        context: &Context,
        stream: StreamName,
        wanted: pull::Config,
    ) -> Result<Vec<Drift>, BrokerError> {
        let name = wanted.durable_name.clone().unwrap_or_default();
        let stream = self.names.stream(stream);
        let stream = context
            .get_stream_no_info(&stream)
            .await
            .map_err(BrokerError::refused)?;
        match stream.consumer_info(&name).await {
            Ok(info) => Ok(consumer_drifts(&name, &info.config, &wanted)),
            Err(error) if !is_missing(&error) => Err(BrokerError::refused(error)),
            Err(_) if !self.manage => Err(BrokerError::Missing(name)),
            Err(_) => {
                stream
                    .create_consumer(wanted)
                    .await
                    .map_err(BrokerError::refused)?;
                tracing::info!(consumer = name, "created");
                Ok(Vec::new())
            }
        }
    }
}

async fn present_streams(context: &Context) -> Result<HashSet<String>, BrokerError> {
    context
        .stream_names()
        .try_collect()
        .await
        .map_err(BrokerError::refused)
}

fn durable(name: &str, subject: String, max_ack_pending: i64) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        filter_subject: subject,
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::All,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        max_ack_pending,
        max_waiting: 512,
        ..pull::Config::default()
    }
}

fn limit(bytes: Option<u64>) -> i64 {
    bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn aged(config: Config, kept: (Duration, Option<u64>)) -> Config {
    Config {
        max_age: kept.0,
        max_bytes: limit(kept.1),
        ..config
    }
}

fn is_missing(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(crate::error::code_of(error), Some(10_059 | 10_014))
}
