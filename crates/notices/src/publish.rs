//! Publishing what there is to tell.

use crate::notice::Notice;
use metrics::counter;
use posthorn_broker::{Broker, Patience};
use posthorn_delivery::ids::SYSTEM_TENANT;
use std::time::Duration;

/// So long a delivery waits for what is told about it, at the most. Where NATS is away, it
/// waits for that anyway.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells operators. It never fails: what cannot be published is counted, because a delivery
/// must not be repeated for it. To be called before what led to it is acknowledged, so that a
/// process that dies says it in its next life.
pub async fn tell(broker: &Broker, notice: &Notice) {
    if notice.is_about_itself() {
        return;
    }
    let event = notice.event(posthorn_wiring::now());
    let kind = notice.event_type();
    let dedupe = format!("{SYSTEM_TENANT}:{}", event.id);
    let stored = broker
        .publish_event(&event, &dedupe, Patience::caller(PATIENCE))
        .await;
    match stored {
        Ok(stored) if stored.duplicate => {}
        Ok(_) => counter!("posthorn_operational_events_total", "kind" => kind).increment(1),
        Err(error) => {
            counter!("posthorn_operational_event_failures_total").increment(1);
            tracing::warn!(kind, %error, "an operational event could not be published");
        }
    }
}
