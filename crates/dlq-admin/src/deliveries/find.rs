//! Finding what is recorded of one event among millions of attempts.
//!
//! No subject is an event's own: that would be as many subjects as there are events. What is
//! there instead: the event's letters, whose ids follow from the event and its endpoints, and
//! which name each attempt's place; the time at which it was accepted, which most ids tell and
//! every letter does; and the shard, which leaves one attempt in 64 to be looked at.

use crate::scan::{Backwards, Budget, CLOCK_SLACK, EVERYTHING, STORED_AFTER, Search, Upwards};
use crate::store::Store;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{
    Attempt, DeadLetter, Endpoint, EndpointId, EventId, LetterId, Tenant, UnixMillis,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The most attempts of one event that are shown.
pub(super) const MAX_ATTEMPTS: usize = 1_000;
/// The most endpoints whose letters are looked for by the event's id.
const MAX_ENDPOINTS: usize = 2_000;
/// Requests in flight at a time.
const CONCURRENCY: usize = 32;
/// A time further back is no event's whose attempts are kept. It is short on purpose: the nearer
/// the times that are believed, the less likely is it that a hash tells one by chance; as it is,
/// one in six million does.
const LONGEST_AGO: Duration = Duration::from_secs(35 * 86_400);

/// Which event, and where to look.
#[derive(Debug)]
pub(super) struct Asked {
    pub event: EventId,
    /// Whose; `None` for any tenant.
    pub tenant: Option<Tenant>,
    pub since: Option<UnixMillis>,
    pub until: Option<UnixMillis>,
}

/// Whose delivery.
pub(super) type Key = (Tenant, EndpointId);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By its place in the log.
    pub attempts: BTreeMap<u64, Logged<Attempt>>,
    pub letters: BTreeMap<Key, DeadLetter>,
    /// The part of the log that was searched; open ends are `None`.
    pub since: Option<UnixMillis>,
    pub until: Option<UnixMillis>,
    /// Whether that is all of what was asked for.
    pub complete: bool,
}

/// Looks for an event.
///
/// # Errors
/// When the broker fails.
pub(super) async fn find(store: &Store, asked: &Asked) -> Result<Found, BrokerError> {
    let mut found = Found {
        letters: letters(store, asked).await?,
        ..Found::default()
    };
    for record in remembered(store, &found.letters, asked).await? {
        found.attempts.insert(record.sequence, record);
    }
    let accepted = found
        .letters
        .values()
        .map(|letter| letter.accepted_at)
        .min();
    let accepted = accepted.or_else(|| told_by(&asked.event, posthorn_wiring::now()));
    match (asked.since, asked.until) {
        (Some(since), _) => forwards(store, asked, before(since), &mut found).await?,
        (None, Some(_)) => backwards(store, asked, &mut found).await?,
        (None, None) => match accepted {
            Some(accepted) => forwards(store, asked, before(accepted), &mut found).await?,
            None => backwards(store, asked, &mut found).await?,
        },
    }
    Ok(found)
}

fn before(accepted: UnixMillis) -> UnixMillis {
    let slack = i64::try_from(CLOCK_SLACK.as_millis()).unwrap_or(0);
    UnixMillis(accepted.0.saturating_sub(slack))
}

/// The time in an id that is a uuid v7, which is when its event was accepted.
fn told_by(event: &EventId, now: UnixMillis) -> Option<UnixMillis> {
    let bits = event.bits();
    let (version, variant) = ((bits >> 76) & 0xf, (bits >> 62) & 0x3);
    let at = UnixMillis(i64::try_from(bits >> 80).ok()?);
    let plausible = at <= now + CLOCK_SLACK && now.since(at) < LONGEST_AGO;
    (version == 7 && variant == 2 && plausible).then_some(at)
}

/// The letters of the event at the endpoints there are.
async fn letters(store: &Store, asked: &Asked) -> Result<BTreeMap<Key, DeadLetter>, BrokerError> {
    let all = store.all_endpoints().into_iter();
    let tenant = asked.tenant.as_ref();
    let endpoints: Vec<_> = all
        .filter(|endpoint| tenant.is_none_or(|tenant| *tenant == endpoint.value.tenant))
        .take(MAX_ENDPOINTS + 1)
        .collect();
    if endpoints.len() > MAX_ENDPOINTS {
        return Ok(BTreeMap::new());
    }
    let asking = endpoints.into_iter().map(|endpoint| async move {
        let Endpoint { tenant, id, .. } = &endpoint.value;
        let letter = letter(store, tenant, &asked.event, id).await?;
        Ok::<_, BrokerError>(letter.map(|letter| ((tenant.clone(), id.clone()), letter)))
    });
    futures_util::stream::iter(asking)
        .buffer_unordered(CONCURRENCY)
        .try_filter_map(|found| std::future::ready(Ok(found)))
        .try_collect()
        .await
}

/// The letter of an event at an endpoint, as it is now.
///
/// # Errors
/// When the broker fails.
pub(super) async fn letter(
    store: &Store,
    tenant: &Tenant,
    event: &EventId,
    endpoint: &EndpointId,
) -> Result<Option<DeadLetter>, BrokerError> {
    let id = LetterId::of(tenant, event, endpoint);
    let names = store.broker().names();
    let subject = names.letter(tenant.as_str(), Some(endpoint), &id);
    match store.letters().last(&subject).await {
        Err(BrokerError::Undecodable(_)) => Ok(None),
        other => Ok(other?.map(|found| found.value)),
    }
}

