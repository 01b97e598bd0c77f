//! The breakers, as a scheduler sees them: it reads and never writes.

use posthorn_broker::{BrokerError, Versioned, Watched};
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{BreakerState, EndpointId};
use std::collections::HashSet;
use tokio::sync::watch;

pub(crate) struct Breakers {
    watched: Watched<BreakerState>,
}

impl Breakers {
    pub fn new(watched: Watched<BreakerState>) -> Breakers {
        Breakers { watched }
    }

    pub async fn loaded(&self) {
        self.watched.loaded().await;
    }

    /// The state; an absent one is closed, at revision 0.
    pub fn get(&self, endpoint: &EndpointId) -> Versioned<BreakerState> {
        self.watched.get(endpoint.as_str()).map_or(
            Versioned {
                value: BreakerState::default(),
                revision: 0,
            },
            |known| (*known).clone(),
        )
    }

    /// The endpoints whose breakers are not closed.
    pub fn not_closed(&self) -> HashSet<String> {
        let all = self.watched.all().into_iter();
        all.filter(|(_, state)| state.value.phase != Phase::Closed)
            .map(|(endpoint, _)| endpoint)
            .collect()
    }

    pub fn changes(&self) -> watch::Receiver<Option<u64>> {
        self.watched.changes()
    }

    /// Looks into the bucket itself: what was written before a lane was opened is seen then.
    pub async fn refresh(&self, endpoint: &EndpointId) -> Result<(), BrokerError> {
        let key = endpoint.as_str();
        if let Some(found) = self.watched.bucket().get(key).await? {
            self.watched.learn(key, found.value, found.revision);
        }
        Ok(())
    }
}
