//! What the streams that keep history hold, and what their limits are.

use crate::broker::Broker;
use crate::error::BrokerError;
use crate::names::StreamName;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures_util::StreamExt;
use posthorn_delivery::UnixMillis;
use std::time::Duration;

/// A stream with its limits, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Messages that it holds.
    pub messages: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// The sequence of the newest there ever was: how many were stored in all.
    pub last_sequence: u64,
    /// When the oldest was stored; `None` where there is none.
    pub oldest: Option<UnixMillis>,
    /// When the stream was made.
    pub created: UnixMillis,
    /// After which age a message goes; `None` where there is no such limit.
    pub max_age: Option<Duration>,
    /// Above how many bytes the oldest go; `None` where there is no such limit.
    pub max_bytes: Option<u64>,
}

/// A message without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// Where it is stored.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// About what it takes, bytes.
    pub bytes: u64,
    /// It took the place of an earlier message on its subject.
    pub again: bool,
    /// Its place in the register; 0 where it has none.
    pub entry: u64,
}

/// The header of a letter that takes the place of an earlier one.
pub(crate) const AGAIN: &str = "Posthorn-Again";
/// The header that says where a letter is registered.
pub(crate) const ENTRY: &str = "Posthorn-Entry";
/// What a message takes beside its payload and its subject: its own headers, and the server's
/// bookkeeping.
const FRAME: u64 = 100;
/// Messages asked for at a time.
const BATCH: usize = 2_000;
/// The server forgets the consumer when nobody has asked for so long.
const IDLE: Duration = Duration::from_secs(10);

impl Broker {
    /// How many bytes of dead letters a tenant may have, where that is bounded.
    #[must_use]
    pub fn tenant_budget(&self) -> Option<u64> {
        self.topology().retention.dlq_of_tenant
    }

    /// What a stream keeps.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn kept(&self, stream: StreamName) -> Result<Kept, BrokerError> {
        let handle = self.stream(stream).await?;
        let info = handle.get_info().await.map_err(BrokerError::refused)?;
        let (state, config) = (info.state, info.config);
        Ok(Kept {
            messages: state.messages,
            bytes: state.bytes,
            last_sequence: state.last_sequence,
            oldest: (state.messages > 0).then(|| millis_of(state.first_timestamp)),
            created: millis_of(info.created),
            max_age: (!config.max_age.is_zero()).then_some(config.max_age),
            max_bytes: u64::try_from(config.max_bytes).ok(),
        })
    }

    /// Goes through the dead letters of a tenant (`*` for all) from sequence `from` on to the
    /// newest, in their order, without reading what is in them: tens of thousands a second.
    ///
    /// # Errors
    /// When the server does not answer; some may have been seen by then.
    pub async fn weigh_letters(
        &self,
        tenant: &str,
        from: u64,
        mut each: impl FnMut(Weighed),
    ) -> Result<(), BrokerError> {
        let stream = self.stream(StreamName::Dlq).await?;
        let unique = self.client().new_inbox();
        let unique = unique.rsplit('.').next().unwrap_or("letters");
        let config = pull::Config {
            name: Some(format!("weigh-{unique}")),
            filter_subject: self.names().letters_of(tenant),
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: from.max(1),
            },
            ack_policy: AckPolicy::None,
            headers_only: true,
            inactive_threshold: IDLE,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(BrokerError::refused)?;
        let mut left = consumer.cached_info().num_pending;
        while left > 0 {
            let batch = consumer.fetch().max_messages(BATCH).messages().await;
            let mut batch = batch.map_err(BrokerError::refused)?;
            let before = left;
            while let Some(message) = batch.next().await {
                let message = message.map_err(BrokerError::Refused)?;
                let Ok(info) = message.info() else { continue };
                left = info.pending;
                each(weighed(&message, info.stream_sequence));
            }
            if left == before {
                return Err(BrokerError::TimedOut);
            }
        }
        Ok(())
    }

    /// Drops the dead letters of a tenant before sequence `below`; returns how many there were.
    ///
    /// # Errors
    /// When the server does not answer or refuses.
    pub async fn drop_letters(&self, tenant: &str, below: u64) -> Result<u64, BrokerError> {
        if below <= 1 {
            // A purge up to 0 would be one of everything.
            return Ok(0);
        }
        let stream = self.stream(StreamName::Dlq).await?;
        let purge = stream.purge().filter(self.names().letters_of(tenant));
        let answer = purge.sequence(below).await;
        Ok(answer.map_err(BrokerError::refused)?.purged)
    }
}

fn weighed(message: &async_nats::jetstream::Message, sequence: u64) -> Weighed {
    let header = |name: &str| message.headers.as_ref().and_then(|all| all.get(name));
    let number = |name: &str| header(name).and_then(|value| value.as_str().parse().ok());
    let payload: u64 = number("Nats-Msg-Size").unwrap_or(0);
    let subject = message.subject.to_string();
    Weighed {
        sequence,
        bytes: payload + subject.len() as u64 + FRAME,
        again: header(AGAIN).is_some(),
        entry: number(ENTRY).unwrap_or(0),
        subject,
    }
}

fn millis_of(at: time::OffsetDateTime) -> UnixMillis {
    let millis = at.unix_timestamp_nanos() / 1_000_000;
    UnixMillis(i64::try_from(millis).unwrap_or(0))
}
