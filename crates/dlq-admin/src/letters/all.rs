//! Every dead letter that matches, for purges and counts.
//!
//! A filter that means few letters is served by the register: its small entries are read, and
//! then the letters that match. One that means a good part of them is served by reading all,
//! many in one request. Both ways see the same letters.

use super::search::letters_of;
use crate::filter::LetterFilter;
use crate::jobs::step::{Listed, Listing, Reach};
use crate::scan::{EVERYTHING, Upwards, slack};
use crate::store::Store;
use crate::walk::BATCH;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{DeadLetter, LetterEntry, ReplayJob, UnixMillis};

/// Letters of a filter from a place in the register on.
///
/// # Errors
/// When the broker fails.
pub(crate) async fn listing(
    store: &Store,
    filter: &LetterFilter,
    from: u64,
    reach: Reach,
) -> Result<Listing, BrokerError> {
    let subject = store.entries(filter);
    let page = store.register().read(&subject, from, reach.places).await?;
    // So many that cannot be read would look like the end.
    let blind = from.saturating_add(reach.places as u64 - 1);
    let last = page.items.last().map_or(blind, |entry| entry.sequence);
    let mut looked_to = (page.pending > 0).then_some(last);
    let (mut meant, mut looked_at) = (Vec::new(), 0);
    for entry in page.items {
        if meant.len() == reach.letters {
            looked_to = Some(entry.sequence.saturating_sub(1));
            break;
        }
        looked_at += 1;
        if filter.matches_entry(&entry.value) {
            meant.push(entry);
        }
    }
    let letters = letters_of(store, filter, meant).filter_map(|found| {
        let listed = found.map(|(entry, letter)| {
            letter.map(|letter| Listed {
                place: entry.sequence,
                letter,
            })
        });
        std::future::ready(listed.transpose())
    });
    Ok(Listing {
        letters: letters.try_collect().await?,
        looked_to,
        looked_at,
    })
}

/// How many letters carry the id of a job. They were all written after it was asked for.
///
/// # Errors
/// When the broker fails.
pub(crate) async fn count_marked(store: &Store, job: &ReplayJob) -> Result<u64, BrokerError> {
    let asked_at = UnixMillis(job.created_at.0.saturating_sub(slack()));
    let from = store.letters().first_since(EVERYTHING, asked_at).await?;
    let mut upwards = Upwards::from(store.letters(), EVERYTHING, from).await?;
    let mut marked = 0;
    while let Some(batch) = upwards.batch().await? {
        let ours = batch
            .iter()
            .filter(|letter| letter.value.replay_id == job.id);
        marked += ours.count() as u64;
    }
    Ok(marked)
}

/// Letters in batches, oldest first.
pub(crate) struct All<'a> {
    store: &'a Store,
    filter: &'a LetterFilter,
    way: Way<'a>,
    /// The last place in the register at the beginning.
    upper: u64,
}

enum Way<'a> {
    Letters(Upwards<'a, DeadLetter>),
    Entries(Upwards<'a, LetterEntry>),
}

impl<'a> All<'a> {
    /// Of those that are there now.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn begin(store: &'a Store, filter: &'a LetterFilter) -> Result<All<'a>, BrokerError> {
        let (_, upper) = store.register().bounds().await?;
        let way = match store.is_wide(filter).await? {
            true => Way::Letters(Upwards::all(store.letters(), EVERYTHING).await?),
            false => {
                let entries = Upwards::all(store.register(), &store.entries(filter)).await?;
                Way::Entries(entries.by(BATCH))
            }
        };
        Ok(All {
            store,
            filter,
            way,
            upper,
        })
    }

    /// The last place in the register of a letter that may be among them.
    pub fn upper(&self) -> u64 {
        self.upper
    }

    /// The next letters that match, possibly none; `None` at the end.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn batch(&mut self) -> Result<Option<Vec<Logged<DeadLetter>>>, BrokerError> {
        let letters = match &mut self.way {
            Way::Letters(upwards) => upwards.batch().await?,
            Way::Entries(upwards) => match upwards.batch().await? {
                Some(entries) => Some(self.of(entries).await?),
                None => None,
            },
        };
        let (filter, upper) = (self.filter, self.upper);
        let is_meant = |letter: &Logged<DeadLetter>| {
            letter.value.entry <= upper && filter.matches(&letter.value)
        };
        Ok(letters.map(|letters| letters.into_iter().filter(is_meant).collect()))
    }

    async fn of(
        &self,
        entries: Vec<Logged<LetterEntry>>,
    ) -> Result<Vec<Logged<DeadLetter>>, BrokerError> {
        letters_of(self.store, self.filter, entries)
            .filter_map(|found| std::future::ready(found.map(|(_, letter)| letter).transpose()))
            .try_collect()
            .await
    }
}
