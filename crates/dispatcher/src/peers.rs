//! How many dispatchers there are: each takes its share of an endpoint's in-flight cap.

use crate::context::Context;
use posthorn_broker::codec::DispatcherBeat;
use posthorn_broker::{BrokerError, Bucket};
use posthorn_runtime::{Shutdown, rng};
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// A sign of life this often; without one for 10 s the bucket forgets the dispatcher.
const BEAT: Duration = Duration::from_secs(2);
/// A newcomer waits this long, so that the others have seen it and shrunk their shares.
const SETTLE: Duration = Duration::from_secs(2);

/// The live dispatchers.
pub(crate) struct Peers {
    bucket: Bucket<DispatcherBeat>,
    count: AtomicU32,
    settled: watch::Sender<bool>,
}

impl Peers {
    pub fn new(bucket: Bucket<DispatcherBeat>) -> Peers {
        Peers {
            bucket,
            count: AtomicU32::new(1),
            settled: watch::Sender::new(false),
        }
    }

    /// This dispatcher's share of a cap; 0 where there are more dispatchers than slots.
    pub fn share(&self, cap: u32) -> u32 {
        cap / self.count.load(Ordering::Relaxed).max(1)
    }

    /// Waits until this dispatcher has been seen by the others.
    pub async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = settled.wait_for(|done| *done).await;
    }

    async fn look(&self, key: &str, beat: &DispatcherBeat) -> Result<u32, BrokerError> {
        self.bucket.put(key, beat).await?;
        let live = u32::try_from(self.bucket.count().await?)
            .unwrap_or(u32::MAX)
            .max(1);
        self.count.store(live, Ordering::Relaxed);
        Ok(live)
    }
}

/// Shows this dispatcher to the others until shut down.
pub(crate) async fn beat(context: Arc<Context>, concurrency: u32, shutdown: Shutdown) {
    let key = format!("d{:016x}", rng::rng().random::<u64>());
    let sign = DispatcherBeat { concurrency };
    let mut tick = tokio::time::interval(BEAT);
    loop {
        tokio::select! {
            () = shutdown.triggered() => break,
            _ = tick.tick() => {}
        }
        match context.peers.look(&key, &sign).await {
            Ok(1) => drop(context.peers.settled.send_replace(true)),
            Ok(_) if !*context.peers.settled.borrow() => {
                tokio::time::sleep(SETTLE).await;
                context.peers.settled.send_replace(true);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the other dispatchers could not be counted"),
        }
    }
    context.peers.settled.send_replace(true);
    if let Err(error) = context.peers.bucket.purge(&key).await {
        tracing::debug!(%error, "the others will notice in a while that this dispatcher is gone");
    }
}
