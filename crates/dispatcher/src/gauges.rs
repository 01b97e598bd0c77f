//! What a dispatcher shows of the state that it shares.

use crate::context::Context;
use metrics::gauge;
use posthorn_broker::Broker;
use posthorn_runtime::Shutdown;
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(3);

/// Publishes the gauges until shut down, and notices when the durable for retries is full.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
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
