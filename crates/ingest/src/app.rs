//! What the handlers share.

use crate::config::Settings;
use crate::events::DedupeIds;
use crate::run::refuse;
use axum::extract::FromRef;
use posthorn_broker::codec::{ApiKey, IdempotencyMark};
use posthorn_broker::{Broker, Bucket, BucketName, LaneStore, LogReader, StreamName, Watched};
use posthorn_delivery::{
    Attempt, BreakerState, Endpoint, EndpointId, LaneState, ReplayJob, Tenant,
};
use posthorn_egress::EgressPolicy;
use posthorn_http_api::auth::KEYS_CHECKED;
use posthorn_http_api::{Act, Action, Audit, Authenticator, Identity, Limiter, Problem};
use posthorn_runtime::ExitError;
use posthorn_vault::Vault;
use posthorn_wiring::exit_error;
use std::future::Future;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the handlers share; clones are the same.
#[derive(Clone)]
pub struct App {
    parts: Arc<Parts>,
}

/// The parts of an [`App`], for the handlers of this crate.
pub struct Parts {
    pub(crate) broker: Broker,
    pub(crate) authenticator: Authenticator,
    pub(crate) keys: Watched<ApiKey>,
    pub(crate) audit: Audit,
    pub(crate) egress: EgressPolicy,
    pub(crate) vault: Vault,
    pub(crate) dedupe: DedupeIds,
    /// Bytes of one payload.
    pub(crate) max_payload: usize,
    /// Bytes of one batch.
    pub(crate) max_batch: usize,
    pub(crate) marks: Bucket<IdempotencyMark>,
    pub(crate) endpoints: Watched<Endpoint>,
    pub(crate) breakers: Bucket<BreakerState>,
    pub(crate) lanes: LaneStore,
    pub(crate) lane_states: Bucket<LaneState>,
    pub(crate) attempts: LogReader<Attempt>,
    pub(crate) replays: Bucket<ReplayJob>,
}

impl App {
    /// Checks the settings against the installation and opens what is needed of it. Its watches
    /// of the endpoints and keys end with `stop`.
    ///
    /// # Errors
    /// Of kind `Config` where a setting does not fit, `Unavailable` where the broker does not
    /// answer.
    pub async fn open(
        settings: &Settings,
        broker: Broker,
        stop: CancellationToken,
    ) -> Result<App, ExitError> {
        let key = settings.admin_key().map_err(refuse)?;
        let egress = settings.egress().map_err(refuse)?;
        let vault = settings.vault().map_err(ExitError::config)?;
        if vault.sealing_key().is_none() {
            tracing::warn!(
                "POSTHORN_SECRET_KEYS is none or not set: endpoints' secrets are stored in plain"
            );
        }
        let limit = broker.max_payload();
        let max_payload = settings.max_payload(limit).map_err(refuse)?;
        let keys = broker.bucket(BucketName::Keys).await.map_err(exit_error)?;
        let keys: Watched<ApiKey> = Watched::checked(keys, KEYS_CHECKED, stop.clone());
        let limiter = Limiter::new(settings.key_rate_limit());
        let marks = broker.bucket(BucketName::Idempotency).await;
        let endpoints = broker.bucket(BucketName::Endpoints).await;
        let breakers = broker.bucket(BucketName::Breakers).await;
        let lanes = LaneStore::open(&broker).await;
        let lane_states = broker.bucket(BucketName::Lanes).await;
        let attempts = broker.log(StreamName::Attempts).await;
        let replays = broker.bucket(BucketName::Replays).await;
        let parts = Parts {
            dedupe: DedupeIds::new(&vault, &key),
            authenticator: Authenticator::new(key, Arc::new(keys.clone()), limiter),
            keys,
            audit: Audit::new(broker.clone()),
            egress,
            vault,
            max_payload,
            max_batch: settings.max_batch(),
            marks: marks.map_err(exit_error)?,
            endpoints: Watched::start(endpoints.map_err(exit_error)?, stop),
            breakers: breakers.map_err(exit_error)?,
            lanes: lanes.map_err(exit_error)?,
            lane_states: lane_states.map_err(exit_error)?,
            attempts: attempts.map_err(exit_error)?,
            replays: replays.map_err(exit_error)?,
            broker,
        };
        Ok(App {
            parts: Arc::new(parts),
        })
    }
}

impl App {
    /// Does something to an endpoint, after it has been written down that `caller` asked for it.
    ///
    /// # Errors
    /// 503 where that cannot be written, and nothing was done; else what `work` says.
    pub(crate) async fn act<T>(
        &self,
        caller: &Identity,
        action: Action,
        (tenant, endpoint): (&Tenant, &EndpointId),
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let act = Act::new(action, Some(tenant), endpoint.as_str());
        self.audit.act(caller, act, work).await
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl FromRef<App> for Authenticator {
    fn from_ref(app: &App) -> Authenticator {
        app.authenticator.clone()
    }
}
