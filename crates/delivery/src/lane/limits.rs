//! How many requests all dispatchers together may have in flight to an endpoint.

use crate::endpoint::{Endpoint, Ordering};

/// Whether everything that goes to `endpoint` goes through its lane, also while it is well:
/// only one owner can keep an order or a rate exactly.
#[must_use]
pub fn keeps_lane(endpoint: &Endpoint) -> bool {
    endpoint.ordering == Ordering::Fifo || endpoint.rate_limit.is_some()
}

/// The most that an owner has on its way at once.
///
/// Each of `dispatchers` takes an equal share of `max_in_flight`, rounded down; more than the
/// shares together would only be turned away. Where there are more dispatchers than slots no
/// share is left, everything goes through the lane, and the owner alone counts.
#[must_use]
pub fn most_in_flight(endpoint: &Endpoint, dispatchers: u32) -> u32 {
    if endpoint.ordering == Ordering::Fifo {
        return 1;
    }
    let dispatchers = dispatchers.max(1);
    match endpoint.max_in_flight / dispatchers {
        0 => endpoint.max_in_flight.max(1),
        share => share * dispatchers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::RateLimit;
    use crate::testing::endpoint;

    #[test]
    fn the_shares_never_add_up_to_more_than_the_cap() {
        let mut endpoint = endpoint();
        for cap in [1, 2, 3, 7, 32, 1024] {
            endpoint.max_in_flight = cap;
            for dispatchers in 0..20 {
                let most = most_in_flight(&endpoint, dispatchers);
                assert!((1..=cap).contains(&most), "{cap} over {dispatchers}");
            }
        }
        endpoint.ordering = Ordering::Fifo;
        assert_eq!(most_in_flight(&endpoint, 3), 1);
    }

    #[test]
    fn order_and_rate_keep_the_lane() {
        let mut endpoint = endpoint();
        assert!(!keeps_lane(&endpoint));
        endpoint.rate_limit = RateLimit::per_second(0.5).ok();
        assert!(keeps_lane(&endpoint));
        endpoint.rate_limit = None;
        endpoint.ordering = Ordering::Fifo;
        assert!(keeps_lane(&endpoint));
    }
}
