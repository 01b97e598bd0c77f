//! What waits is released when it is due, not before, and not all at once.
//!
//! The message says when it is due; the broker's timer is only a hint. A message that comes
//! early, as thousands do after the broker was killed, goes back for the time that is left.
//! One that is late by more than a second gets a new time from the pacer.

use crate::context::Context;
use crate::fanout::{fan_out, send_off};
use posthorn_broker::{BrokerError, Incoming, Patience, Pumped, Waiting, Wire};
use posthorn_delivery::pacer::is_overdue;
use posthorn_delivery::{Delivery, UnixMillis};
use std::sync::Arc;
use std::time::Duration;

/// What is due this soon is waited for here: it would come back in the next burst anyway.
const SOON: Duration = Duration::from_millis(120);

/// Releases one message, or gives it back for the time that is left.
pub(crate) async fn handle(context: Arc<Context>, pumped: Pumped) {
    let waiting = match Waiting::from_wire(pumped.message.payload()) {
        Ok(waiting) => waiting,
        Err(error) => return discard(&context, pumped, &error.to_string()).await,
    };
    let due = waiting.not_before();
    if posthorn_wiring::now().until(due) > SOON {
        return context.naks.put(pumped, due).await;
    }
    pumped
        .work(|message| async move {
            tokio::time::sleep(posthorn_wiring::now().until(due)).await;
            if let Err(error) = release(&context, waiting, &message).await {
                tracing::warn!(%error, "something due could not be released yet");
                message.nak(Some(Duration::from_secs(1))).await;
            }
        })
        .await;
}

async fn release(
    context: &Context,
    waiting: Waiting,
    message: &Incoming,
) -> Result<(), BrokerError> {
    let now = posthorn_wiring::now();
    let due = waiting.not_before();
    let overdue = is_overdue(due, now);
    match waiting {
        Waiting::Delivery(delivery) if overdue => pace(context, *delivery, now).await?,
        Waiting::Delivery(delivery) => {
            metrics::histogram!("posthorn_retry_release_lateness_seconds")
                .record(now.since(due).as_secs_f64());
            let key = format!("{}.{}", delivery.tenant, delivery.endpoint_id);
            let next = delivery.next_hop();
            match context.endpoints.get(&key) {
                Some(endpoint) => send_off(context, next, &endpoint.value).await.map(drop)?,
                // Deleted, or not seen yet: a dispatcher finds out.
                None => context.broker.publish_delivery(&next).await.map(drop)?,
            }
        }
        Waiting::Event(event, sequence) => {
            if overdue {
                tokio::time::sleep(now.until(context.slot(now))).await;
            }
            fan_out(context, &event, sequence).await?;
        }
    }
    message.ack().await
}

/// Overdue work waits for its slot in the stream, not in memory: whichever scheduler meets it
/// then finds it timely.
async fn pace(context: &Context, delivery: Delivery, now: UnixMillis) -> Result<(), BrokerError> {
    metrics::counter!("posthorn_overdue_paced_total").increment(1);
    let slot = context.slot(now);
    let waiting = Waiting::Delivery(Box::new(delivery.deferred(slot)));
    context
        .broker
        .publish_waiting(&waiting, context.near(), now, Patience::WORKER)
        .await
        .map(drop)
}

/// Bytes that no version of ours wrote: they cannot wait for anything. Never silent.
pub(crate) async fn discard(context: &Context, pumped: Pumped, detail: &str) {
    pumped
        .work(|message| async move {
            let reason = posthorn_delivery::Reason::InvalidEvent;
            let body = message.as_ref().into();
            let buried = crate::letters::bury(context, body, None, reason, detail).await;
            let settled = match buried {
                Ok(()) => message.ack().await,
                Err(error) => Err(error),
            };
            if let Err(error) = settled {
                tracing::warn!(%error, "an unreadable message could not be dead-lettered yet");
                message.nak(Some(Duration::from_secs(1))).await;
            }
        })
        .await;
}
