//! What the loops of a scheduler share.

use crate::config::Settings;
use crate::freshness::Freshness;
use crate::nak_burst::NakBurst;
use posthorn_broker::{Broker, BrokerError, BucketName, Watched};
use posthorn_delivery::pacer::Pacer;
use posthorn_delivery::time::millis;
use posthorn_delivery::{Endpoint, UnixMillis};
use posthorn_runtime::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) struct Context {
    pub broker: Broker,
    pub endpoints: Watched<Endpoint>,
    pub freshness: Freshness,
    pub naks: NakBurst,
    pacer: Mutex<Pacer>,
    near_ms: AtomicU64,
}

impl Context {
    pub async fn open(
        broker: &Broker,
        settings: &Settings,
        shutdown: &Shutdown,
    ) -> Result<Arc<Context>, BrokerError> {
        let bucket = broker.bucket(BucketName::Endpoints).await?;
        // The watch outlives the stop signal: what is in flight still needs it.
        let endpoints = Watched::start(bucket, tokio_util::sync::CancellationToken::new());
        Ok(Arc::new(Context {
            broker: broker.clone(),
            freshness: Freshness::new(endpoints.clone()),
            endpoints,
            naks: NakBurst::start(shutdown),
            pacer: Mutex::new(Pacer::new(settings.release_rate)),
            near_ms: AtomicU64::new(millis(Broker::near())),
        }))
    }

    /// The next slot for something overdue.
    pub fn slot(&self, now: UnixMillis) -> UnixMillis {
        let mut pacer = self.pacer.lock().expect("no holder panics");
        pacer.slot(now, &mut posthorn_runtime::rng::rng())
    }

    /// How soon something must be due to wait on the durable.
    pub fn near(&self) -> Duration {
        Duration::from_millis(self.near_ms.load(Ordering::Relaxed))
    }

    pub fn set_near(&self, near: Duration) {
        self.near_ms.store(millis(near), Ordering::Relaxed);
    }
}
