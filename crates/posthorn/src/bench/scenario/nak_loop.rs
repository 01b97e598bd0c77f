//! Holding by NAK: every delivery is taken from a work queue and given back with the cooldown,
//! at every cooldown.

use crate::bench::failed;
use crate::bench::stamp::{Clock, sent_at};
use crate::failure::Failure;
use posthorn_broker::{Broker, Incoming, Patience, Waiting, Wire};
use posthorn_delivery::{Delivery, EndpointId};
use posthorn_runtime::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Messages in hand.
const PERMITS: usize = 2_048;
const DRAIN: Duration = Duration::from_secs(10);

/// What the loop has seen.
#[derive(Default)]
pub(crate) struct Seen {
    naked: AtomicU64,
    /// When a fresh delivery was sent and came, in nanoseconds.
    fresh: Mutex<Vec<(u64, u64)>>,
}

impl Seen {
    /// How many were given back so far.
    pub fn naked(&self) -> u64 {
        self.naked.load(Ordering::Relaxed)
    }

    /// Fresh ones that came.
    pub fn fresh(&self) -> Vec<(u64, u64)> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u64, u64)>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running loop.
pub(crate) struct NakLoop {
    pub seen: Arc<Seen>,
    stop: Shutdown,
    pump: JoinHandle<()>,
}

impl NakLoop {
    /// Holds everything that is for `dead` on the installation's timer consumer, and
    /// acknowledges whatever else comes as fresh.
    pub fn start(broker: &Broker, clock: Clock, dead: EndpointId, cooldown: Duration) -> NakLoop {
        let (seen, stop) = (Arc::new(Seen::default()), Shutdown::new());
        let permits = Arc::new(Semaphore::new(PERMITS));
        let pump = broker.pump_near(permits, PERMITS / 2, stop.token());
        let (tasks, shared) = (stop.clone(), seen.clone());
        let pump = tokio::spawn(pump.run(move |pumped| {
            let (message, permit) = pumped.split();
            let (seen, dead) = (shared.clone(), dead.clone());
            drop(tasks.spawn(async move {
                handle(&message, &seen, &clock, &dead, cooldown).await;
                drop(permit);
            }));
        }));
        NakLoop { seen, stop, pump }
    }

    /// Ends it.
    pub async fn stop(self) {
        self.stop.trigger();
        self.stop.drain(DRAIN).await;
        // What it panicked about would have been missed by the count.
        let _ = self.pump.await;
    }
}

async fn handle(
    message: &Incoming,
    seen: &Seen,
    clock: &Clock,
    dead: &EndpointId,
    cooldown: Duration,
) {
    let came = clock.now();
    let Ok(Waiting::Delivery(delivery)) = Waiting::from_wire(message.payload()) else {
        return;
    };
    if delivery.endpoint_id == *dead {
        message.nak(Some(cooldown)).await;
        seen.naked.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if let Some(sent) = sent_at(&delivery.payload) {
        seen.lock().push((sent, came));
    }
    // What is not acknowledged comes again, and is seen in the latencies.
    let _ = message.ack().await;
}

/// Stores a delivery where the loop finds it.
///
/// # Errors
/// When the broker refuses.
pub(crate) async fn put(broker: &Broker, delivery: Delivery) -> Result<(), Failure> {
    let waiting = Waiting::Delivery(Box::new(delivery));
    let now = posthorn_wiring::now();
    let stored = broker
        .publish_waiting(&waiting, Broker::near(), now, Patience::WORKER)
        .await;
    stored.map(drop).map_err(failed("storing a delivery"))
}
