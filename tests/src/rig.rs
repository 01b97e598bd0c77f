//! Schedulers and dispatchers in the test's own process, on a nats-server of their own.
//!
//! For what concerns the line between a published event and a receiver: endpoints are put
//! straight into their bucket, so a test can give them settings that no API would take long
//! to write, and metrics of this process can be read.

use crate::nats::TestNats;
use anyhow::Result;
use posthorn_broker::{Broker, BucketName, ConnectSettings, Topology};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::retry::{Backoff, Preset, RetryPolicyParts, Schedule};
use posthorn_delivery::{
    Attempt, BreakerPolicy, BreakerSignal, Delivery, Disposition, Endpoint, EndpointId, Event,
    EventId, EventType, Pattern, RetryPolicy, Tenant, UnixMillis,
};
use posthorn_runtime::config::SecretsArgs;
use posthorn_runtime::{Readiness, Shutdown, rng};
use rand::RngExt;
use std::time::Duration;

/// The secret of every endpoint that a rig makes.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Services in this process.
pub struct Rig {
    /// The broker's process.
    pub nats: TestNats,
    broker: Broker,
    shutdowns: Vec<Shutdown>,
}

impl Rig {
    /// A nats-server and nothing on it yet.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start() -> Result<Rig> {
        posthorn_runtime::tls::install_crypto_provider();
        posthorn_runtime::metrics::install();
        let nats = TestNats::start().await?;
        let broker = connect(&nats).await?;
        Ok(Rig {
            nats,
            broker,
            shutdowns: Vec::new(),
        })
    }

    /// The test's own connection.
    #[must_use]
    pub fn broker(&self) -> Broker {
        self.broker.clone()
    }

    /// Starts a scheduler.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn scheduler(&mut self, settings: posthorn_scheduler::Settings) -> Result<Shutdown> {
        let deps = posthorn_scheduler::Deps {
            broker: connect(&self.nats).await?,
            readiness: Readiness::new(),
        };
        let shutdown = self.shutdown();
        let stop = shutdown.clone();
        tokio::spawn(async move { posthorn_scheduler::serve(settings, deps, stop).await });
        Ok(shutdown)
    }

    /// Starts a dispatcher that may call loopback, by `http` too, and that reads endpoints in
    /// plain unless its settings have keys.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn dispatcher(
        &mut self,
        settings: posthorn_dispatcher::Settings,
    ) -> Result<Shutdown> {
        let settings = posthorn_dispatcher::Settings {
            egress_allow: settings
                .egress_allow
                .or_else(|| Some("127.0.0.0/8,::1/128".to_owned())),
            secrets: match settings.secrets.is_set() {
                true => settings.secrets.clone(),
                false => SecretsArgs::of("none".parse().expect("any text is a secret")),
            },
            egress_allow_http: settings.egress_allow_http.or(Some(true)),
            ..settings
        };
        let deps = posthorn_dispatcher::Deps {
            broker: connect(&self.nats).await?,
            readiness: Readiness::new(),
            drain_timeout: Duration::from_secs(10),
        };
        let shutdown = self.shutdown();
        let stop = shutdown.clone();
        tokio::spawn(async move { posthorn_dispatcher::serve(settings, deps, stop).await });
        Ok(shutdown)
    }

    /// One scheduler and one dispatcher with their defaults.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn line(&mut self) -> Result<()> {
        self.scheduler(posthorn_scheduler::Settings::default())
            .await?;
        self.dispatcher(posthorn_dispatcher::Settings::default())
            .await?;
        Ok(())
    }

    fn shutdown(&mut self) -> Shutdown {
        let shutdown = Shutdown::new();
        self.shutdowns.push(shutdown.clone());
        shutdown
    }

    /// Stores an endpoint, new or changed.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn put(&self, endpoint: &Endpoint) -> Result<()> {
        let bucket = self
            .broker
            .bucket::<Endpoint>(BucketName::Endpoints)
            .await?;
        bucket.put(&key(endpoint), endpoint).await?;
        Ok(())
    }

    /// Deletes an endpoint.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn remove(&self, endpoint: &Endpoint) -> Result<()> {
        let bucket = self
            .broker
            .bucket::<Endpoint>(BucketName::Endpoints)
            .await?;
        bucket.remove(&key(endpoint)).await?;
        Ok(())
    }

    /// Publishes `count` events of `event_type` straight to NATS and waits for every PubAck;
    /// their payloads are `{"n":0}` and so on.
    ///
    /// # Errors
    /// When one is not acknowledged.
    pub async fn publish(&self, tenant: &str, event_type: &str, count: usize) -> Result<()> {
        let context = async_nats::jetstream::new(self.nats.client().await?);
        let subject = format!("posthorn.events.{tenant}.{event_type}");
        let mut acks = Vec::with_capacity(count);
        for n in 0..count {
            let payload = format!("{{\"n\":{n}}}");
            acks.push(context.publish(subject.clone(), payload.into()).await?);
        }
        for ack in acks {
            ack.await?;
        }
        Ok(())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.shutdowns.iter().for_each(Shutdown::trigger);
    }
}

