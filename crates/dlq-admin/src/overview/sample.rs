//! Looks at the streams every few seconds, and notes what it sees.
//!
//! A look is a dozen requests, and at most `READ` attempts are read for it however many were
//! made: half of them from the beginning of what is new and half from its middle.

use super::Recently;
use super::recent::{Gauges, KEPT, STEP, Seen};
use crate::store::Store;
use crate::walk::BATCH;
use posthorn_broker::{BrokerError, Logged, StreamName};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Attempt, Disposition, UnixMillis};
use posthorn_runtime::Shutdown;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Attempts that one look reads.
const READ: usize = 2 * BATCH;
/// Attempts that are read of the time before the start.
const BEFORE: u64 = 8 * BATCH as u64;
/// How long a look may take: the next one is due.
const PATIENCE: Duration = Duration::from_millis(STEP.unsigned_abs());

/// Looks until shutdown.
pub async fn watch(store: Store, recently: Recently, shutdown: Shutdown) {
    let mut tick = interval(PATIENCE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut read_up_to = None;
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        let looked = tokio::time::timeout(PATIENCE, look(&store, &recently, read_up_to)).await;
        match looked.unwrap_or(Err(BrokerError::TimedOut)) {
            Ok(last) => read_up_to = Some(last),
            Err(error) => tracing::debug!(%error, "the streams could not be looked at"),
        }
    }
}

/// Returns the sequence up to which the attempts have been read.
async fn look(
    store: &Store,
    recently: &Recently,
    read_up_to: Option<u64>,
) -> Result<u64, BrokerError> {
    let now = posthorn_wiring::now();
    let gauges = gauges(store, now).await?;
    let (first, last) = store.attempts().bounds().await?;
    let seen = match read_up_to {
        Some(before) => since(store, before.max(first.saturating_sub(1)), last).await?,
        None => {
            let from = last.saturating_sub(BEFORE).max(first.saturating_sub(1));
            let seen = all(store, from, last).await?;
            recently.change(|recent| recent.begin(begins(&seen, from < first, now)));
            seen
        }
    };
    recently.change(|recent| {
        seen.into_iter().for_each(|seen| recent.note(seen));
        recent.gauge(now, gauges);
    });
    Ok(last)
}

/// From when on nothing is missing: always, where the whole log was read.
fn begins(seen: &[Seen], whole: bool, now: UnixMillis) -> UnixMillis {
    let kept = STEP * i64::try_from(KEPT).unwrap_or(0);
    let window = UnixMillis(now.0 - kept);
    match seen.first() {
        Some(oldest) if !whole => oldest.at.max(window),
        _ => window,
    }
}

async fn gauges(store: &Store, now: UnixMillis) -> Result<Gauges, BrokerError> {
    let broker = store.broker();
    let state = |stream| broker.stream_state(stream);
    Ok(Gauges {
        accepted: state(StreamName::Events).await?.last_sequence,
        attempts: state(StreamName::Attempts).await?.last_sequence,
        due: state(StreamName::Deliveries).await?.messages,
        waiting: state(StreamName::Retries).await?.messages,
        held: state(StreamName::Lanes).await?.messages,
        dead: state(StreamName::Register).await?.messages,
        oldest_due: broker.oldest_due(now).await?,
    })
}

/// What is new after the sequence `before`, or a sample of it.
async fn since(store: &Store, before: u64, last: u64) -> Result<Vec<Seen>, BrokerError> {
    let new = last.saturating_sub(before);
    if new <= READ as u64 {
        return all(store, before, last).await;
    }
    let weight = new as f64 / READ as f64;
    let mut seen = read(store, before, last, weight).await?;
    seen.extend(read(store, before + new / 2, last, weight).await?);
    Ok(seen)
}

/// Everything in `(before, last]`.
async fn all(store: &Store, before: u64, last: u64) -> Result<Vec<Seen>, BrokerError> {
    let (mut at, mut seen) = (before, Vec::new());
    while at < last {
        seen.extend(read(store, at, last, 1.0).await?);
        at = at.saturating_add(BATCH as u64);
    }
    Ok(seen)
}

/// The attempts of the [`BATCH`] sequences after `before`.
async fn read(
    store: &Store,
    before: u64,
    last: u64,
    weight: f64,
) -> Result<Vec<Seen>, BrokerError> {
    let subject = store.broker().names().attempts_of_tenant("*");
    let page = store.attempts().read(&subject, before + 1, BATCH).await?;
    let end = before.saturating_add(BATCH as u64).min(last);
    let within = |record: &Logged<Attempt>| record.sequence <= end;
    let items = page.items.into_iter().filter(within);
    Ok(items.filter_map(|record| seen(record, weight)).collect())
}

/// What was never attempted says nothing of its endpoint.
fn seen(record: Logged<Attempt>, weight: f64) -> Option<Seen> {
    let attempt = record.value;
    let failure = match attempt.disposition {
        Disposition::Skipped => return None,
        Disposition::Complete => None,
        Disposition::Retry { .. } | Disposition::Dead(_) => Some(match attempt.result {
            AttemptResult::Status(status) => status.to_string(),
            AttemptResult::Error(failure) => failure.as_str().to_owned(),
        }),
    };
    Some(Seen {
        tenant: attempt.tenant,
        endpoint: attempt.endpoint_id,
        at: record.stored_at,
        failure,
        latency_ms: attempt.latency_ms,
        weight,
    })
}
