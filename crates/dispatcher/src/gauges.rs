//! What a dispatcher shows of the state that it shares.

use crate::context::Context;
use metrics::{counter, gauge};
use posthorn_broker::Broker;
use posthorn_delivery::{DisabledReason, Reason};
use posthorn_runtime::Shutdown;
use posthorn_runtime::metrics::{begin_at_zero, names};
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(3);

/// Publishes the gauges until shut down, and notices when the durable for retries is full.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    show_zeros();
    let mut tick = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        gauge!("posthorn_breakers_open").set(context.breakers.not_closed() as f64);
        match context.broker.near_backlog().await {
            Ok((pending, waiting)) => {
                let full = pending + waiting >= Broker::near_capacity() / 10 * 9;
                context.set_near(if full {
                    Broker::near_when_full()
                } else {
                    Broker::near()
                });
            }
            Err(error) => tracing::debug!(%error, "the durable for retries could not be looked at"),
        }
    }
}

/// What is rare is shown before it happens, so that the first time is a rise.
fn show_zeros() {
    for reason in [DisabledReason::Gone, DisabledReason::Breaker] {
        counter!("posthorn_endpoints_disabled_total", "reason" => reason.as_str()).absolute(0);
    }
    for reason in Reason::ALL {
        counter!("posthorn_dead_letters_total", "reason" => reason.as_str()).absolute(0);
    }
    for (outcome, class) in [("success", "2xx"), ("failure", "4xx"), ("failure", "5xx")] {
        counter!("posthorn_attempts_total", "outcome" => outcome, "status_class" => class)
            .absolute(0);
    }
    begin_at_zero(&[
        names::ATTEMPT_DURATION_SECONDS,
        names::DELIVERY_LATENCY_SECONDS,
        names::IN_FLIGHT,
        names::OPERATIONAL_EVENT_FAILURES_TOTAL,
    ]);
}
