//! What was configured before an event was accepted is in force for it.
//!
//! Fan-out looks at a watched snapshot, which lags behind the bucket by a millisecond. Before
//! a batch is fanned out, the snapshot must have reached the bucket's last revision; messages
//! that arrive together share one look.

use posthorn_broker::{BrokerError, Watched};
use posthorn_delivery::Endpoint;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// Shares looks at the bucket's last revision.
pub(crate) struct Freshness {
    endpoints: Watched<Endpoint>,
    turn: Mutex<u64>,
    started: AtomicU64,
    finished: AtomicU64,
}

impl Freshness {
    pub fn new(endpoints: Watched<Endpoint>) -> Freshness {
        let zero = || AtomicU64::new(0);
        Freshness {
            endpoints,
            turn: Mutex::new(0),
            started: zero(),
            finished: zero(),
        }
    }

    /// Returns once the snapshot holds everything that was written before the call, with the
    /// revision it has reached. A look that began after the call is as good as one's own.
    pub async fn catch_up(&self) -> Result<u64, BrokerError> {
        let needed = self.started.load(Ordering::SeqCst) + 1;
        let mut reached = self.turn.lock().await;
        if self.finished.load(Ordering::SeqCst) >= needed {
            return Ok(*reached);
        }
        let ticket = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        *reached = self.endpoints.catch_up().await?;
        self.finished.store(ticket, Ordering::SeqCst);
        Ok(*reached)
    }
}
