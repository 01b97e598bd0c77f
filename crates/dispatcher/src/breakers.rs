//! The breakers, as all dispatchers share them.
//!
//! A healthy endpoint costs nothing here: its state is absent and a success changes nothing.
//! What does change a state goes through compare-and-swap with one write in flight per
//! endpoint; what comes meanwhile is added up and goes with the next one.

use moka::sync::Cache;
use posthorn_broker::{BrokerError, Versioned, Watched};
use posthorn_delivery::breaker::{Attempted, BreakerSignal, BreakerState, Streak, observe};
use posthorn_delivery::{BreakerPolicy, Endpoint, EndpointId};
use rand::RngExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A state, and the one that followed it.
pub(crate) type Moved = (BreakerState, BreakerState);

const TRIES: u32 = 16;
const IDLE: Duration = Duration::from_secs(300);
const MAX_WRITERS: u64 = 100_000;

/// The breakers of all endpoints.
pub(crate) struct Breakers {
    watched: Watched<BreakerState>,
    writers: Cache<EndpointId, Arc<Writer>>,
}

/// What one endpoint's answers add up to here, and whose turn it is to write it.
#[derive(Default)]
struct Writer {
    own: Mutex<Own>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Own {
    streak: Streak,
    reports: Vec<Attempted>,
}

impl Breakers {
    pub fn new(watched: Watched<BreakerState>) -> Breakers {
        let writers = Cache::builder()
            .max_capacity(MAX_WRITERS)
            .time_to_idle(IDLE)
            .build();
        Breakers { watched, writers }
    }

    pub async fn loaded(&self) {
        self.watched.loaded().await;
    }

    /// The state of a breaker; `None` is Closed with no failures.
    pub fn get(&self, endpoint: &EndpointId) -> Option<Arc<Versioned<BreakerState>>> {
        self.watched.get(endpoint.as_str())
    }

    /// How many are not closed.
    pub fn not_closed(&self) -> usize {
        let all = self.watched.all();
        all.iter()
            .filter(|(_, state)| state.value.phase != posthorn_delivery::breaker::Phase::Closed)
            .count()
    }

