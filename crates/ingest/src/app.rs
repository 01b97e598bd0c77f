//! What the handlers share.

use crate::config::Settings;
use crate::run::refuse;
use axum::extract::FromRef;
use posthorn_broker::codec::IdempotencyMark;
use posthorn_broker::{Broker, Bucket, BucketName, LaneStore, LogReader, StreamName, Watched};
use posthorn_delivery::{Attempt, BreakerState, Endpoint, LaneState};
use posthorn_egress::EgressPolicy;
use posthorn_http_api::Authenticator;
use posthorn_runtime::ExitError;
use posthorn_wiring::exit_error;
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
    pub(crate) egress: EgressPolicy,
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
}

impl App {
    /// Checks the settings against the installation and opens what is needed of it. Its watch
    /// of the endpoints ends with `stop`.
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
        let limit = broker.max_payload();
        let max_payload = settings.max_payload(limit).map_err(refuse)?;
        let marks = broker.bucket(BucketName::Idempotency).await;
        let endpoints = broker.bucket(BucketName::Endpoints).await;
        let breakers = broker.bucket(BucketName::Breakers).await;
        let lanes = LaneStore::open(&broker).await;
        let lane_states = broker.bucket(BucketName::Lanes).await;
        let attempts = broker.log(StreamName::Attempts).await;
        let parts = Parts {
            authenticator: Authenticator::new(key),
            egress,
            max_payload,
            max_batch: settings.max_batch(),
            marks: marks.map_err(exit_error)?,
            endpoints: Watched::start(endpoints.map_err(exit_error)?, stop),
            breakers: breakers.map_err(exit_error)?,
            lanes: lanes.map_err(exit_error)?,
            lane_states: lane_states.map_err(exit_error)?,
            attempts: attempts.map_err(exit_error)?,
            broker,
        };
        Ok(App {
            parts: Arc::new(parts),
        })
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
