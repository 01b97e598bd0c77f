//! Endpoints in their bucket, changed by compare-and-swap. Every change wakes their lanes.

use super::wake::{Changed, wake};
use crate::app::App;
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{Endpoint, EndpointId, Tenant};
use posthorn_http_api::Problem;
use std::time::Duration;

/// How often a change is made anew because another one came first.
const MAX_TRIES: usize = 32;
/// How long a list waits for the watch to hold what was written before the call.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Where an endpoint is kept: under its tenant, so that another tenant's id finds nothing.
fn key(tenant: &Tenant, id: &EndpointId) -> String {
    format!("{tenant}.{id}")
}

/// The endpoint of a tenant.
///
/// # Errors
/// 404 where it has none of this id.
pub(crate) async fn load(
    app: &App,
    tenant: &Tenant,
    id: &EndpointId,
) -> Result<Versioned<Endpoint>, Problem> {
    let found = app.endpoints.bucket().get(&key(tenant, id)).await?;
    found.ok_or_else(|| Problem::not_found("endpoint"))
}

/// Stores a new endpoint.
///
/// # Errors
/// 503 where the broker does not answer.
pub(crate) async fn insert(app: &App, endpoint: &Endpoint) -> Result<(), Problem> {
    let key = key(&endpoint.tenant, &endpoint.id);
    app.endpoints.bucket().create(&key, endpoint).await?;
    Ok(())
}

/// Changes an endpoint by what `change` makes of it as it is now. It is in force within a second,
/// also where it is slept over.
///
/// # Errors
/// 404 where it is not there, whatever `change` refuses, 409 where others change it all the
/// time.
pub(crate) async fn update(
    app: &App,
    tenant: &Tenant,
    id: &EndpointId,
    change: impl Fn(&Endpoint) -> Result<Endpoint, Problem>,
) -> Result<Endpoint, Problem> {
    let key = key(tenant, id);
    for _ in 0..MAX_TRIES {
        let current = load(app, tenant, id).await?;
        let next = change(&current.value)?;
        let bucket = app.endpoints.bucket();
        match bucket.swap(&key, &next, current.revision).await {
            Ok(_) => {
                wake(app, Changed::between(&current.value, &next)).await;
                return Ok(next);
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(BrokerError::Conflict.into())
}

/// Deletes an endpoint, and what its breaker knew.
///
/// # Errors
/// 404 where it is not there.
pub(crate) async fn remove(app: &App, tenant: &Tenant, id: &EndpointId) -> Result<(), Problem> {
    let last = load(app, tenant, id).await?;
    app.endpoints.bucket().remove(&key(tenant, id)).await?;
    if let Err(error) = app.breakers.remove(id.as_str()).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(endpoint = %id, error, "the breaker of a deleted endpoint stays");
    }
    wake(app, Changed::deleted(&last.value)).await;
    Ok(())
}

/// A tenant's endpoints in the order of their ids, which is that of their creation.
///
/// # Errors
/// 503 where the watch is behind and does not catch up.
pub(crate) async fn all(app: &App, tenant: &Tenant) -> Result<Vec<Endpoint>, Problem> {
    let caught_up = tokio::time::timeout(CATCH_UP, app.endpoints.catch_up()).await;
    caught_up.map_err(|_| BrokerError::TimedOut)??;
    let found = app.endpoints.with_prefix(&format!("{tenant}."));
    Ok(found.iter().map(|entry| entry.value.clone()).collect())
}
