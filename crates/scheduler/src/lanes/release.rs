//! From the lane to the dispatchers: published, confirmed, then removed.

use super::owner::Owner;
use crate::context::Context;
use crate::letters::{Body, bury};
use futures_util::{StreamExt, TryStreamExt};
use metrics::counter;
use posthorn_broker::codec::Parked;
use posthorn_broker::{BrokerError, Logged, Patience, Waiting};
use posthorn_delivery::delivery::ReleaseMark;
use posthorn_delivery::lane::{Head as Ordering, fold};
use posthorn_delivery::{Delivery, Endpoint, LaneId, Reason};
use std::time::Duration;

/// Published at the same time.
const PIPELINE: usize = 128;
/// Between two looks for the record of what is on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// What is over is let go so many at once.
const OVER: usize = 256;

impl Owner<'_> {
    /// Lets go up to `n` from the head.
    pub(super) async fn release(
        &mut self,
        n: u32,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), BrokerError> {
        let batch = self.head.take(usize::try_from(n).unwrap_or(usize::MAX));
        self.let_go(batch, endpoint).await
    }

    /// Lets go what is over at the head of a lane that is shut; `false` when nothing is.
    pub(super) async fn release_expired(
        &mut self,
        endpoint: &Endpoint,
    ) -> Result<bool, BrokerError> {
        self.head.fill(self.context, self.lane, 1).await?;
        let over = |item: Option<&Logged<Parked>>| match item.map(|item| &item.value) {
            Some(Parked::Delivery(delivery)) => delivery.is_over(endpoint, posthorn_wiring::now()),
            Some(Parked::Unreadable(..)) => true,
            None => false,
        };
        let mut batch = Vec::new();
        while batch.len() < OVER && over(self.head.first()) {
            batch.extend(self.head.take(1));
            self.head.fill(self.context, self.lane, 64).await?;
        }
        let any = !batch.is_empty();
        self.let_go(batch, Some(endpoint)).await?;
        Ok(any)
    }

    async fn let_go(
        &mut self,
        batch: Vec<Logged<Parked>>,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), BrokerError> {
        if batch.is_empty() {
            return Ok(());
        }
        let positions: Vec<u64> = batch.iter().map(|item| item.sequence).collect();
        let n = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let publish = |item: Logged<Parked>| self.publish(item, endpoint);
        futures_util::stream::iter(batch)
            .map(publish)
            .buffered(PIPELINE)
            .try_collect::<()>()
            .await?;
        let now = posthorn_wiring::now();
        self.flight.released(n, now);
        if let Some(ramp) = &mut self.ramp {
            ramp.released(n, now);
        }
        if let Some(pace) = &mut self.pace {
            pace.used(n, now);
        }
        self.head.let_go(&positions);
        self.head.remove(self.context, self.lane, false).await
    }

    async fn publish(
        &self,
        item: Logged<Parked>,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), BrokerError> {
        let parked = match item.value {
            Parked::Delivery(delivery) => *delivery,
            Parked::Unreadable(..) => return bury_one(self.context, self.lane, item).await,
        };
        let released = self.marked(parked.clone().next_hop(), endpoint, false);
        let stored = self.context.broker.publish_delivery(&released).await?;
        counter!("posthorn_lane_releases_total").increment(1);
        if stored.duplicate {
            return self.publish_successor(parked, &released, endpoint).await;
        }
        Ok(())
    }

    /// It had been let go before, by an owner that died or by one that kept an order. The
    /// latter left a retry to whoever has the lane, which shows in the record alone. So the
    /// lane keeps the delivery until there is a record, or it is not on its way any more.
    async fn publish_successor(
        &self,
        parked: Delivery,
        released: &Delivery,
        endpoint: Option<&Endpoint>,
    ) -> Result<(), BrokerError> {
        let store = self.context.lanes.store();
        let records = loop {
            let gone = store.on_their_way(&self.lane.endpoint).await? == 0;
            let records = store.records(&parked).await?;
            let known = records.iter().any(|(_, record)| record.hop == released.hop);
            if known || gone {
                break records;
            }
            if self.context.stop.is_cancelled() {
                // Whoever comes next finds it where it is.
                return Err(BrokerError::TimedOut);
            }
            tokio::time::sleep(ON_ITS_WAY).await;
        };
        let left = records
            .iter()
            .any(|(_, record)| record.in_order && record.hop == released.hop);
        match fold(parked, &records) {
            Ordering::Next(next) if left && next.hop != released.hop => {
                self.retry(*next, endpoint).await
            }
            _ => Ok(()),
        }
    }

    /// Lets a retry go that had been left to the owner: now, or by way of RETRIES at its time.
    async fn retry(&self, next: Delivery, endpoint: Option<&Endpoint>) -> Result<(), BrokerError> {
        let broker = &self.context.broker;
        let now = posthorn_wiring::now();
        if next.not_before <= now {
            let next = self.marked(next, endpoint, false);
            return broker.publish_delivery(&next).await.map(drop);
        }
        let (waiting, near) = (Waiting::Delivery(Box::new(next)), self.context.near());
        broker
            .publish_waiting(&waiting, near, now, Patience::WORKER)
            .await
            .map(drop)
    }

    /// A delivery with the mark of this lane. Whoever sends it looks at the endpoint as it is
    /// seen here, or later.
    pub(super) fn marked(
        &self,
        mut delivery: Delivery,
        endpoint: Option<&Endpoint>,
        in_order: bool,
    ) -> Delivery {
        if let Some(endpoint) = endpoint {
            delivery.credit_pauses(endpoint, posthorn_wiring::now());
        }
        delivery.config_revision = self.context.endpoints.revision();
        delivery.release = ReleaseMark {
            lane_epoch: self.hold.state().epoch,
            breaker_generation: self.breaker().value.generation,
            in_order,
        };
        delivery
    }
}

/// Dead-letters bytes that are no delivery, and removes them.
pub(super) async fn bury_all(
    context: &Context,
    lane: &LaneId,
    items: Vec<Logged<Parked>>,
) -> Result<(), BrokerError> {
    for item in items {
        let position = item.sequence;
        if let Parked::Unreadable(..) = item.value {
            bury_one(context, lane, item).await?;
            context.lanes.store().remove(position).await?;
        }
    }
    Ok(())
}

async fn bury_one(
    context: &Context,
    lane: &LaneId,
    item: Logged<Parked>,
) -> Result<(), BrokerError> {
    let Parked::Unreadable(bytes, error) = item.value else {
        return Ok(());
    };
    let subject = format!("{}.lanes.{lane}", context.broker.names().prefix());
    let body = Body::new(&subject, bytes, item.sequence, item.stored_at);
    let detail = error.to_string();
    bury(context, body, None, Reason::InvalidEvent, &detail).await
}
