//! Finding dead letters by the register of deaths.
//!
//! The register says where to look and the letters say what is: an entry whose letter is gone,
//! was delivered, or has died again since is passed over. So a page costs the entries that are
//! looked at, which are small, and the letters that are on it, however many others there are.

use crate::filter::LetterFilter;
use crate::scan::{Backwards, Budget, Search};
use crate::store::Store;
use futures_util::{Stream, StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{DeadLetter, LetterEntry, UnixMillis};
use std::time::Duration;

/// Letters read at a time.
const CONCURRENCY: usize = 32;
/// The most bytes of payload that a page reads.
const MAX_BYTES: usize = 64 << 20;
/// An entry without its letter is no rubbish before this: the letter is stored after it, by
/// whoever may have to wait for the broker.
const SETTLED: Duration = Duration::from_secs(3_600);

/// A page of letters.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The letters, newest death first.
    pub letters: Vec<DeadLetter>,
    /// The next page begins below this entry; `None` when this is the last.
    pub next: Option<u64>,
    /// Whether the search came to the page's end; otherwise it goes on at `next`.
    pub complete: bool,
    /// Entries that no letter will ever call its own.
    pub void: Vec<u64>,
}

/// A count of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How many there are, or were found so far.
    pub count: u64,
    /// Whether all of the register was looked at.
    pub complete: bool,
}

/// The newest letters that match, below an entry, at most `limit`.
///
/// # Errors
/// When the broker fails.
pub(crate) async fn page(
    store: &Store,
    filter: &LetterFilter,
    below: Option<u64>,
    limit: usize,
) -> Result<Found, BrokerError> {
    let subject = store.entries(filter);
    let search = Search::page(&subject, below).between(filter.since(), filter.until());
    let mut backwards = Backwards::begin(store.register(), &search).await?;
    let (mut found, mut bytes, mut place) = (Found::default(), 0, None);
    while let Some(entries) = backwards.next().await? {
        let mut letters = std::pin::pin!(letters_of(store, filter, entries));
        while let Some((entry, letter)) = letters.try_next().await? {
            match letter {
                None => found.void.extend(void(&entry)),
                Some(letter) if matches_state(filter, &letter.value) => {
                    if found.letters.len() == limit {
                        (found.next, found.complete) = (place, true);
                        return Ok(found);
                    }
                    bytes += letter.value.payload.len();
                    found.letters.push(letter.value);
                }
                Some(_) => {}
            }
            place = Some(entry.sequence);
            if bytes > MAX_BYTES || backwards.is_spent() {
                found.next = place;
                found.complete = found.letters.len() == limit;
                return Ok(found);
            }
        }
    }
    found.next = backwards.rest();
    found.complete = found.next.is_none() || found.letters.len() == limit;
    Ok(found)
}

/// How many letters match.
///
/// # Errors
/// When the broker fails.
pub(crate) async fn count(store: &Store, filter: &LetterFilter) -> Result<Counted, BrokerError> {
    let subject = store.entries(filter);
    if filter.is_counted() {
        let count = store.register().how_many(&subject).await?;
        return Ok(Counted {
            count,
            complete: true,
        });
    }
    let search = Search {
        budget: Budget::COUNT,
        ..Search::page(&subject, None).between(filter.since(), filter.until())
    };
    let mut backwards = Backwards::begin(store.register(), &search).await?;
    let mut count = 0;
    while let Some(entries) = backwards.next().await? {
        count += match filter.state() {
            None => entries
                .iter()
                .filter(|e| filter.matches_entry(&e.value))
                .count() as u64,
            Some(_) => count_letters(store, filter, entries).await?,
        };
    }
    Ok(Counted {
        count,
        complete: backwards.rest().is_none(),
    })
}

async fn count_letters(
    store: &Store,
    filter: &LetterFilter,
    entries: Vec<Logged<LetterEntry>>,
) -> Result<u64, BrokerError> {
    let letters = letters_of(store, filter, entries).try_filter(|(_, letter)| {
        let takes = (letter.as_ref()).is_some_and(|found| matches_state(filter, &found.value));
        std::future::ready(takes)
    });
    letters
        .try_fold(0, |count, _| std::future::ready(Ok(count + 1)))
        .await
}

fn matches_state(filter: &LetterFilter, letter: &DeadLetter) -> bool {
    filter.state().is_none_or(|want| want == letter.state)
}

type OfEntry = (Logged<LetterEntry>, Option<Logged<DeadLetter>>);

/// The letters of the entries that match, in their order; `None` for an entry that is none's.
pub(super) fn letters_of<'a>(
    store: &'a Store,
    filter: &'a LetterFilter,
    entries: Vec<Logged<LetterEntry>>,
) -> impl Stream<Item = Result<OfEntry, BrokerError>> + Send + 'a {
    let matching = entries
        .into_iter()
        .filter(|entry| filter.matches_entry(&entry.value));
    futures_util::stream::iter(matching)
        .map(move |entry| async move {
            let letter = store.letter_of(&entry).await?;
            Ok((entry, letter))
        })
        .buffered(CONCURRENCY)
}

fn void(entry: &Logged<LetterEntry>) -> Option<u64> {
    let now: UnixMillis = posthorn_wiring::now();
    (now.since(entry.stored_at) > SETTLED).then_some(entry.sequence)
}
