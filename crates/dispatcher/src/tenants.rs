//! How many requests are in flight for each tenant, so that one tenant's slow receivers cannot
//! take a whole dispatcher.

use moka::sync::Cache;
use posthorn_delivery::Tenant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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
    in_flight: Cache<Tenant, Arc<AtomicU32>>,
    cap: u32,
}

/// One request of a tenant; free again when dropped.
pub(crate) struct Seat {
    in_flight: Arc<AtomicU32>,
}

impl TenantTable {
    pub fn new(cap: u32) -> TenantTable {
        TenantTable {
            in_flight: Cache::builder()
                .max_capacity(MAX_TENANTS)
                .time_to_idle(IDLE)
                .build(),
            cap,
        }
    }

    /// A seat, or `None` when the tenant has all that it may have.
    pub fn enter(&self, tenant: &Tenant) -> Option<Seat> {
        let in_flight = self.in_flight.get_with_by_ref(tenant, Arc::default);
        let taken = in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| {
            (n < self.cap).then_some(n + 1)
        });
        // Not `then_some`: a seat that is made gives itself back.
        taken.is_ok().then(|| Seat { in_flight })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fan_06_one_tenant_has_its_share_and_leaves_the_rest_to_others() {
        let table = TenantTable::new(2);
        let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
        let first = table.enter(&a).unwrap();
        let second = table.enter(&a);
        assert!(second.is_some());
        for _ in 0..3 {
            assert!(
                table.enter(&a).is_none(),
                "who is turned away leaves nothing"
            );
        }
        assert!(table.enter(&b).is_some());
        drop(first);
        assert!(table.enter(&a).is_some());
    }

    #[test]
    fn the_default_leaves_a_quarter_and_is_never_nothing() {
        assert_eq!([1, 4, 256].map(default_cap), [1, 3, 192]);
    }
}
