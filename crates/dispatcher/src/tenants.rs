//! How many requests are in flight for each tenant, so that one tenant's slow receivers cannot
//! take a whole dispatcher.

use moka::sync::Cache;
use posthorn_delivery::Tenant;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A tenant that nothing was sent for is forgotten after this.
const IDLE: Duration = Duration::from_secs(600);
const MAX_TENANTS: u64 = 100_000;

/// The share of the requests that one tenant may have where nothing else is set.
const SHARE: (u32, u32) = (3, 4);

/// The bound where the operator has set none: three quarters of `concurrency`.
pub(crate) fn default_cap(concurrency: u32) -> u32 {
    (concurrency / SHARE.1 * SHARE.0).max(1)
}

/// The requests of all tenants.
pub(crate) struct TenantTable {
    tenants: Cache<Tenant, Arc<Seats>>,
    cap: u32,
}

#[derive(Default)]
struct Seats {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    taken: u32,
    last_freed: Option<Instant>,
}

/// One request of a tenant; free again when dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
}

/// A seat came free so lately: another one will, and is worth the wait of so long.
const TURNOVER: Duration = Duration::from_millis(50);

impl TenantTable {
    pub fn new(cap: u32) -> TenantTable {
        TenantTable {
            tenants: Cache::builder()
                .max_capacity(MAX_TENANTS)
                .time_to_idle(IDLE)
                .build(),
            cap,
        }
    }

    /// A seat, or `None` when the tenant has all that it may have. Where its requests come and
    /// go fast one is waited for; where they hang nobody waits, because who waits takes up what
    /// others need.
    pub async fn enter(&self, tenant: &Tenant) -> Option<Seat> {
        let seats = self.tenants.get_with_by_ref(tenant, Arc::default);
        let deadline = Instant::now() + TURNOVER;
        loop {
            let freed = seats.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match seats.take(self.cap) {
                Entry::Taken => {
                    return Some(Seat {
                        seats: seats.clone(),
                    });
                }
                Entry::Hangs => return None,
                Entry::Turns => {}
            }
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return None;
            }
        }
    }
}

enum Entry {
    Taken,
    Turns,
    Hangs,
}

impl Seats {
    fn take(&self, cap: u32) -> Entry {
        let mut state = self.state.lock().expect("no holder panics");
        if state.taken < cap {
            state.taken += 1;
            return Entry::Taken;
        }
        let turns = state.last_freed.is_some_and(|at| at.elapsed() <= TURNOVER);
        if turns { Entry::Turns } else { Entry::Hangs }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.seats.state.lock().expect("no holder panics");
        state.taken -= 1;
        state.last_freed = Some(Instant::now());
        drop(state);
        self.seats.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fan_06_one_tenant_has_its_share_and_leaves_the_rest_to_others() {
        let table = TenantTable::new(2);
        let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
        let first = table.enter(&a).await.unwrap();
        let second = table.enter(&a).await;
        assert!(second.is_some());
        for _ in 0..3 {
            assert!(
                table.enter(&a).await.is_none(),
                "who is turned away leaves nothing"
            );
        }
        assert!(table.enter(&b).await.is_some());
        drop(first);
        assert!(table.enter(&a).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_is_waited_for_where_seats_come_free_and_not_where_they_hang() {
        let table = Arc::new(TenantTable::new(2));
        let tenant = Tenant::parse("a").unwrap();
        let long = table.enter(&tenant).await.unwrap();
        drop(table.enter(&tenant).await);
        let other = table.enter(&tenant).await.unwrap();
        let waiter = {
            let (table, tenant) = (table.clone(), tenant.clone());
            tokio::spawn(async move { table.enter(&tenant).await.is_some() })
        };
        tokio::task::yield_now().await;
        drop(other);
        assert!(waiter.await.unwrap());
        let again = table.enter(&tenant).await;
        tokio::time::advance(TURNOVER * 2).await;
        let asked = Instant::now();
        assert!(table.enter(&tenant).await.is_none());
        assert_eq!(asked.elapsed(), Duration::ZERO);
        drop((long, again));
    }

    #[test]
    fn the_default_leaves_a_quarter_and_is_never_nothing() {
        assert_eq!([1, 4, 256].map(default_cap), [1, 3, 192]);
    }
}
