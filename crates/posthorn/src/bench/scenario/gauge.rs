//! How many there are, and how many there were at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what enters and leaves.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

/// One that is in; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Gauge>);

impl Gauge {
    /// One more, until what is returned is dropped.
    pub fn enter(self: &Arc<Gauge>) -> Entered {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        Entered(self.clone())
    }

    /// The most at the same time.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_once_is_kept() {
        let gauge = Arc::new(Gauge::default());
        let (first, second) = (gauge.enter(), gauge.enter());
        drop(first);
        let _third = gauge.enter();
        drop(second);
        assert_eq!(gauge.most(), 2);
    }
}
