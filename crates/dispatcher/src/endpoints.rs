//! The endpoint that a delivery goes to, as it is configured now.

use crate::context::Context;
use metrics::counter;
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{Delivery, DisabledReason, Endpoint, EndpointId, Tenant, UnixMillis};
use std::sync::Arc;
use std::time::Duration;

/// A snapshot lags by a millisecond; one that lags longer is waited for, up to this.
const MAX_LAG: Duration = Duration::from_secs(5);
const TRIES: u32 = 8;

/// The key of an endpoint in its bucket.
pub(crate) fn key(tenant: &Tenant, endpoint: &EndpointId) -> String {
    format!("{tenant}.{endpoint}")
}

/// The endpoint under the configuration that fan-out saw or a later one; `None` when it has
/// been deleted.
pub(crate) async fn find(
    context: &Context,
    delivery: &Delivery,
) -> Result<Option<Arc<Versioned<Endpoint>>>, BrokerError> {
    if context.endpoints.revision() < delivery.config_revision {
        let reached = context.endpoints.reach(delivery.config_revision);
        if tokio::time::timeout(MAX_LAG, reached).await.is_err() {
            tracing::warn!(
                wanted = delivery.config_revision,
                "the endpoints are behind fan-out"
            );
        }
    }
    let key = key(&delivery.tenant, &delivery.endpoint_id);
    if let Some(endpoint) = context.endpoints.get(&key) {
        return Ok(Some(endpoint));
    }
    // A letter says "deleted" for ever, so the bucket itself is asked before one is written.
    Ok(context.endpoints.bucket().get(&key).await?.map(Arc::new))
}

/// Disables an endpoint, whoever else changes it meanwhile. One that is disabled already, or
/// gone, stays as it is. Returns it where it was disabled by this call.
pub(crate) async fn disable(
    context: &Context,
    endpoint: &Endpoint,
    reason: DisabledReason,
    now: UnixMillis,
) -> Result<Option<Endpoint>, BrokerError> {
    let bucket = context.endpoints.bucket();
    let key = key(&endpoint.tenant, &endpoint.id);
    for _ in 0..TRIES {
        let Some(found) = bucket.get(&key).await? else {
            return Ok(None);
        };
        if found.value.disabled.is_some() {
            return Ok(None);
        }
        let mut changed = found.value;
        changed.disabled = Some((reason, now));
        changed.updated_at = now;
        match bucket.swap(&key, &changed, found.revision).await {
            Ok(revision) => {
                counter!("posthorn_endpoints_disabled_total", "reason" => reason.as_str())
                    .increment(1);
                tracing::warn!(endpoint = %endpoint.id, reason = reason.as_str(), "endpoint disabled");
                context.endpoints.learn(&key, changed.clone(), revision);
                return Ok(Some(changed));
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Err(BrokerError::Conflict)
}