/// The records of the attempts that letters remember, as far as the log still has them.
async fn remembered(
    store: &Store,
    letters: &BTreeMap<Key, DeadLetter>,
    asked: &Asked,
) -> Result<Vec<Logged<Attempt>>, BrokerError> {
    let summaries = letters.values().flat_map(|letter| &letter.history);
    let places: Vec<u64> = summaries
        .map(|summary| summary.sequence)
        .filter(|sequence| *sequence != 0)
        .take(MAX_ATTEMPTS)
        .collect();
    let reading = places.into_iter().map(|sequence| async move {
        match store.attempts().at(sequence).await {
            Err(BrokerError::Undecodable(_)) => Ok(None),
            other => other,
        }
    });
    futures_util::stream::iter(reading)
        .buffer_unordered(CONCURRENCY)
        .try_filter_map(|record| {
            let ours = record.filter(|record| asked.is_about(&record.value));
            std::future::ready(Ok(ours))
        })
        .try_collect()
        .await
}

/// From a time on.
async fn forwards(
    store: &Store,
    asked: &Asked,
    since: UnixMillis,
    found: &mut Found,
) -> Result<(), BrokerError> {
    let until = Instant::now() + Budget::PAGE.time();
    let mut left = Budget::PAGE.messages();
    let subject = asked.subject(store);
    found.since = asked.since;
    let from = store.attempts().first_since(EVERYTHING, since).await?;
    let mut upwards = Upwards::from(store.attempts(), &subject, from).await?;
    while let Some(batch) = upwards.batch().await? {
        left = left.saturating_sub(batch.len());
        let seen_to = batch.last().map(|record| record.stored_at);
        let over = asked
            .until
            .is_some_and(|end| seen_to > Some(end + STORED_AFTER));
        found.take(batch, asked);
        if over {
            break;
        }
        if left == 0 || Instant::now() >= until || found.attempts.len() >= MAX_ATTEMPTS {
            found.until = seen_to;
            return Ok(());
        }
    }
    found.until = asked.until;
    found.complete = true;
    Ok(())
}

/// From the newest on.
async fn backwards(store: &Store, asked: &Asked, found: &mut Found) -> Result<(), BrokerError> {
    let subject = asked.subject(store);
    let search = Search::page(&subject, None).between(asked.since, asked.until);
    let mut backwards = Backwards::begin(store.attempts(), &search).await?;
    found.until = asked.until;
    while let Some(batch) = backwards.next().await? {
        found.since = batch.last().map(|record| record.stored_at);
        found.take(batch, asked);
        if found.attempts.len() >= MAX_ATTEMPTS {
            return Ok(());
        }
    }
    found.complete = backwards.rest().is_none();
    if found.complete {
        found.since = asked.since;
    }
    Ok(())
}

impl Asked {
    fn subject(&self, store: &Store) -> String {
        let tenant = self.tenant.as_ref().map_or("*", Tenant::as_str);
        store
            .broker()
            .names()
            .attempts_of_event(tenant, &self.event)
    }

    fn is_about(&self, attempt: &Attempt) -> bool {
        let tenant = self.tenant.as_ref();
        attempt.event_id == self.event && tenant.is_none_or(|tenant| *tenant == attempt.tenant)
    }
}

impl Found {
    fn take(&mut self, batch: Vec<Logged<Attempt>>, asked: &Asked) {
        for record in batch {
            if asked.is_about(&record.value) && self.attempts.len() < MAX_ATTEMPTS {
                self.attempts.insert(record.sequence, record);
            }
        }
    }

    /// Each endpoint's attempts, oldest first.
    pub(super) fn by_endpoint(&self) -> BTreeMap<Key, Vec<&Logged<Attempt>>> {
        let mut all: BTreeMap<Key, Vec<&Logged<Attempt>>> = BTreeMap::new();
        for record in self.attempts.values() {
            let key = (
                record.value.tenant.clone(),
                record.value.endpoint_id.clone(),
            );
            all.entry(key).or_default().push(record);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_made_by_the_clock_tells_when_and_a_hash_does_not() {
        let now = UnixMillis(1_700_000_000_000);
        let made_at = |at: i64, version: u128, variant: u128| {
            let at = u128::try_from(at).unwrap();
            EventId::from_bits((at << 80) | (version << 76) | (variant << 62) | 0x1234)
        };
        let at = now.0 - 86_400_000;
        assert_eq!(told_by(&made_at(at, 7, 2), now), Some(UnixMillis(at)));
        assert_eq!(told_by(&made_at(at, 4, 2), now), None);
        assert_eq!(told_by(&made_at(at, 7, 1), now), None);
        assert_eq!(told_by(&made_at(now.0 + 3_600_000, 7, 2), now), None);
        assert_eq!(told_by(&made_at(5, 7, 2), now), None);
        assert_eq!(told_by(&EventId::from_bits(7), now), None);
    }
}
