//! Publishing: as fast as it goes, or at a steady rate.

use super::failed;
use super::stamp::Clock;
use crate::failure::Failure;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{Broker, Patience};
use posthorn_delivery::{Event, EventId, EventType, Tenant};
use rand::Rng;
use std::time::Duration;

/// Whose events they are where it does not matter.
pub(crate) const TENANT: &str = "bench";
pub(crate) const TYPE: &str = "bench.event";
/// Publishes of a steady load that may be on their way: far more than there should ever be.
const STEADY_IN_FLIGHT: usize = 4_096;

/// Publishes the events of one tenant.
pub(crate) struct Load {
    broker: Broker,
    clock: Clock,
    tenant: Tenant,
    event_type: EventType,
    /// Bytes of a payload.
    payload: u32,
    /// Publishes in flight.
    pipelined: usize,
    /// The ids of a run are those from here on.
    base: u128,
}

impl Load {
    /// A load on `broker` whose payloads are stamped by `clock`.
    ///
    /// # Errors
    /// When `tenant` cannot be one.
    pub fn new(
        broker: &Broker,
        clock: Clock,
        tenant: &str,
        (payload, pipelined): (u32, usize),
    ) -> Result<Load, Failure> {
        let mut bits = [0_u8; 16];
        posthorn_runtime::rng::rng().fill_bytes(&mut bits);
        let tenant =
            Tenant::parse(tenant).map_err(|error| Failure::internal("a tenant's name", &error))?;
        Ok(Load {
            broker: broker.clone(),
            clock,
            tenant,
            event_type: EventType::parse(TYPE).expect("the name follows its rule"),
            payload,
            pipelined,
            // Room to count upwards.
            base: u128::from_be_bytes(bits) >> 1,
        })
    }

    /// Publishes `count` events, many at a time.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn burst(&mut self, count: u32) -> Result<(), Failure> {
        let first = self.take(count);
        let this = &*self;
        let publishes = (0..u128::from(count)).map(|n| this.publish(first + n));
        futures_util::stream::iter(publishes)
            .buffer_unordered(self.pipelined)
            .try_collect()
            .await
    }

    /// Publishes `count` events, `rate` a second, evenly. One that takes long does not keep the
    /// next one waiting: what waits would not be seen in the latencies.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn steady(&mut self, rate: u32, count: u32) -> Result<(), Failure> {
        let first = self.take(count);
        let this = &*self;
        let every = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        let ticks = futures_util::stream::unfold((every, 0_u128), |(mut every, n)| async move {
            every.tick().await;
            Some((first + n, (every, n + 1)))
        });
        ticks
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map(|bits| this.publish(bits))
            .buffer_unordered(STEADY_IN_FLIGHT)
            .try_collect()
            .await
    }

    fn take(&mut self, count: u32) -> u128 {
        let first = self.base;
        self.base += u128::from(count);
        first
    }

    async fn publish(&self, bits: u128) -> Result<(), Failure> {
        let id = EventId::from_bits(bits);
        let tenant = &self.tenant;
        let dedupe = format!("{tenant}:{id}");
        let event = Event {
            id,
            tenant: tenant.clone(),
            event_type: self.event_type.clone(),
            payload: self.clock.payload(self.payload),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            traceparent: None,
            accepted_at: posthorn_wiring::now(),
            deliver_at: None,
            only_endpoint: None,
        };
        let stored = self
            .broker
            .publish_event(&event, &dedupe, Patience::WORKER)
            .await;
        stored.map(drop).map_err(failed("publishing an event"))
    }
}
