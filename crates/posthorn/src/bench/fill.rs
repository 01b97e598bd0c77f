//! Deliveries put where dispatchers take them from, before anything is measured.

use super::args::BenchArgs;
use super::failed;
use super::load::{TENANT, TYPE};
use super::receiver::Receiver;
use crate::failure::Failure;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::Broker;
use posthorn_delivery::{
    Delivery, EndpointId, EventId, EventType, Tenant, UnixMillis, delivery::ReleaseMark,
};
use std::time::Duration;

const PUBLISHED_AT_ONCE: usize = 256;

/// The endpoint that delivery `n` goes to.
pub(crate) fn endpoint_id(n: u64) -> EndpointId {
    EndpointId::from_bits(u128::from(n))
}

/// Publishes every delivery of one round.
///
/// # Errors
/// When the broker refuses.
pub(crate) async fn fill(
    broker: &Broker,
    args: &BenchArgs,
    receiver: &Receiver,
    round: u64,
) -> Result<(), Failure> {
    let publishes = (0..args.deliveries()).map(|n| async move {
        let delivery = delivery(args, receiver, round, n);
        let stored = broker.publish_delivery(&delivery).await;
        stored.map(drop).map_err(failed("publishing a delivery"))
    });
    futures_util::stream::iter(publishes)
        .buffer_unordered(PUBLISHED_AT_ONCE)
        .try_collect()
        .await
}

fn delivery(args: &BenchArgs, receiver: &Receiver, round: u64, n: u64) -> Delivery {
    let bits = (u128::from(round) << 64) | u128::from(n);
    let endpoint = endpoint_id(n % u64::from(args.endpoints));
    delivery_of(endpoint, bits, receiver.payload(args.payload))
}

/// A delivery of a payload that may be made now.
pub(crate) fn delivery_of(endpoint_id: EndpointId, bits: u128, payload: Bytes) -> Delivery {
    let now = posthorn_wiring::now();
    Delivery {
        tenant: Tenant::parse(TENANT).expect("the name follows its rule"),
        event_id: EventId::from_bits(bits),
        event_type: EventType::parse(TYPE).expect("the name follows its rule"),
        endpoint_id,
        payload,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        accepted_at: now,
        event_seq: 1,
        config_revision: 0,
        attempt: 1,
        hop: 0,
        stale_retries: 0,
        release: ReleaseMark::default(),
        not_before: now,
        expires_at: UnixMillis(now.0.saturating_add(86_400_000)),
        held: Duration::ZERO,
        pauses_known: None,
        replay: None,
        test: false,
        history: Vec::new(),
    }
}