async fn connect(nats: &TestNats) -> Result<Broker> {
    let settings = ConnectSettings::plain(nats.url(), "rig");
    Ok(Broker::connect(&settings, Topology::new("posthorn")).await?)
}

fn key(endpoint: &Endpoint) -> String {
    format!("{}.{}", endpoint.tenant, endpoint.id)
}

/// An endpoint of `tenant` at `url` that wants everything, retries quickly and has no breaker.
#[must_use]
pub fn endpoint(tenant: &str, url: &str) -> Endpoint {
    Endpoint {
        id: EndpointId::from_bits(rng::rng().random()),
        tenant: Tenant::parse(tenant).expect("tests name valid tenants"),
        url: Hidden::new(url.to_owned()),
        event_types: vec![Pattern::all()],
        description: String::new(),
        headers: Vec::new(),
        signatures: vec!["v1".to_owned()],
        secrets: vec![StoredSecret {
            text: Hidden::new(SECRET.to_owned()),
            expires_at: None,
        }],
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: std::time::Duration::ZERO,
        ordering: posthorn_delivery::Ordering::None,
        rate_limit: None,
        max_backlog: posthorn_delivery::endpoint::limits::MAX_BACKLOG,
        retry: retry(Duration::from_millis(50), 16),
        timeout: Duration::from_secs(5),
        max_in_flight: 256,
        breaker: None,
        target_epoch: 0,
        created_at: UnixMillis(1),
        updated_at: UnixMillis(1),
    }
}

/// Full jitter over a constant ceiling.
#[must_use]
pub fn retry(base: Duration, max_attempts: u32) -> RetryPolicy {
    let mut parts = RetryPolicyParts::of(Preset::Exponential);
    parts.schedule = Schedule::Exponential(
        Backoff::try_new(base, 1_000, base).expect("tests choose delays within bounds"),
    );
    parts.max_attempts = max_attempts;
    RetryPolicy::try_new(parts).expect("tests choose attempts within bounds")
}

/// A breaker that opens after `threshold` failures, always for `cooldown`.
#[must_use]
pub fn breaker(threshold: u32, cooldown: Duration) -> Option<BreakerPolicy> {
    Some(
        BreakerPolicy::try_new(threshold, cooldown, cooldown).expect("tests choose valid breakers"),
    )
}

/// A delivery that `endpoint` is owed, as fan-out would make it of event number `seq`.
#[must_use]
pub fn delivery(endpoint: &Endpoint, seq: u64) -> Delivery {
    let now = posthorn_wiring::now();
    let event = Event {
        id: EventId::from_bits(rng::rng().random()),
        tenant: endpoint.tenant.clone(),
        event_type: EventType::parse("a").expect("it is one"),
        payload: format!("{{\"n\":{seq}}}").into(),
        content_type: "application/json".to_owned(),
        accepted_at: now,
        traceparent: None,
        headers: Vec::new(),
        deliver_at: None,
        only_endpoint: None,
    };
    Delivery::of(&event, endpoint, seq, 0, now)
}

/// The record of an attempt of `delivery`, answered with 200 whatever was decided.
#[must_use]
pub fn record(delivery: &Delivery, disposition: Disposition) -> Attempt {
    Attempt {
        tenant: delivery.tenant.clone(),
        event_id: delivery.event_id.clone(),
        event_type: delivery.event_type.clone(),
        endpoint_id: delivery.endpoint_id.clone(),
        number: delivery.attempt,
        hop: delivery.hop,
        replay_generation: 0,
        at: delivery.accepted_at,
        latency_ms: 5,
        result: AttemptResult::Status(200),
        response_body: Vec::new().into(),
        disposition,
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Success,
        hold_until: None,
        disable_endpoint: false,
        in_order: true,
        detail: String::new(),
        exchange: None,
    }
}
