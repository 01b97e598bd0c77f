//! Takes out of the queue what the client library cannot hand over: left where it is, one such
//! event would close this process' connection after every ack wait.

use crate::context::Context;
use crate::letters::bury;
use posthorn_broker::BrokerError;
use posthorn_delivery::Reason;
use posthorn_runtime::Shutdown;
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(3);
/// An event that was handed out this long ago and still lies there is worth a look; a readable
/// one is left alone.
const STUCK: Duration = Duration::from_secs(2);
const DETAIL: &str = "its subject or a header is no text that NATS clients can read";

/// Looks for such events until shut down.
pub(crate) async fn watch(context: Arc<Context>, shutdown: Shutdown) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        // Where there was one there may be more.
        while !shutdown.is_triggered() {
            match bury_all(&context).await {
                Ok(0) => break,
                Ok(buried) => tracing::debug!(buried, "unreadable events were taken out"),
                Err(error) => {
                    tracing::debug!(%error, "stuck events could not be looked at");
                    break;
                }
            }
        }
    }
}

/// The letter comes first: a kill in between writes it again under the same id.
async fn bury_all(context: &Context) -> Result<usize, BrokerError> {
    let broker = &context.broker;
    let now = posthorn_wiring::now();
    let found = broker.unreadable_events(now, STUCK).await?;
    for message in &found {
        let body = message.into();
        bury(context, body, None, Reason::InvalidEvent, DETAIL).await?;
        broker.remove_event(message.sequence).await?;
    }
    Ok(found.len())
}
