//! A receiver of limited capacity: requests wait for one of a few workers, and what would wait
//! too long is turned away.
//!
//! The workers are reckoned and not run: each has a time at which it is free again, so the
//! capacity is exact and no timer's grain is added to it.

use std::time::Duration;

/// What the workers are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How many.
    pub count: usize,
    /// How long each takes for a request.
    pub service: Duration,
    /// Requests that may wait; one more is turned away.
    pub longest_queue: u64,
}

impl Plan {
    /// Requests a second that the workers can answer.
    pub fn capacity(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a handful of workers")]
        let count = self.count as f64;
        count / self.service.as_secs_f64()
    }
}

/// The workers, in nanoseconds of a clock.
#[derive(Debug)]
pub(crate) struct Workers {
    plan: Plan,
    free_at: Vec<u64>,
}

impl Workers {
    /// All are free.
    pub fn new(plan: Plan) -> Workers {
        Workers {
            plan,
            free_at: vec![0; plan.count.max(1)],
        }
    }

    /// Takes a request in at `now`: when it is answered, or `None` when it is turned away.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let service = u64::try_from(self.plan.service.as_nanos()).unwrap_or(u64::MAX);
        let workers = u64::try_from(self.free_at.len()).unwrap_or(1);
        let next = self.free_at.iter_mut().min()?;
        let begin = now.max(*next);
        // What is before it and not yet in hand.
        let before = (begin - now).saturating_mul(workers) / service.max(1);
        let waiting = before.saturating_sub(workers);
        if begin > now && waiting >= self.plan.longest_queue {
            return None;
        }
        *next = begin.saturating_add(service);
        Some(*next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_rises_with_the_queue_and_what_is_too_much_is_turned_away() {
        let plan = Plan {
            count: 2,
            service: Duration::from_nanos(10),
            longest_queue: 2,
        };
        let mut workers = Workers::new(plan);
        let answered: Vec<_> = (0..5).map(|_| workers.take(0)).collect();
        let expected = [Some(10), Some(10), Some(20), Some(20), None];
        assert_eq!(answered, expected, "two in hand, two wait, one too many");
        assert_eq!(workers.take(40), Some(50), "an idle worker answers at once");
    }

    #[test]
    fn the_capacity_is_what_all_workers_do() {
        let plan = Plan {
            count: 10,
            service: Duration::from_millis(20),
            longest_queue: 100,
        };
        assert!((plan.capacity() - 500.0).abs() < 1e-9);
    }
}
