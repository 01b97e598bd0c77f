//! What the loops of a scheduler share.

use crate::breakers::Breakers;
use crate::config::Settings;
use crate::freshness::Freshness;
use crate::nak_burst::NakBurst;
use crate::unscoped::Unscoped;
use posthorn_broker::codec::DispatcherBeat;
use posthorn_broker::{Broker, BrokerError, Bucket, BucketName, Watched};
use posthorn_delivery::pacer::Pacer;
use posthorn_delivery::time::millis;
use posthorn_delivery::{Endpoint, UnixMillis};
use posthorn_lanes::Lanes;
use posthorn_notices::Notices;
use posthorn_runtime::Shutdown;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) struct Context {
    pub broker: Broker,
    pub endpoints: Watched<Endpoint>,
    pub freshness: Freshness,
    pub naks: NakBurst,
    pub lanes: Lanes,
    pub breakers: Breakers,
    pub notices: Notices,
    pub unscoped: Unscoped,
    /// The process is to end.
    pub stop: CancellationToken,
    peers: Bucket<DispatcherBeat>,
    dispatchers: AtomicU32,
    pacer: Mutex<Pacer>,
    near_ms: AtomicU64,
    oldest_due_ms: AtomicU64,
}

impl Context {
    pub async fn open(
        broker: &Broker,
        settings: &Settings,
        shutdown: &Shutdown,
    ) -> Result<Arc<Context>, BrokerError> {
        let bucket = broker.bucket(BucketName::Endpoints).await?;
        // The watch outlives the stop signal: what is in flight still needs it.
        let endpoints = Watched::start(bucket, CancellationToken::new());
        let breakers = broker.bucket(BucketName::Breakers).await?;
        Ok(Arc::new(Context {
            broker: broker.clone(),
            freshness: Freshness::new(endpoints.clone()),
            endpoints,
            naks: NakBurst::start(shutdown),
            lanes: Lanes::open(broker, CancellationToken::new()).await?,
            breakers: Breakers::new(Watched::start(breakers, CancellationToken::new())),
            notices: Notices::new(broker),
            unscoped: Unscoped::default(),
            stop: shutdown.token(),
            peers: broker.bucket(BucketName::Dispatchers).await?,
            dispatchers: AtomicU32::new(1),
            pacer: Mutex::new(Pacer::new(settings.release_rate)),
            near_ms: AtomicU64::new(millis(Broker::near())),
            oldest_due_ms: AtomicU64::new(0),
        }))
    }

    /// Until everything that is watched has been read once.
    pub async fn loaded(&self) {
        tokio::join!(
            self.endpoints.loaded(),
            self.breakers.loaded(),
            self.lanes.watched().loaded(),
        );
    }

    /// How many dispatchers live, at least 1.
    pub fn dispatchers(&self) -> u32 {
        self.dispatchers.load(Ordering::Relaxed)
    }

    /// Counts the dispatchers.
    pub async fn count_dispatchers(&self) -> Result<(), BrokerError> {
        let live = u32::try_from(self.peers.count().await?).unwrap_or(u32::MAX);
        self.dispatchers.store(live.max(1), Ordering::Relaxed);
        Ok(())
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

    /// For how long the oldest thing had been due at the last look.
    pub fn oldest_due(&self) -> Duration {
        Duration::from_millis(self.oldest_due_ms.load(Ordering::Relaxed))
    }

    pub fn set_oldest_due(&self, age: Duration) {
        self.oldest_due_ms.store(millis(age), Ordering::Relaxed);
    }
}
