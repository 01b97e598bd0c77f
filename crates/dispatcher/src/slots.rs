//! How many requests are in flight to each endpoint.
//!
//! An endpoint that is at its cap and answers fast may have as many deliveries waiting here for
//! a moment as it may have in flight, so that a burst does not leave the dispatcher for it. One
//! that answers slowly has none: what is over its cap goes to its lane at once, and occupies
//! neither a permit nor memory.

use moka::sync::Cache;
use posthorn_delivery::EndpointId;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Waiting is worth while for an endpoint that answers within half of this.
const PATIENCE: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(600);
const MAX_ENDPOINTS: u64 = 200_000;
/// What an endpoint is taken to need before it has answered once.
const FIRST_LATENCY: Duration = Duration::from_millis(100);

/// The slots of all endpoints.
pub(crate) struct SlotTable {
    table: Cache<EndpointId, Arc<Endpoint>>,
}

struct Endpoint {
    state: Mutex<State>,
    freed: Notify,
}

struct State {
    in_flight: u32,
    waiting: u32,
    latency: Duration,
}

/// The endpoint is at its cap.
#[derive(Debug)]
pub(crate) struct Full;

/// One request in flight; free again when dropped.
pub(crate) struct Slot {
    endpoint: Arc<Endpoint>,
}

impl SlotTable {
    pub fn new() -> SlotTable {
        SlotTable {
            table: Cache::builder()
                .max_capacity(MAX_ENDPOINTS)
                .time_to_idle(IDLE)
                .build(),
        }
    }

    /// Takes a slot of at most `cap`, waiting for a moment where that may help.
    pub async fn enter(&self, endpoint: &EndpointId, cap: u32) -> Result<Slot, Full> {
        let endpoint = self.table.get_with_by_ref(endpoint, Arc::default);
        let asked = Instant::now();
        let mut waits = false;
        loop {
            let freed = endpoint.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let patience = match endpoint.try_enter(cap, waits) {
                Entry::Entered => {
                    return Ok(Slot {
                        endpoint: endpoint.clone(),
                    });
                }
                Entry::Full => return Err(Full),
                Entry::Wait(patience) => patience,
            };
            waits = true;
            if tokio::time::timeout_at(asked + patience, freed)
                .await
                .is_err()
            {
                return endpoint.give_up(cap).map(|()| Slot {
                    endpoint: endpoint.clone(),
                });
            }
        }
    }
}

enum Entry {
    Entered,
    Wait(Duration),
    Full,
}

impl Endpoint {
    fn try_enter(&self, cap: u32, waits: bool) -> Entry {
        let mut state = self.state.lock().expect("no holder panics");
        if state.in_flight < cap {
            state.in_flight += 1;
            state.waiting -= u32::from(waits);
            return Entry::Entered;
        }
        let patience = state.patience();
        if waits {
            return Entry::Wait(patience);
        }
        if state.waiting >= cap || patience.is_zero() {
            return Entry::Full;
        }
        state.waiting += 1;
        Entry::Wait(patience)
    }

    fn give_up(&self, cap: u32) -> Result<(), Full> {
        match self.try_enter(cap, true) {
            Entry::Entered => Ok(()),
            Entry::Wait(_) | Entry::Full => {
                self.state.lock().expect("no holder panics").waiting -= 1;
                Err(Full)
            }
        }
    }
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        let state = State {
            in_flight: 0,
            waiting: 0,
            latency: FIRST_LATENCY,
        };
        Endpoint {
            state: Mutex::new(state),
            freed: Notify::new(),
        }
    }
}

impl State {
    /// How long it is worth while to wait for an answer of this endpoint.
    fn patience(&self) -> Duration {
        match self.latency * 2 {
            short if short <= PATIENCE => short,
            _ => Duration::ZERO,
        }
    }
}

impl Slot {
    /// Remembers how long the endpoint took: an exponential average, in
    /// which the last answer counts for an eighth (as in RFC 6298 for round trips).
    pub fn learn(&self, latency: Duration) {
        let mut state = self.endpoint.state.lock().expect("no holder panics");
        state.latency = state.latency * 7 / 8 + latency / 8;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.endpoint
            .state
            .lock()
            .expect("no holder panics")
            .in_flight -= 1;
        self.endpoint.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_endpoint_lets_as_many_wait_as_it_serves_and_holds_the_rest() {
        let table = Arc::new(SlotTable::new());
        let id = EndpointId::from_bits(1);
        let first = table.enter(&id, 1).await.unwrap();
        let waiter = {
            let (table, id) = (table.clone(), id.clone());
            tokio::spawn(async move { table.enter(&id, 1).await.is_ok() })
        };
        tokio::task::yield_now().await;
        assert!(
            table.enter(&id, 1).await.is_err(),
            "one serves, one waits, the third is held"
        );
        first.learn(Duration::from_millis(5));
        drop(first);
        assert!(waiter.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn fan_06_a_slow_endpoint_keeps_nobody_waiting() {
        let table = SlotTable::new();
        let id = EndpointId::from_bits(1);
        for _ in 0..20 {
            let slot = table.enter(&id, 1).await.unwrap();
            slot.learn(Duration::from_secs(15));
        }
        let first = table.enter(&id, 1).await.unwrap();
        let asked = Instant::now();
        assert!(table.enter(&id, 1).await.is_err());
        assert_eq!(asked.elapsed(), Duration::ZERO);
        drop(first);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_leaves_nothing_behind() {
        let table = SlotTable::new();
        let id = EndpointId::from_bits(1);
        let first = table.enter(&id, 1).await.unwrap();
        assert!(table.enter(&id, 1).await.is_err());
        assert!(
            table.enter(&id, 1).await.is_err(),
            "the place of the one who gave up is free"
        );
        drop(first);
        assert!(table.enter(&id, 1).await.is_ok());
    }
}
