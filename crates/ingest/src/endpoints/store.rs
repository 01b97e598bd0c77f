//! Endpoints in their bucket, changed by compare-and-swap. Every change wakes their lanes, and
//! whatever is written is sealed.

use super::wake::{Changed, wake};
use crate::app::App;
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{Endpoint, EndpointId, Tenant};
use posthorn_http_api::Problem;
use posthorn_runtime::rng::rng;
use posthorn_vault::{KeyId, OpenError};
use std::sync::Arc;
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

/// An endpoint in plain, for a call that is about what is sealed of it.
///
/// # Errors
/// 409 where it cannot be opened: somebody must give this service the key, or write it anew.
pub(crate) fn open(app: &App, endpoint: &Endpoint) -> Result<Endpoint, Problem> {
    let opened = app.vault.opened(endpoint);
    opened.map_err(|error| {
        report(endpoint, &error);
        let detail = match error.key() {
            Some(key) => format!(
                "the endpoint's secrets are sealed, and key `{key}` here does not open them"
            ),
            None => "the endpoint's secrets cannot be opened".to_owned(),
        };
        Problem::conflict("sealed", detail)
    })
}

fn report(endpoint: &Endpoint, error: &OpenError) {
    tracing::error!(
        tenant = %endpoint.tenant,
        endpoint = %endpoint.id,
        key = error.key().map(KeyId::as_str),
        error = error as &dyn std::error::Error,
        "an endpoint's secrets cannot be opened"
    );
}

fn sealed(app: &App, endpoint: &Endpoint) -> Endpoint {
    app.vault.sealed(endpoint, &mut rng())
}

/// Stores a new endpoint.
///
/// # Errors
/// 503 where the broker does not answer.
pub(crate) async fn insert(app: &App, endpoint: &Endpoint) -> Result<(), Problem> {
    let key = key(&endpoint.tenant, &endpoint.id);
    let stored = sealed(app, endpoint);
    app.endpoints.bucket().create(&key, &stored).await?;
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
        let stored = sealed(app, &next);
        let bucket = app.endpoints.bucket();
        match bucket.swap(&key, &stored, current.revision).await {
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

/// What became of an endpoint that was to be sealed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resealed {
    /// It is sealed with the newest key now.
    Changed,
    /// It was already.
    Current,
    /// It cannot be opened, and stays as it is.
    Unreadable,
    /// It has been deleted.
    Gone,
}

/// Seals the endpoint under a key of the bucket with the newest secret key. Nothing else of it
/// changes, so no lane is woken.
///
/// # Errors
/// 409 where others change it all the time, 503 where the broker does not answer.
pub(crate) async fn reseal(app: &App, key: &str) -> Result<Resealed, Problem> {
    let bucket = app.endpoints.bucket();
    for _ in 0..MAX_TRIES {
        let Some(current) = bucket.get(key).await? else {
            return Ok(Resealed::Gone);
        };
        if app.vault.holds(&current.value) {
            return Ok(Resealed::Current);
        }
        let opened = match app.vault.opened(&current.value) {
            Ok(opened) => opened,
            Err(error) => {
                report(&current.value, &error);
                return Ok(Resealed::Unreadable);
            }
        };
        let stored = sealed(app, &opened);
        match bucket.swap(key, &stored, current.revision).await {
            Ok(_) => return Ok(Resealed::Changed),
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(BrokerError::Conflict.into())
}

/// All endpoints of all tenants behind a key of the bucket, in the order of the keys.
///
/// # Errors
/// 503 where the watch is behind and does not catch up.
pub(crate) async fn after(
    app: &App,
    key: &str,
) -> Result<Vec<(String, Arc<Versioned<Endpoint>>)>, Problem> {
    catch_up(app).await?;
    let mut all = app.endpoints.all();
    all.retain(|(known, _)| known.as_str() > key);
    Ok(all)
}

/// A tenant's endpoints in the order of their ids, which is that of their creation.
///
/// # Errors
/// 503 where the watch is behind and does not catch up.
pub(crate) async fn all(app: &App, tenant: &Tenant) -> Result<Vec<Endpoint>, Problem> {
    catch_up(app).await?;
    let found = app.endpoints.with_prefix(&format!("{tenant}."));
    Ok(found.iter().map(|entry| entry.value.clone()).collect())
}

async fn catch_up(app: &App) -> Result<(), Problem> {
    let caught_up = tokio::time::timeout(CATCH_UP, app.endpoints.catch_up()).await;
    caught_up.map_err(|_| BrokerError::TimedOut)??;
    Ok(())
}
