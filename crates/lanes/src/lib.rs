//! Puts deliveries into lanes, and knows which lanes are active.
//!
//! Whoever may not send a delivery now, or sees that its endpoint's lane is active, parks it
//! here: scheduler, dispatcher and dlq-admin alike. The order is what makes it safe. The key
//! comes first, so that everybody sees the lane before anything is in it; the delivery second;
//! the token last, so that whoever takes away a token can still find what came before it.

mod appender;
mod backlog;

use appender::Appender;
use moka::sync::Cache;
use posthorn_broker::{Broker, BrokerError, BucketName, LaneStore, Patience, Versioned, Watched};
use posthorn_delivery::delivery::ReleaseMark;
use posthorn_delivery::lane::keeps_lane;
use posthorn_delivery::{
    Delivery, Endpoint, EndpointId, LaneId, LaneKind, LaneReason, LaneState, UnixMillis,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The lanes of an installation.
pub struct Lanes {
    store: LaneStore,
    watched: Watched<LaneState>,
    appenders: Cache<LaneId, Arc<Appender>>,
}

/// What became of a delivery that was to wait.
#[derive(Debug)]
pub enum Place {
    /// It waits in its lane.
    Parked {
        /// It had been there already.
        duplicate: bool,
    },
    /// As much waits as may. It is given back as it was.
    Full(Box<Delivery>),
}

/// Why a delivery is parked, which is why its lane is active.
#[derive(Clone, Copy, Debug)]
pub struct Why {
    /// The reason.
    pub reason: LaneReason,
    /// Until when at least; unset where that is not known.
    pub until: UnixMillis,
    /// What a replay job asked for; 0 where nobody asked.
    pub rate_per_second: u32,
}

impl From<LaneReason> for Why {
    fn from(reason: LaneReason) -> Why {
        Why {
            reason,
            until: UnixMillis(0),
            rate_per_second: 0,
        }
    }
}

/// What is known of a lane that nothing was put into for so long is forgotten.
const IDLE: Duration = Duration::from_secs(60);
const MAX_APPENDERS: u64 = 100_000;

impl Lanes {
    /// Opens them, and watches which are active until `stop`.
    ///
    /// # Errors
    /// When JetStream cannot be asked.
    pub async fn open(broker: &Broker, stop: CancellationToken) -> Result<Lanes, BrokerError> {
        Ok(Lanes {
            store: LaneStore::open(broker).await?,
            watched: Watched::start(broker.bucket(BucketName::Lanes).await?, stop),
            appenders: Cache::builder()
                .max_capacity(MAX_APPENDERS)
                .time_to_idle(IDLE)
                .build(),
        })
    }

    /// The streams underneath.
    #[must_use]
    pub fn store(&self) -> &LaneStore {
        &self.store
    }

    /// The active lanes.
    #[must_use]
    pub fn watched(&self) -> &Watched<LaneState> {
        &self.watched
    }

    /// The lane, if it is active.
    #[must_use]
    pub fn get(&self, lane: &LaneId) -> Option<Arc<Versioned<LaneState>>> {
        match lane.kind {
            // The common case, looked at for every delivery, allocates nothing.
            LaneKind::Live => self.watched.get(lane.endpoint.as_str()),
            LaneKind::Replay => self.watched.get(&lane.key()),
        }
    }

    /// Whether `delivery` has to wait behind others of its endpoint, and why.
    #[must_use]
    pub fn holds(&self, delivery: &Delivery, endpoint: &Endpoint) -> Option<Why> {
        let live = self.watched.get(delivery.endpoint_id.as_str());
        let kept = keeps_lane(endpoint);
        if delivery.replay.is_none() {
            return match live {
                Some(lane) => Some(Why::from(lane.value.reason)),
                None => kept.then(|| Why::from(reason_to_keep(endpoint))),
            };
        }
        let own = self.get(&LaneId::replay(&delivery.endpoint_id));
        match own {
            Some(lane) => Some(Why::from(lane.value.reason)),
            None => (live.is_some() || kept).then(|| Why::from(LaneReason::BehindLive)),
        }
    }

    /// Whether `delivery` was let go by the owner of its lane and may be sent although the lane
    /// is active. A mark that is newer than what is known here is good: the view lags.
    #[must_use]
    pub fn was_let_go(&self, delivery: &Delivery) -> bool {
        let mark = delivery.release;
        if mark.lane_epoch == 0 {
            return false;
        }
        let lane = self.get(&LaneId::of(delivery));
        mark.in_order || lane.is_none_or(|lane| mark.lane_epoch >= lane.value.epoch)
    }

    /// Puts `delivery` at the tail of its lane, one hop on, and opens the lane if it is not
    /// active. When this returns, it is stored and the lane has a token.
    ///
    /// # Errors
    /// [`BrokerError`] when that is not certain. It may be repeated: the id is the same.
    pub async fn park(
        &self,
        delivery: Delivery,
        endpoint: &Endpoint,
        why: Why,
    ) -> Result<Place, BrokerError> {
        let lane = LaneId::of(&delivery);
        let appender = self.appender(&lane);
        let bound = endpoint.max_backlog;
        let Some(_room) = appender.room(&self.store, &lane, bound).await? else {
            return Ok(Place::Full(Box::new(delivery)));
        };
        self.open_lane(&lane, &appender, &delivery, why).await?;
        let parked = parked(delivery, endpoint);
        let stored = self.store.append(&lane, &parked, Patience::WORKER).await?;
        appender.put_token(&self.store, &lane).await?;
        Ok(Place::Parked {
            // After a lost PubAck it may be its own.
            duplicate: stored.duplicate && !stored.ambiguous,
        })
    }

    /// Makes the owner of both lanes of an endpoint look at once, where they are active.
    ///
    /// # Errors
    /// When it is not certain that they have a token.
    pub async fn wake(&self, endpoint: &EndpointId) -> Result<(), BrokerError> {
        for lane in [LaneId::live(endpoint), LaneId::replay(endpoint)] {
            if self.get(&lane).is_some() {
                self.store.renew_token(&lane).await?;
            }
        }
        Ok(())
    }

    fn appender(&self, lane: &LaneId) -> Arc<Appender> {
        self.appenders.get_with_by_ref(lane, Arc::default)
    }

    async fn open_lane(
        &self,
        lane: &LaneId,
        appender: &Appender,
        delivery: &Delivery,
        why: Why,
    ) -> Result<(), BrokerError> {
        if self.get(lane).is_some() {
            return Ok(());
        }
        let _turn = appender.opening().await;
        if self.get(lane).is_some() {
            return Ok(());
        }
        let state = LaneState {
            rate_per_second: why.rate_per_second,
            ..LaneState::open(
                &delivery.tenant,
                why.reason,
                why.until,
                posthorn_wiring::now(),
            )
        };
        let key = lane.key();
        match self.watched.bucket().create(&key, &state).await {
            Ok(revision) => {
                tracing::debug!(%lane, reason = why.reason.as_str(), "lane opened");
                self.watched.learn(&key, state, revision);
                Ok(())
            }
            Err(BrokerError::Conflict) => self.read(lane).await.map(drop),
            Err(error) => Err(error),
        }
    }

    /// Reads a lane's state from the bucket itself.
    ///
    /// # Errors
    /// When the bucket cannot be read.
    pub async fn read(&self, lane: &LaneId) -> Result<Option<Versioned<LaneState>>, BrokerError> {
        let key = lane.key();
        let found = self.watched.bucket().get(&key).await?;
        if let Some(found) = &found {
            self.watched
                .learn(&key, found.value.clone(), found.revision);
        }
        Ok(found)
    }
}

/// Why the lane of an endpoint that keeps it is active.
#[must_use]
pub fn reason_to_keep(endpoint: &Endpoint) -> LaneReason {
    match endpoint.ordering {
        posthorn_delivery::Ordering::Fifo => LaneReason::Fifo,
        posthorn_delivery::Ordering::None => LaneReason::RateLimit,
    }
}

/// A delivery as it lies in a lane: whoever let it go before no longer counts.
fn parked(delivery: Delivery, endpoint: &Endpoint) -> Delivery {
    let mut parked = delivery.next_hop();
    parked.release = ReleaseMark::default();
    parked.credit_pauses(endpoint, posthorn_wiring::now());
    parked
}
