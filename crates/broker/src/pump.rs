//! The loop around a consumer: permit first, then fetch.
//!
//! What is fetched is worked on at once, because a message that waits in a client's buffer
//! ages there, is handed to somebody else, and is sent twice. The loop never ends on an
//! error: it backs off, says so in bounded words, restores what it stands on, and goes on.

use crate::broker::Broker;
use crate::consume::{Incoming, PullConsumer};
use crate::error::BrokerError;
use futures_util::{FutureExt, StreamExt};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A message and the right to work on it.
pub struct Pumped {
    /// The message.
    pub message: Incoming,
    /// Dropped when the work is done.
    pub permit: OwnedSemaphorePermit,
}

/// Takes messages from one durable for as long as it is not stopped.
pub struct Pump {
    broker: Broker,
    consumer: ConsumerName,
    permits: Arc<Semaphore>,
    batch: usize,
    stop: CancellationToken,
    beat: Box<dyn Fn() + Send + Sync>,
}

#[derive(Clone, Debug)]
pub(crate) enum ConsumerName {
    Fanout,
    Dispatch,
    RetryNear,
    RetryFar(i64),
    Tokens,
}

/// An open request is renewed this often, which is also how often the loop shows that it
/// lives.
const EXPIRES: Duration = Duration::from_secs(2);
const BUSY_BEAT: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// The broker answers a request when it expires. One that the client gave up by itself, which
/// it does 5 s later and as if it had been answered, was lost on a connection that looks open.
const UNANSWERED: Duration = Duration::from_secs(6);

impl Pump {
    pub(crate) fn new(
        broker: Broker,
        consumer: ConsumerName,
        permits: Arc<Semaphore>,
        batch: usize,
        stop: CancellationToken,
    ) -> Pump {
        Pump {
            broker,
            consumer,
            permits,
            batch,
            stop,
            beat: Box::new(|| {}),
        }
    }

    /// Calls `beat` whenever the loop has got an answer from the broker.
    #[must_use]
    pub fn on_beat(mut self, beat: impl Fn() + Send + Sync + 'static) -> Pump {
        self.beat = Box::new(beat);
        self
    }

    /// Hands every message to `take`, which must not block: it spawns the work, and the
    /// permit goes with it. Returns when stopped.
    pub async fn run(self, take: impl Fn(Pumped)) {
        let mut trouble = Trouble::default();
        while !self.stop.is_cancelled() {
            match self.consume(&take, &mut trouble).await {
                Ok(()) => return,
                Err(error) => self.recover(&mut trouble, &error).await,
            }
        }
    }

    /// Consumes until stopped (`Ok`) or until something goes wrong.
    async fn consume(
        &self,
        take: &impl Fn(Pumped),
        trouble: &mut Trouble,
    ) -> Result<(), BrokerError> {
        let consumer = self.broker.consumer(&self.consumer).await?;
        loop {
            let Some(mut held) = self.acquire().await else {
                return Ok(());
            };
            self.fetch(&consumer, &mut held, take).await?;
            trouble.end();
            (self.beat)();
        }
    }

    /// One permit, and then whatever else is free: waiting for many would let a few slow
    /// endpoints stop the loop, and taking one at a time costs a request for each message.
    async fn acquire(&self) -> Option<Vec<OwnedSemaphorePermit>> {
        let free = self.permits.clone().acquire_owned();
        tokio::pin!(free);
        let first = loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                permit = &mut free => break permit.ok()?,
                // All hands are at work, which is not the same as standing still.
                () = tokio::time::sleep(BUSY_BEAT) => (self.beat)(),
            }
        };
        let mut held = vec![first];
        while held.len() < self.batch {
            match self.permits.clone().try_acquire_owned() {
                Ok(permit) => held.push(permit),
                Err(_) => break,
            }
        }
        Some(held)
    }

    async fn fetch(
        &self,
        consumer: &PullConsumer,
        held: &mut Vec<OwnedSemaphorePermit>,
        take: &impl Fn(Pumped),
    ) -> Result<(), BrokerError> {
        let asked = Instant::now();
        let mut batch = consumer.fetch(held.len(), EXPIRES).await?;
        loop {
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                next = batch.next() => next,
                // The request went down with the connection and would be waited for in vain.
                () = consumer.own.renewed() => return Ok(()),
            };
            let Some(message) = next else {
                return answered(asked.elapsed());
            };
            let Some(permit) = held.pop() else {
                return Ok(());
            };
            take(Pumped {
                message: message?,
                permit,
            });
        }
        // What came in the same moment goes back at once, not after the ack wait.
        while let Some(Some(Ok(message))) = batch.next().now_or_never() {
            message.nak(None).await;
        }
        Ok(())
    }

    async fn recover(&self, trouble: &mut Trouble, error: &BrokerError) {
        let wait = trouble.more(error, &self.consumer);
        tokio::select! {
            () = self.stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        if trouble.rounds % 4 == 2 {
            // The streams or the durable may be gone: a broker that lost its state comes back
            // empty, and waiting for it would be waiting for ever.
            if let Err(error) = self.broker.ensure().await {
                tracing::debug!(%error, "the streams could not be checked yet");
            }
        }
    }
}

/// Whether the broker can have ended a request that took so long.
fn answered(after: Duration) -> Result<(), BrokerError> {
    match after >= UNANSWERED {
        true => Err(BrokerError::TimedOut),
        false => Ok(()),
    }
}

/// Backs off, and bounds what is logged about it.
#[derive(Default)]
struct Trouble {
    rounds: u32,
    last_logged: Option<Instant>,
}

impl Trouble {
    fn more(&mut self, error: &BrokerError, consumer: &ConsumerName) -> Duration {
        self.rounds += 1;
        let quiet = self
            .last_logged
            .is_some_and(|at| at.elapsed() < Duration::from_secs(10));
        if !quiet {
            self.last_logged = Some(Instant::now());
            tracing::warn!(?consumer, rounds = self.rounds, error = %chain(error), "cannot consume; trying again");
        }
        (Duration::from_millis(50) * 2_u32.saturating_pow(self.rounds.min(6))).min(MAX_BACKOFF)
    }

    fn end(&mut self) {
        if self.rounds > 0 {
            tracing::info!(rounds = self.rounds, "consuming again");
            *self = Trouble::default();
        }
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text = format!("{text}: {source}");
        at = source.source();
    }
    text
}

/// Runs `work` for a pumped message in a task of its own and gives the permit back after it.
impl Pumped {
    /// Splits it into the message and the permit that must outlive the work.
    pub fn split(self) -> (Incoming, OwnedSemaphorePermit) {
        (self.message, self.permit)
    }

    /// Works on it, keeping the broker informed, and frees the permit at the end.
    pub async fn work<F, Fut>(self, work: F)
    where
        F: FnOnce(Arc<Incoming>) -> Fut,
        Fut: Future<Output = ()>,
    {
        let message = Arc::new(self.message);
        message.while_working(work(message.clone())).await;
        drop(self.permit);
    }
}
