//! What waits, and whether anything that is due is not being sent: the alarm for silence.

use crate::context::Context;
use metrics::{counter, gauge};
use posthorn_broker::{Broker, BrokerError, StreamName};
use posthorn_delivery::{LaneReason, Reason};
use posthorn_runtime::Shutdown;
use posthorn_runtime::metrics::{begin_at_zero, names};
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(3);

/// Publishes the gauges until shut down.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    show_zeros();
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        if let Err(error) = look(&context).await {
            tracing::debug!(%error, "the streams could not be looked at");
        }
    }
}

/// What happens seldom is shown before it happens, so that the first time is a rise.
fn show_zeros() {
    for reason in Reason::ALL {
        counter!("posthorn_dead_letters_total", "reason" => reason.as_str()).absolute(0);
    }
    counter!("posthorn_skipped_total", "reason" => "gone").absolute(0);
    begin_at_zero(&[
        names::DELIVERIES_CREATED_TOTAL,
        names::LANE_RELEASES_TOTAL,
        names::LANES_REPAIRED_TOTAL,
        names::OPERATIONAL_EVENT_FAILURES_TOTAL,
        names::OVERDUE_PACED_TOTAL,
        names::RETRY_RELEASE_LATENESS_SECONDS,
        names::UNSCOPED_MESSAGE_IDS_TOTAL,
    ]);
}

/// Counts the dispatchers as often as they show that they live.
pub(crate) async fn count_dispatchers(context: Arc<Context>, shutdown: Shutdown) {
    let mut tick = tokio::time::interval(Duration::from_secs(2));
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        if let Err(error) = context.count_dispatchers().await {
            tracing::debug!(%error, "the dispatchers could not be counted");
        }
    }
}

async fn look(context: &Context) -> Result<(), BrokerError> {
    let broker = &context.broker;
    let waiting = broker.stream_messages(StreamName::Retries).await?;
    gauge!("posthorn_retries_waiting").set(precise(waiting));
    let held = broker.stream_messages(StreamName::Lanes).await?;
    gauge!("posthorn_lane_depth").set(precise(held));
    show_lanes(context);
    let now = posthorn_wiring::now();
    let oldest = broker.oldest_due(now).await?;
    gauge!("posthorn_oldest_due_seconds").set(oldest.as_secs_f64());
    context.set_oldest_due(oldest);
    let (pending, handed_out) = broker.near_backlog().await?;
    adapt(context, pending + handed_out);
    Ok(())
}

/// Active lanes by reason, with a zero where there is none.
fn show_lanes(context: &Context) {
    let all = context.lanes.watched().all();
    for reason in LaneReason::ALL {
        let active = all.iter().filter(|(_, lane)| lane.value.reason == reason);
        gauge!("posthorn_lanes_active", "reason" => reason.as_str())
            .set(precise(active.count() as u64));
    }
}

/// While the durable is nearly full, only what is due very soon may wait on it.
fn adapt(context: &Context, on_durable: u64) {
    let full = on_durable >= Broker::near_capacity() / 10 * 9;
    let wanted = if full {
        Broker::near_when_full()
    } else {
        Broker::near()
    };
    if wanted != context.near() {
        tracing::warn!(
            on_durable,
            full,
            "the durable for retries changed between full and free"
        );
        context.set_near(wanted);
    }
    gauge!("posthorn_retries_near_full").set(if full { 1.0 } else { 0.0 });
}

/// Counts stay far below 2^52, where a float begins to round.
fn precise(count: u64) -> f64 {
    count as f64
}
