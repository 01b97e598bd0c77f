//! One connection with what hangs on it.
//!
//! A service has one for everything, and the one that takes events has a second for that alone:
//! publishers may put any bytes into headers, over some of which the client library closes the
//! connection, or ends for good. Then only the taking of events stops, and is connected anew,
//! while [`crate::Unreadable`] events are found and taken out over the first.

use crate::connect::{ConnectSettings, Connections, connect};
use crate::error::BrokerError;
use async_nats::Client;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use std::time::Duration;
use tokio::sync::Mutex;

/// A connection.
#[derive(Clone)]
pub(crate) struct Link {
    pub client: Client,
    pub connections: Connections,
    pub context: Context,
}

impl Link {
    pub async fn open(settings: &ConnectSettings) -> Result<Link, BrokerError> {
        let (client, connections) = connect(settings).await?;
        let context = ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .ack_timeout(Duration::from_secs(5))
            .max_ack_inflight(16_384)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Ok(Link {
            client,
            connections,
            context,
        })
    }

    /// Whether the client's own task runs, connected or not. Its state does not tell: one whose
    /// task has ended says for ever what it said last.
    async fn is_alive(&self) -> bool {
        let flushed = tokio::time::timeout(ANSWERS_AT_ONCE, self.client.flush()).await;
        !matches!(flushed, Ok(Err(_)))
    }
}

/// A client without a task refuses at once; one that is disconnected keeps the caller waiting.
const ANSWERS_AT_ONCE: Duration = Duration::from_millis(50);
/// The loop that needs the second connection tries again by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection for events alone, made when it is first needed and whenever it is beyond help.
pub(crate) struct Intake {
    settings: ConnectSettings,
    link: Mutex<Option<Link>>,
}

impl Intake {
    pub fn new(settings: &ConnectSettings) -> Intake {
        Intake {
            settings: ConnectSettings {
                timeout: settings.timeout.min(PATIENCE),
                client_name: format!("{} intake", settings.client_name),
                ..settings.clone()
            },
            link: Mutex::new(None),
        }
    }

    pub async fn link(&self) -> Result<Link, BrokerError> {
        let mut held = self.link.lock().await;
        if let Some(link) = held.as_ref()
            && link.is_alive().await
        {
            return Ok(link.clone());
        }
        if held.take().is_some() {
            tracing::warn!("the connection that takes events has ended; making it anew");
        }
        let link = Link::open(&self.settings).await?;
        *held = Some(link.clone());
        Ok(link)
    }
}
