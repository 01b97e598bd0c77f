//! How many dispatchers there are: each takes its share of an endpoint's in-flight cap.

use crate::context::Context;
use posthorn_broker::codec::DispatcherBeat;
use posthorn_broker::{BrokerError, Bucket};
use posthorn_runtime::{Shutdown, rng};
use rand::RngExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A sign of life this often; without one for 10 s the bucket forgets the dispatcher.
const BEAT: Duration = Duration::from_secs(2);
/// A newcomer waits this long, so that the others have seen it and shrunk their shares.
const SETTLE: Duration = Duration::from_secs(2);
/// Out of contact with the broker the signs of life of all go out of date. After it nobody is
/// taken to be gone before all have had the time to reconnect and show themselves again.
const RETURN: Duration = Duration::from_secs(10);

/// The live dispatchers.
pub(crate) struct Peers {
    bucket: Bucket<DispatcherBeat>,
    count: AtomicU32,
    crowd: Mutex<Crowd>,
    settled: watch::Sender<bool>,
}

/// How many dispatchers are believed in.
struct Crowd {
    believed: u32,
    /// When the last look that failed, or took too long, was over.
    out_of_contact: Option<Instant>,
}

impl Crowd {
    /// `seen` is `None` where the others could not be counted.
    fn look(&mut self, seen: Option<u32>, started: Instant, now: Instant) -> u32 {
        if seen.is_none() || now - started > BEAT {
            self.out_of_contact = Some(now);
        }
        if self.out_of_contact.is_some_and(|at| now - at >= RETURN) {
            self.out_of_contact = None;
        }
        let seen = seen.unwrap_or(self.believed);
        if seen > self.believed || self.out_of_contact.is_none() {
            self.believed = seen;
        }
        self.believed
    }
}

impl Peers {
    pub fn new(bucket: Bucket<DispatcherBeat>) -> Peers {
        Peers {
            bucket,
            count: AtomicU32::new(1),
            crowd: Mutex::new(Crowd {
                believed: 1,
                out_of_contact: None,
            }),
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
        let started = Instant::now();
        let seen = self.count(key, beat).await;
        let live = self.crowd.lock().expect("no holder panics").look(
            seen.as_ref().ok().copied(),
            started,
            Instant::now(),
        );
        self.count.store(live, Ordering::Relaxed);
        seen
    }

    async fn count(&self, key: &str, beat: &DispatcherBeat) -> Result<u32, BrokerError> {
        self.bucket.put(key, beat).await?;
        let live = u32::try_from(self.bucket.count().await?);
        Ok(live.unwrap_or(u32::MAX).max(1))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is believed after a look at `at` seconds that took `took` seconds.
    fn look(crowd: &mut Crowd, start: Instant, (at, took): (u64, u64), seen: Option<u32>) -> u32 {
        let started = start + Duration::from_secs(at);
        crowd.look(seen, started, started + Duration::from_secs(took))
    }

    #[test]
    fn after_an_outage_no_dispatcher_takes_itself_for_the_only_one() {
        let start = Instant::now();
        let mut crowd = Crowd {
            believed: 1,
            out_of_contact: None,
        };
        assert_eq!(look(&mut crowd, start, (0, 0), Some(3)), 3);
        assert_eq!(look(&mut crowd, start, (2, 0), Some(2)), 2, "one has left");
        assert_eq!(look(&mut crowd, start, (4, 0), Some(3)), 3);
        assert_eq!(look(&mut crowd, start, (6, 5), None), 3, "an outage begins");
        assert_eq!(look(&mut crowd, start, (11, 4), Some(1)), 3, "a slow look");
        assert_eq!(look(&mut crowd, start, (18, 0), Some(2)), 3);
        assert_eq!(look(&mut crowd, start, (20, 0), Some(4)), 4, "one more");
        assert_eq!(look(&mut crowd, start, (24, 0), Some(2)), 4);
        assert_eq!(look(&mut crowd, start, (25, 0), Some(2)), 2, "two are gone");
    }
}
