//! Looks at the streams, counts what their limits have dropped, and keeps tenants to their
//! budgets.
//!
//! Every copy does so for itself. A cut that two of them make is one cut: the second finds
//! nothing to drop, and each counts what the broker says it has dropped.

use super::budget::{Cut, Weights, cut};
use super::drops::{Drops, KEEPING, Known, Limit, dropped};
use crate::store::Store;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{Broker, BrokerError, Kept, StreamName};
use posthorn_runtime::Shutdown;
use std::collections::HashMap;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(10);
/// Entries struck from the register at a time.
const CONCURRENCY: usize = 64;

/// What is needed of a letter that is weighed.
struct Light {
    sequence: u64,
    bytes: u64,
    entry: u64,
}

/// What is known from the last look.
struct Looked {
    broker: Broker,
    drops: Drops,
    streams: HashMap<StreamName, Kept>,
    /// What tenants' letters weigh; `None` until the stream is larger than a budget.
    weights: Option<Weights>,
}

/// Looks until shut down.
pub(crate) async fn watch(store: Store, drops: Drops, shutdown: Shutdown) {
    drops.begin();
    let mut looked = Looked {
        broker: store.broker().clone(),
        drops,
        streams: HashMap::new(),
        weights: None,
    };
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        if let Err(error) = looked.look().await {
            tracing::debug!(%error, "the streams could not be looked at");
        }
    }
}

impl Looked {
    async fn look(&mut self) -> Result<(), BrokerError> {
        for stream in KEEPING {
            let kept = self.broker.kept(stream).await?;
            let known = match stream {
                StreamName::Dlq => self.letters(&kept).await?,
                _ => Known::default(),
            };
            let before = self.streams.insert(stream, kept);
            let same = before.filter(|before| before.created == kept.created);
            if let Some(before) = same {
                let now = posthorn_wiring::now();
                let (count, limit) = dropped(&before, &kept, known, now);
                self.drops.add(stream, limit, count);
            }
        }
        // After the look, so that what is cut is not counted as dropped by another limit.
        if let Some(budget) = self.broker.tenant_budget() {
            self.keep_to(budget).await?;
        }
        Ok(())
    }

    /// Goes through the letters that are new since the last look.
    async fn letters(&mut self, kept: &Kept) -> Result<Known, BrokerError> {
        let before = self.streams.get(&StreamName::Dlq).copied();
        let seen = before.map_or(kept.last_sequence, |before| before.last_sequence);
        let budget = self.broker.tenant_budget();
        let first = self.weights.is_none() && budget.is_some_and(|budget| kept.bytes > budget);
        let mut known = Known::default();
        if !first && kept.last_sequence <= seen {
            return Ok(known);
        }
        let mut weights = match first {
            true => Some(Weights::default()),
            false => self.weights.take(),
        };
        let names = self.broker.names().clone();
        let from = if first { 1 } else { seen + 1 };
        let walk = self.broker.weigh_letters("*", from, |letter| {
            if letter.sequence > seen && letter.sequence <= kept.last_sequence {
                known.again += u64::from(letter.again);
            }
            let tenant = names.parse_letter_tenant(&letter.subject);
            if let (Some(weights), Some(tenant)) = (&mut weights, tenant) {
                weights.add(tenant, letter.bytes);
            }
        });
        let walked = walk.await;
        // A walk that broke off is begun anew.
        self.weights = weights.filter(|_| walked.is_ok());
        walked.map(|()| known)
    }

    /// Drops the oldest letters of every tenant that is over its budget.
    async fn keep_to(&mut self, budget: u64) -> Result<(), BrokerError> {
        let over = match &self.weights {
            Some(weights) => weights.over(budget),
            None => return Ok(()),
        };
        for tenant in over {
            let letters = self.weigh(&tenant).await?;
            let weights: Vec<(u64, u64)> = letters
                .iter()
                .map(|letter| (letter.sequence, letter.bytes))
                .collect();
            let cut = cut(&weights, budget);
            if cut.below > 0 {
                self.drop_letters(&tenant, cut, &letters).await?;
            }
            if let Some(weights) = &mut self.weights {
                weights.set(&tenant, cut.left);
            }
        }
        Ok(())
    }

    async fn weigh(&self, tenant: &str) -> Result<Vec<Light>, BrokerError> {
        let mut letters = Vec::new();
        self.broker
            .weigh_letters(tenant, 1, |letter| {
                letters.push(Light {
                    sequence: letter.sequence,
                    bytes: letter.bytes,
                    entry: letter.entry,
                });
            })
            .await?;
        Ok(letters)
    }

    /// The letters first: an entry without a letter is passed over, a letter without an entry
    /// would not be found.
    async fn drop_letters(
        &mut self,
        tenant: &str,
        cut: Cut,
        letters: &[Light],
    ) -> Result<(), BrokerError> {
        let count = self.broker.drop_letters(tenant, cut.below).await?;
        self.drops.add(StreamName::Dlq, Limit::TenantBudget, count);
        tracing::warn!(
            tenant,
            dropped = count,
            "dead letters over their tenant's budget were dropped"
        );
        // The next look compares with what there is now.
        if let Some(kept) = self.streams.get_mut(&StreamName::Dlq) {
            kept.messages = kept.messages.saturating_sub(count);
        }
        let gone = letters.iter().filter(|letter| letter.sequence < cut.below);
        let entries: Vec<u64> = gone.map(|letter| letter.entry).collect();
        futures_util::stream::iter(entries)
            .map(|entry| self.broker.strike(entry))
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }
}
