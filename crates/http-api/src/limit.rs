//! How often a key may call: a token bucket for each, in the memory of this copy.
//!
//! A bucket holds one second's worth, so a client that works in bursts is not punished and one
//! that runs wild is held to its rate. It is kept as the one time at which it will be full
//! again (virtual scheduling, ITU-T I.371), so a key that is quiet costs nothing. Copies do not
//! share buckets: with three of them a key may call three times as often, which is what a bound
//! against accidents needs to know, and a round trip for each request would cost more.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// What a bucket holds, as time.
const BURST: Duration = Duration::from_secs(1);
/// The size at which full buckets are looked for, to be dropped.
const FIRST_SWEEP: usize = 1_024;

/// The buckets of all keys.
pub struct Limiter {
    default: Option<NonZeroU32>,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    /// When each will be full again.
    full_at: HashMap<Arc<str>, Instant>,
    sweep_at: usize,
}

impl Limiter {
    /// For keys without a rate of their own `default` requests a second, or no bound.
    #[must_use]
    pub fn new(default: Option<NonZeroU32>) -> Limiter {
        Limiter {
            default,
            buckets: Mutex::new(Buckets {
                full_at: HashMap::new(),
                sweep_at: FIRST_SWEEP,
            }),
        }
    }

    /// Takes a token of `key`, whose own rate is `own`, at `now`.
    ///
    /// # Errors
    /// With the time after which there will be one.
    pub fn take(
        &self,
        key: &Arc<str>,
        own: Option<NonZeroU32>,
        now: Instant,
    ) -> Result<(), Duration> {
        let Some(rate) = own.or(self.default) else {
            return Ok(());
        };
        let each = Duration::from_secs(1) / rate.get();
        let mut buckets = self.buckets.lock().expect("nothing here panics");
        let full_at = buckets.full_at.get(key).copied().unwrap_or(now).max(now);
        let after = full_at + each;
        let debt = after.saturating_duration_since(now);
        if debt > BURST {
            return Err(debt - BURST);
        }
        buckets.full_at.insert(key.clone(), after);
        buckets.sweep(now);
        Ok(())
    }
}

impl Buckets {
    /// A full bucket is the same as none.
    fn sweep(&mut self, now: Instant) {
        if self.full_at.len() < self.sweep_at {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        self.sweep_at = (self.full_at.len() * 2).max(FIRST_SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: u32) -> Limiter {
        Limiter::new(NonZeroU32::new(rate))
    }

    fn key(name: &str) -> Arc<str> {
        name.into()
    }

    fn taken(limiter: &Limiter, key: &Arc<str>, tries: usize, now: Instant) -> usize {
        let took = |_: &usize| limiter.take(key, None, now).is_ok();
        (0..tries).filter(took).count()
    }

    #[test]
    fn a_second_brings_the_rate_and_what_was_not_used_is_not_saved_up() {
        let (limiter, key, start) = (limiter(50), key("k"), Instant::now());
        assert_eq!(taken(&limiter, &key, 200, start), 50);
        for second in 1..5 {
            let now = start + Duration::from_secs(second);
            assert_eq!(taken(&limiter, &key, 200, now), 50, "{second}");
        }
        let much_later = start + Duration::from_secs(3_600);
        assert_eq!(taken(&limiter, &key, 200, much_later), 50);
    }

    #[test]
    fn whoever_waits_as_long_as_it_is_told_gets_in() {
        let (limiter, key, start) = (limiter(3), key("k"), Instant::now());
        assert_eq!(taken(&limiter, &key, 10, start), 3);
        let wait = limiter.take(&key, None, start).unwrap_err();
        assert!(wait <= Duration::from_millis(334), "{wait:?}");
        let early = start + wait.saturating_sub(Duration::from_millis(1));
        assert!(limiter.take(&key, None, early).is_err());
        assert!(limiter.take(&key, None, start + wait).is_ok());
    }

    #[test]
    fn a_refusal_costs_nothing() {
        let (limiter, key, start) = (limiter(1), key("k"), Instant::now());
        assert_eq!(taken(&limiter, &key, 1_000, start), 1);
        assert!(limiter.take(&key, None, start + BURST).is_ok());
    }

    #[test]
    fn a_keys_own_rate_goes_before_the_default_and_no_rate_is_no_bound() {
        let start = Instant::now();
        let own = NonZeroU32::new(2);
        let took = |limiter: &Limiter| {
            let key = key("k");
            let took = |_: &usize| limiter.take(&key, own, start).is_ok();
            (0..10).filter(took).count()
        };
        assert_eq!((took(&limiter(50)), took(&Limiter::new(None))), (2, 2));
        assert_eq!(taken(&Limiter::new(None), &key("k"), 10_000, start), 10_000);
    }

    #[test]
    fn keys_that_are_quiet_cost_no_memory() {
        let (limiter, start) = (limiter(10), Instant::now());
        for n in 0..100_000_u64 {
            let now = start + Duration::from_millis(n);
            assert!(limiter.take(&key(&n.to_string()), None, now).is_ok());
        }
        assert!(limiter.buckets.lock().unwrap().full_at.len() <= FIRST_SWEEP);
    }
}
