//! How many requests are in flight for each tenant, so that one tenant's slow receivers cannot
//! take a whole dispatcher.

use moka::sync::Cache;
use posthorn_delivery::Tenant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
    taken: AtomicU32,
    freed: Notify,
}

/// One request of a tenant; free again when dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
}

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

    /// A seat, or `None` when the tenant has all that it may have and none comes free within
    /// `patience`.
    pub async fn enter(&self, tenant: &Tenant, patience: Duration) -> Option<Seat> {
        let seats = self.tenants.get_with_by_ref(tenant, Arc::default);
        let deadline = Instant::now() + patience;
        loop {
            let freed = seats.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if seats.take(self.cap) {
                return Some(Seat {
                    seats: seats.clone(),
                });
            }
            if tokio::time::timeout_at(deadline, freed).await.is_err() {
                return None;
            }
        }
    }
}

impl Seats {
    fn take(&self, cap: u32) -> bool {
        let more = |taken| (taken < cap).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken.fetch_sub(1, Ordering::SeqCst);
        self.seats.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    #[tokio::test(start_paused = true)]
    async fn fan_06_one_tenant_has_its_share_and_leaves_the_rest_to_others() {
        let table = TenantTable::new(2);
        let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
        let first = table.enter(&a, AT_ONCE).await.unwrap();
        let second = table.enter(&a, AT_ONCE).await;
        assert!(second.is_some());
        for _ in 0..3 {
            assert!(
                table.enter(&a, AT_ONCE).await.is_none(),
                "who is turned away leaves nothing"
            );
        }
        assert!(table.enter(&b, AT_ONCE).await.is_some());
        drop(first);
        assert!(table.enter(&a, AT_ONCE).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_that_comes_free_soon_is_waited_for() {
        let table = Arc::new(TenantTable::new(1));
        let tenant = Tenant::parse("a").unwrap();
        let first = table.enter(&tenant, AT_ONCE).await.unwrap();
        let waiter = {
            let (table, tenant) = (table.clone(), tenant.clone());
            tokio::spawn(
                async move { table.enter(&tenant, Duration::from_secs(1)).await.is_some() },
            )
        };
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiter.await.unwrap());
    }

    #[test]
    fn the_default_leaves_a_quarter_and_is_never_nothing() {
        assert_eq!([1, 4, 256].map(default_cap), [1, 3, 192]);
    }
}