    /// Writes the state in which this dispatcher holds the probe; false when another wrote
    /// first, and then that other's state is known.
    pub async fn claim(
        &self,
        endpoint: &EndpointId,
        claimed: BreakerState,
    ) -> Result<bool, BrokerError> {
        let key = endpoint.as_str();
        let revision = self.get(endpoint).map_or(0, |known| known.revision);
        match self.watched.bucket().swap(key, &claimed, revision).await {
            Ok(revision) => {
                self.watched.learn(key, claimed, revision);
                Ok(true)
            }
            Err(BrokerError::Conflict) => {
                self.read(key).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports an attempt; returns the state before and the one that it led to, when it changed
    /// anything.
    pub async fn report(
        &self,
        endpoint: &Endpoint,
        attempted: Attempted,
    ) -> Result<Option<Moved>, BrokerError> {
        let writer = self.writers.get_with_by_ref(&endpoint.id, Arc::default);
        let quiet = self.is_quiet(&endpoint.id);
        if !writer.take_in(endpoint, attempted, quiet) {
            return Ok(None);
        }
        let _turn = writer.turn.lock().await;
        let reports = writer.take_out();
        if reports.is_empty() {
            // An earlier turn took this report along, or a success took it back.
            return Ok(None);
        }
        self.write(endpoint, &reports).await
    }

    fn is_quiet(&self, endpoint: &EndpointId) -> bool {
        self.get(endpoint)
            .is_none_or(|known| known.value.is_quiet())
    }

    async fn write(
        &self,
        endpoint: &Endpoint,
        reports: &[Attempted],
    ) -> Result<Option<Moved>, BrokerError> {
        let key = endpoint.id.as_str();
        for attempt in 0..TRIES {
            pause_before(attempt).await;
            let known = self.watched.get(key);
            let state = known
                .as_ref()
                .map(|k| k.value.for_target(endpoint.target_epoch))
                .unwrap_or_default();
            let state = state.for_target(endpoint.target_epoch);
            let Some(next) = fold(&state, endpoint.breaker.as_ref(), reports) else {
                return Ok(None);
            };
            match self
                .watched
                .bucket()
                .swap(key, &next, known.map_or(0, |k| k.revision))
                .await
            {
                Ok(revision) => {
                    log_change(endpoint, &state, &next);
                    self.watched.learn(key, next.clone(), revision);
                    return Ok(Some((state, next)));
                }
                Err(BrokerError::Conflict) => self.read(key).await?,
                Err(error) => return Err(error),
            }
        }
        Err(BrokerError::Conflict)
    }

    /// Reads a state that somebody else wrote, without waiting for the watch to bring it.
    /// What is known, at least up to `generation`: what was let go under it must not be judged
    /// by an older state.
    pub async fn at_least(
        &self,
        endpoint: &EndpointId,
        generation: u64,
    ) -> Result<(), BrokerError> {
        let known = self.get(endpoint).map_or(0, |known| known.value.generation);
        if known >= generation {
            return Ok(());
        }
        self.read(endpoint.as_str()).await
    }

    async fn read(&self, key: &str) -> Result<(), BrokerError> {
        if let Some(found) = self.watched.bucket().get(key).await? {
            self.watched.learn(key, found.value, found.revision);
        }
        Ok(())
    }
}

/// Dispatchers that write the same breaker at the same time get out of each other's way.
async fn pause_before(attempt: u32) {
    if attempt > 0 {
        let most = 1_u64 << attempt.min(6);
        let pause = posthorn_runtime::rng::rng().random_range(0..=most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

impl Writer {
    /// Adds an attempt up; true when there is something to write.
    fn take_in(&self, endpoint: &Endpoint, attempted: Attempted, quiet: bool) -> bool {
        let mut own = self.own.lock().expect("no holder panics");
        let Some(report) = own.add_up(endpoint.breaker.as_ref(), attempted, quiet) else {
            return false;
        };
        own.reports.push(report);
        true
    }

    fn take_out(&self) -> Vec<Attempted> {
        std::mem::take(&mut self.own.lock().expect("no holder panics").reports)
    }
}

impl Own {
    /// What is to be written of an attempt. A probe, and a receiver that asks for quiet, are
    /// always told; a success only where the shared state is not quiet; failures as the streak
    /// says.
    fn add_up(
        &mut self,
        policy: Option<&BreakerPolicy>,
        attempted: Attempted,
        quiet: bool,
    ) -> Option<Attempted> {
        let now = posthorn_wiring::now();
        let told_anyway = attempted.probe || attempted.hold_until.is_some();
        match (attempted.signal, policy) {
            (BreakerSignal::Success, _) => {
                self.streak.success(now);
                self.reports
                    .retain(|report| report.probe || report.signal != BreakerSignal::Failure);
                let said = self
                    .reports
                    .last()
                    .is_some_and(|last| last.signal == BreakerSignal::Success);
                (told_anyway || !(quiet || said)).then_some(attempted)
            }
            (BreakerSignal::Failure, Some(policy)) => {
                let count = self.streak.failure(policy.failure_threshold(), now);
                (told_anyway || count > 0).then_some(Attempted { count, ..attempted })
            }
            (BreakerSignal::Failure | BreakerSignal::Neutral, _) => {
                told_anyway.then_some(attempted)
            }
        }
    }
}

/// What all reports together lead to; `None` when that is nothing.
fn fold(
    state: &BreakerState,
    policy: Option<&BreakerPolicy>,
    reports: &[Attempted],
) -> Option<BreakerState> {
    let now = posthorn_wiring::now();
    let mut changed = None;
    for report in reports {
        let current = changed.as_ref().unwrap_or(state);
        if let Some(next) = observe(current, policy, *report, now) {
            changed = Some(next);
        }
    }
    changed
}

fn log_change(endpoint: &Endpoint, before: &BreakerState, after: &BreakerState) {
    if before.phase != after.phase {
        tracing::info!(
            endpoint = %endpoint.id,
            from = before.phase.as_str(),
            to = after.phase.as_str(),
            generation = after.generation,
            reason = after.reason,
            "breaker moved"
        );
    }
}
