//! From an event to one delivery for each endpoint that wants it.

use crate::context::Context;
use crate::letters::bury;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use metrics::counter;
use posthorn_broker::codec::{Intake, read_event};
use posthorn_broker::{Broker, BrokerError, Incoming, Patience, Waiting};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    Attempt, BreakerSignal, Delivery, DisabledReason, Disposition, Endpoint, Event, Failure, Reason,
};
use posthorn_lanes::Place;
use posthorn_runtime::trace;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Deliveries published at the same time for one event.
const PIPELINE: usize = 64;
/// Room that every later hop needs for ids, headers and history.
const HEADROOM: usize = 64 * 1024;

/// Fans one message out and acknowledges it, or gives it back.
pub(crate) async fn handle(context: &Context, message: &Incoming) {
    let done = async {
        settle(context, message).await?;
        message.ack().await
    };
    if let Err(error) = done.await {
        tracing::warn!(%error, sequence = message.sequence(), "an event could not be fanned out yet");
        message.nak(Some(Duration::from_secs(1))).await;
    }
}

async fn settle(context: &Context, message: &Incoming) -> Result<(), BrokerError> {
    let intake = Intake::of(message, context.broker.events_created());
    let event = match read_event(context.broker.names(), &intake) {
        Ok(event) => event,
        Err(error) => {
            let detail = error.to_string();
            return bury(context, message.into(), None, Reason::InvalidEvent, &detail).await;
        }
    };
    if event.payload.len() + HEADROOM > context.broker.max_payload() {
        let detail = "the payload leaves no room for what a delivery carries with it";
        return bury(
            context,
            message.into(),
            Some(&event),
            Reason::TooLarge,
            detail,
        )
        .await;
    }
    look_at_its_id(context, message, &event);
    let now = posthorn_wiring::now();
    if event.deliver_at.is_some_and(|at| at > now) {
        let waiting = Waiting::Event(Box::new(event), message.sequence());
        let near = context.near();
        return context
            .broker
            .publish_waiting(&waiting, near, now, Patience::WORKER)
            .await
            .map(drop);
    }
    fan_out(context, &event, message.sequence()).await
}

fn look_at_its_id(context: &Context, message: &Incoming, event: &Event) {
    let headers = message.headers();
    if let Some(id) = headers.and_then(|headers| headers.get("Nats-Msg-Id")) {
        context.unscoped.look(&event.tenant, id.as_str());
    }
}

/// Publishes what `event` owes to every endpoint that wants it now.
pub(crate) async fn fan_out(
    context: &Context,
    event: &Event,
    sequence: u64,
) -> Result<(), BrokerError> {
    let span = tracing::info_span!("fan_out", event = %event.id, tenant = %event.tenant);
    if let Some(parent) = event
        .traceparent
        .as_deref()
        .and_then(trace::Traceparent::parse)
    {
        trace::link(&span, &parent);
    }
    async {
        let revision = context.freshness.catch_up().await?;
        let matches = matching(context, event);
        futures_util::stream::iter(matches)
            .map(|endpoint| owe(context, event, endpoint, sequence, revision))
            .buffer_unordered(PIPELINE)
            .try_collect::<()>()
            .await
    }
    .instrument(span)
    .await
}

fn matching(context: &Context, event: &Event) -> Vec<Arc<posthorn_broker::Versioned<Endpoint>>> {
    let mut all = context.endpoints.with_prefix(&format!("{}.", event.tenant));
    all.retain(|endpoint| match &event.only_endpoint {
        Some(only) => endpoint.value.id == *only,
        None => endpoint.value.wants(&event.event_type),
    });
    all
}

async fn owe(
    context: &Context,
    event: &Event,
    endpoint: Arc<posthorn_broker::Versioned<Endpoint>>,
    sequence: u64,
    revision: u64,
) -> Result<(), BrokerError> {
    let now = posthorn_wiring::now();
    let mut delivery = Delivery::of(event, &endpoint.value, sequence, revision, now);
    if let Some(here) = trace::of(&tracing::Span::current()) {
        delivery.traceparent = Some(here.to_string());
    }
    if endpoint.value.disabled_reason() == Some(DisabledReason::Gone) && !delivery.test {
        return skip(&context.broker, &delivery).await;
    }
    if !send_off(context, delivery, &endpoint.value).await? {
        counter!("posthorn_deliveries_created_total").increment(1);
    }
    Ok(())
}

/// To the dispatchers, or behind others where the endpoint's lane is active; `true` when it
/// was there already. One that finds the lane full goes to a dispatcher too, which writes down
/// that it is given up. A test send passes by whatever waits.
pub(crate) async fn send_off(
    context: &Context,
    delivery: Delivery,
    endpoint: &Endpoint,
) -> Result<bool, BrokerError> {
    let held = context.lanes.holds(&delivery, endpoint);
    let delivery = match held.filter(|_| !delivery.test) {
        None => delivery,
        Some(why) => match context.lanes.park(delivery, endpoint, why).await? {
            Place::Parked { duplicate } => return Ok(duplicate),
            Place::Full(delivery) => *delivery,
        },
    };
    let stored = context.broker.publish_delivery(&delivery).await?;
    Ok(stored.duplicate)
}

/// An endpoint that said it is gone gets nothing, and the record says so.
async fn skip(broker: &Broker, delivery: &Delivery) -> Result<(), BrokerError> {
    counter!("posthorn_skipped_total", "reason" => "gone").increment(1);
    let record = Attempt {
        tenant: delivery.tenant.clone(),
        event_id: delivery.event_id.clone(),
        event_type: delivery.event_type.clone(),
        endpoint_id: delivery.endpoint_id.clone(),
        number: 0,
        hop: delivery.hop,
        replay_generation: 0,
        at: posthorn_wiring::now(),
        latency_ms: 0,
        result: AttemptResult::Error(Failure::EndpointGone),
        response_body: Bytes::new(),
        disposition: Disposition::Skipped,
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Neutral,
        hold_until: None,
        disable_endpoint: false,
        in_order: false,
        detail: String::new(),
        exchange: None,
    };
    broker.publish_attempt(&record).await.map(drop)
}
