//! NAKs, gathered and sent together.
//!
//! The server resets a consumer's one redelivery timer on every delayed NAK and looks for due
//! messages only in a gap: a steady 2,000 NAKs a second left what was due lying for seconds,
//! or for as long as the flow lasted. The same number in bursts at wall-clock boundaries keeps
//! the 99th percentile near 0.1 s, also with several schedulers that do not know of each other.

use posthorn_broker::Pumped;
use posthorn_delivery::UnixMillis;
use posthorn_runtime::Shutdown;
use std::time::Duration;
use tokio::sync::mpsc;

/// Bursts are sent at multiples of this time.
const PERIOD_MS: i64 = 50;
/// The permits bound what can wait here; the channel only hands it over.
const CAPACITY: usize = 4_096;

/// Where to hand in what is to be NAKed.
#[derive(Clone)]
pub(crate) struct NakBurst {
    queue: mpsc::Sender<(Pumped, UnixMillis)>,
}

impl NakBurst {
    pub fn start(shutdown: &Shutdown) -> NakBurst {
        let (queue, waiting) = mpsc::channel(CAPACITY);
        shutdown.spawn(send_bursts(waiting, shutdown.clone()));
        NakBurst { queue }
    }

    /// Gives the message back with the next burst, to come again at `until`.
    pub async fn put(&self, pumped: Pumped, until: UnixMillis) {
        // A queue that is closed means that the process ends: the ack wait gives it back.
        let _ = self.queue.send((pumped, until)).await;
    }
}

async fn send_bursts(mut waiting: mpsc::Receiver<(Pumped, UnixMillis)>, shutdown: Shutdown) {
    let mut held = Vec::new();
    while !shutdown.is_triggered() {
        let now = posthorn_wiring::now();
        let boundary = PERIOD_MS - now.0.rem_euclid(PERIOD_MS);
        let pause = Duration::from_millis(u64::try_from(boundary).unwrap_or(1));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.triggered() => {}
        }
        drain(&mut waiting, &mut held);
        flush(&mut held).await;
    }
    // What is still handed in while the loops end goes back at once.
    while let Ok(Some(next)) =
        tokio::time::timeout(Duration::from_millis(200), waiting.recv()).await
    {
        held.push(next);
        drain(&mut waiting, &mut held);
        flush(&mut held).await;
    }
}

fn drain(waiting: &mut mpsc::Receiver<(Pumped, UnixMillis)>, held: &mut Vec<(Pumped, UnixMillis)>) {
    while let Ok(next) = waiting.try_recv() {
        held.push(next);
    }
}

async fn flush(held: &mut Vec<(Pumped, UnixMillis)>) {
    for (pumped, until) in held.drain(..) {
        let wait = posthorn_wiring::now()
            .until(until)
            .max(Duration::from_millis(1));
        pumped.message.nak(Some(wait)).await;
    }
}
