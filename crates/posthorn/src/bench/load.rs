//! Publishing: as fast as it goes, or at a steady rate.

use super::args::BenchArgs;
use super::failed;
use super::receiver::Receiver;
use crate::failure::Failure;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{Broker, Patience};
use posthorn_delivery::{Event, EventId, EventType, Tenant};
use rand::Rng;
use std::time::Duration;

pub(crate) const TENANT: &str = "bench";
pub(crate) const TYPE: &str = "bench.event";

/// Publishes events.
pub(crate) struct Load<'a> {
    broker: &'a Broker,
    receiver: &'a Receiver,
    args: &'a BenchArgs,
    tenant: Tenant,
    event_type: EventType,
    /// The ids of a run are those from here on.
    base: u128,
}

impl<'a> Load<'a> {
    /// A load on `broker` whose payloads `receiver` understands.
    pub fn new(broker: &'a Broker, receiver: &'a Receiver, args: &'a BenchArgs) -> Load<'a> {
        let mut bits = [0_u8; 16];
        posthorn_runtime::rng::rng().fill_bytes(&mut bits);
        Load {
            broker,
            receiver,
            args,
            tenant: Tenant::parse(TENANT).expect("the name follows its rule"),
            event_type: EventType::parse(TYPE).expect("the name follows its rule"),
            // Room to count upwards.
            base: u128::from_be_bytes(bits) >> 1,
        }
    }

    /// Publishes `count` events, many at a time.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn burst(&mut self, count: u32) -> Result<(), Failure> {
        let first = self.base;
        self.base += u128::from(count);
        let this = &*self;
        let publishes = (0..u128::from(count)).map(|n| this.publish(first + n));
        futures_util::stream::iter(publishes)
            .buffer_unordered(self.args.pipelined())
            .try_collect()
            .await
    }

    /// Publishes `rate` events a second for `seconds`, evenly.
    ///
    /// # Errors
    /// When the broker refuses.
    pub async fn steady(&mut self, rate: u32, seconds: u32) -> Result<(), Failure> {
        let mut every = tokio::time::interval(Duration::from_secs(1) / rate);
        for _ in 0..rate * seconds {
            every.tick().await;
            self.base += 1;
            self.publish(self.base).await?;
        }
        Ok(())
    }

    async fn publish(&self, bits: u128) -> Result<(), Failure> {
        let id = EventId::from_bits(bits);
        let dedupe = format!("{TENANT}:{id}");
        let event = Event {
            id,
            tenant: self.tenant.clone(),
            event_type: self.event_type.clone(),
            payload: self.receiver.payload(self.args.payload),
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
