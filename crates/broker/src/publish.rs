//! Publishing: under a deterministic id, repeated until the PubAck.

use crate::connect::Connections;
use crate::error::BrokerError;
use crate::metric;
use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::{Context, message::PublishMessage};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// Where a message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its sequence; of the first one, when this was a duplicate.
    pub sequence: u64,
    /// The stream had this id already.
    pub duplicate: bool,
    /// An earlier try of this call may have been the one that was stored.
    pub ambiguous: bool,
}

/// How long a publish is repeated before its error is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    limit: Duration,
    waits_when_full: bool,
}

impl Patience {
    /// For a caller who waits at the other end of an HTTP request, and is told at once when a
    /// stream is full.
    pub const CALLER: Patience = Patience {
        limit: Duration::from_secs(8),
        waits_when_full: false,
    };
    /// For a worker whose input stays unacknowledged meanwhile.
    pub const WORKER: Patience = Patience {
        limit: Duration::from_secs(60),
        waits_when_full: true,
    };

    /// The patience of a caller, of `limit`.
    #[must_use]
    pub fn caller(limit: Duration) -> Patience {
        Patience {
            limit,
            waits_when_full: false,
        }
    }

    fn is_spent(self, error: &BrokerError) -> bool {
        !error.is_temporary() || (matches!(error, BrokerError::Full) && !self.waits_when_full)
    }
}

/// A message on its way out.
pub(crate) struct Outgoing {
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Bytes,
    pub id: Option<String>,
    pub expect_subject_sequence: Option<u64>,
}

impl Outgoing {
    fn message(&self) -> PublishMessage {
        let mut message = PublishMessage::build()
            .payload(self.payload.clone())
            .headers(self.headers.clone());
        if let Some(id) = &self.id {
            message = message.message_id(id);
        }
        match self.expect_subject_sequence {
            Some(sequence) => message.expected_last_subject_sequence(sequence),
            None => message,
        }
    }
}

/// Publishes and waits for the PubAck. A timeout may mean that the message was stored, so the
/// same message goes out again under the same id: a stream that has it says so.
pub(crate) async fn publish(
    context: &Context,
    connections: &Connections,
    outgoing: &Outgoing,
    patience: Patience,
) -> Result<Stored, BrokerError> {
    let give_up = Instant::now() + patience.limit;
    let mut pause = Duration::from_millis(20);
    let mut ambiguous = false;
    loop {
        let error = match once(context, connections, outgoing, give_up).await {
            Ok(stored) => {
                return Ok(Stored {
                    ambiguous,
                    ..stored
                });
            }
            Err(error) => error,
        };
        metric::publish_failure();
        ambiguous = true;
        if patience.is_spent(&error) || Instant::now() + pause >= give_up {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

async fn once(
    context: &Context,
    connections: &Connections,
    outgoing: &Outgoing,
    give_up: Instant,
) -> Result<Stored, BrokerError> {
    let attempt = async {
        let ack = context
            .send_publish(outgoing.subject.clone(), outgoing.message())
            .await
            .map_err(from_publish)?;
        ack.await.map_err(from_publish)
    };
    let stored = tokio::select! {
        stored = tokio::time::timeout_at(give_up, attempt) => stored.map_err(|_| BrokerError::TimedOut)??,
        // The answer went down with the connection.
        () = connections.renewed() => return Err(BrokerError::TimedOut),
    };
    Ok(Stored {
        sequence: stored.sequence,
        duplicate: stored.duplicate,
        ambiguous: false,
    })
}

fn from_publish(error: async_nats::jetstream::context::PublishError) -> BrokerError {
    match error.kind() {
        PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending => BrokerError::TimedOut,
        PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId => {
            BrokerError::Conflict
        }
        PublishErrorKind::MaxPayloadExceeded => BrokerError::TooLarge,
        PublishErrorKind::StreamNotFound | PublishErrorKind::Other => BrokerError::refused(error),
    }
}
