//! Reading a log from its end.
//!
//! The broker reads forwards only. It also says with every answer how many more messages match,
//! so the place from which on a page's worth is left can be found by asking: each step looks
//! further back, four times as far as the last, and a page costs a logarithm of the log.

use posthorn_broker::{BrokerError, LogReader, Logged, Wire};
use std::collections::VecDeque;

/// Messages read in one request.
const READ: usize = 1_000;
/// How far the first step looks back, for each message wanted.
const FIRST_STEP: u64 = 4;

/// A page of a log, newest first.
pub(crate) struct Newest<T> {
    /// The messages.
    pub items: Vec<Logged<T>>,
    /// Whether older ones match too.
    pub more: bool,
}

/// The newest `limit` messages that match, of those before sequence `before`.
///
/// # Errors
/// When the broker does not answer, or a message cannot be read.
pub(crate) async fn newest_before<T: Wire>(
    log: &LogReader<T>,
    filter: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Newest<T>, BrokerError> {
    let (first, last) = log.bounds().await?;
    let end = before.unwrap_or(u64::MAX).min(last.saturating_add(1));
    let beyond = left_from(log, filter, end).await?;
    let in_all = left_from(log, filter, first).await?.saturating_sub(beyond);
    let wanted = in_all.min(limit as u64);
    if wanted == 0 {
        let items = Vec::new();
        return Ok(Newest { items, more: false });
    }
    let mut step = wanted.saturating_mul(FIRST_STEP);
    let mut start = end.saturating_sub(step).max(first);
    while start > first && left_from(log, filter, start).await?.saturating_sub(beyond) < wanted {
        step = step.saturating_mul(4);
        start = end.saturating_sub(step).max(first);
    }
    let tail = tail(log, filter, start..end, limit).await?;
    let more = in_all > tail.len() as u64;
    let items = tail.into_iter().rev().collect();
    Ok(Newest { items, more })
}

/// How many messages match from a sequence on.
async fn left_from<T: Wire>(
    log: &LogReader<T>,
    filter: &str,
    from: u64,
) -> Result<u64, BrokerError> {
    let page = log.read(filter, from, 1).await?;
    Ok(page.pending.saturating_add(page.items.len() as u64))
}

/// The last `limit` matches of a range, in the log's order.
async fn tail<T: Wire>(
    log: &LogReader<T>,
    filter: &str,
    range: std::ops::Range<u64>,
    limit: usize,
) -> Result<VecDeque<Logged<T>>, BrokerError> {
    let mut tail = VecDeque::with_capacity(limit);
    let mut from = range.start;
    loop {
        let page = log.read(filter, from, READ).await?;
        let Some(last) = page.items.last().map(|logged| logged.sequence) else {
            return Ok(tail);
        };
        for logged in page.items {
            if logged.sequence >= range.end {
                return Ok(tail);
            }
            if tail.len() == limit {
                tail.pop_front();
            }
            tail.push_back(logged);
        }
        if page.pending == 0 {
            return Ok(tail);
        }
        from = last.saturating_add(1);
    }
}
