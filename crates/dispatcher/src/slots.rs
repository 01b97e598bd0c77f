//! How many requests are in flight to each endpoint.
//!
//! An endpoint at its cap may have as many deliveries waiting here for a moment as it may have
//! in flight; what is beyond that is held elsewhere. So a slow endpoint never occupies more
//! than twice its cap of this dispatcher's permits, and a burst to a fast one does not leave
//! the dispatcher for it.

use moka::sync::Cache;
use posthorn_delivery::hold::SlotClock;
use posthorn_delivery::{EndpointId, UnixMillis};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a delivery waits for a slot before it is held elsewhere.
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
    clock: SlotClock,
}

/// The endpoint is at its cap, and this is when a slot can be expected.
#[derive(Debug)]
pub(crate) struct Full {
    pub next: UnixMillis,
}

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
        let deadline = Instant::now() + PATIENCE;
        let mut waits = false;
        loop {
            let freed = endpoint.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match endpoint.try_enter(cap, waits) {
                Entry::Entered => {
                    return Ok(Slot {
                        endpoint: endpoint.clone(),
                    });
                }
                Entry::Full(next) => return Err(Full { next }),
                Entry::Wait => waits = true,
            }
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return endpoint.give_up(cap).map(|()| Slot {
                    endpoint: endpoint.clone(),
                });
            }
        }
    }
}

enum Entry {
    Entered,
    Wait,
    Full(UnixMillis),
}

impl Endpoint {
    fn try_enter(&self, cap: u32, waits: bool) -> Entry {
        let mut state = self.state.lock().expect("no holder panics");
        if state.in_flight < cap {
            state.in_flight += 1;
            state.waiting -= u32::from(waits);
            return Entry::Entered;
        }
        if waits {
            return Entry::Wait;
        }
        if state.waiting >= cap {
            return Entry::Full(state.next_slot(cap));
        }
        state.waiting += 1;
        Entry::Wait
    }

    fn give_up(&self, cap: u32) -> Result<(), Full> {
        match self.try_enter(cap, true) {
            Entry::Entered => Ok(()),
            Entry::Wait | Entry::Full(_) => {
                let mut state = self.state.lock().expect("no holder panics");
                state.waiting -= 1;
                Err(Full {
                    next: state.next_slot(cap),
                })
            }
        }
    }
}

impl State {
    fn next_slot(&mut self, cap: u32) -> UnixMillis {
        self.clock.take(self.latency, cap, posthorn_wiring::now())
    }
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        let state = State {
            in_flight: 0,
            waiting: 0,
            latency: FIRST_LATENCY,
            clock: SlotClock::default(),
        };
        Endpoint {
            state: Mutex::new(state),
            freed: Notify::new(),
        }
    }
}

impl Slot {
    /// Frees the slot and remembers how long the endpoint took: an exponential average, in
    /// which the last answer counts for an eighth (as in RFC 6298 for round trips).
    pub fn leave(self, latency: Duration) {
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
        first.leave(Duration::from_millis(5));
        assert!(waiter.await.unwrap());
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
