//! Every dead letter that matches, for purges and counts.
//!
//! A filter that means few letters is served by the register: its small entries are read, and
//! then the letters that match. One that means a good part of them is served by reading all,
//! many in one request. Both ways see the same letters.

use super::search::letters_of;
use crate::filter::LetterFilter;
use crate::scan::Upwards;
use crate::store::Store;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{DeadLetter, LetterEntry};

/// Letters in batches, oldest first.
pub(crate) struct All<'a> {
    store: &'a Store,
    filter: &'a LetterFilter,
    way: Way<'a>,
    /// The last letter that was there at the beginning.
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
        let (_, upper) = store.letters().bounds().await?;
        let way = match store.is_wide(filter).await? {
            true => Way::Letters(Upwards::all(store.letters(), ">").await?),
            false => Way::Entries(Upwards::all(store.register(), &store.entries(filter)).await?),
        };
        Ok(All {
            store,
            filter,
            way,
            upper,
        })
    }

    /// The last sequence of a letter that may be among them.
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
        let is_meant =
            |letter: &Logged<DeadLetter>| letter.sequence <= upper && filter.matches(&letter.value);
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
