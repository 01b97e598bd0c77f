//! The register beside the letters: where the entries of a filter are, whose letter an entry is
//! of, and both at once when one is thrown away.

use crate::filter::LetterFilter;
use crate::scan::EVERYTHING;
use crate::store::Store;
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{DeadLetter, LetterEntry};

/// A filter that means one letter in so many, or more, is wide.
const WIDE: u64 = 8;

impl Store {
    /// The subject that holds every entry of a filter.
    #[must_use]
    pub fn entries(&self, filter: &LetterFilter) -> String {
        match filter.entry_tokens() {
            ("*", "*", "*") => EVERYTHING.to_owned(),
            (tenant, endpoint, reason) => self.broker().names().entries(tenant, endpoint, reason),
        }
    }

    /// The letter that an entry of the register is of, as it is now; `None` where it is none's.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn letter_of(
        &self,
        entry: &Logged<LetterEntry>,
    ) -> Result<Option<Logged<DeadLetter>>, BrokerError> {
        let LetterEntry {
            tenant,
            endpoint_id,
            letter,
            ..
        } = &entry.value;
        let names = self.broker().names();
        let subject = names.letter(tenant, endpoint_id.as_ref(), letter);
        let found = match self.letters().last(&subject).await {
            // It must not hide all the others.
            Err(BrokerError::Undecodable(error)) => {
                tracing::error!(%letter, %error, "a letter cannot be read");
                None
            }
            other => other?,
        };
        Ok(found.filter(|found| entry.value.is_of(entry.sequence, &found.value)))
    }

    /// Throws away the letter at this position, and its entry. One that has changed meanwhile is
    /// another message, and stays with its entry.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn remove_letter(&self, letter: &Logged<DeadLetter>) -> Result<(), BrokerError> {
        if self.letters().remove(letter.sequence).await? {
            self.broker().strike(letter.value.entry).await?;
        }
        Ok(())
    }

    /// Whether a filter's subject holds so many of the letters that it is better to read all of
    /// them. There is a subject for each letter, and with every request by a subject the server
    /// counts those that match.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn is_wide(&self, filter: &LetterFilter) -> Result<bool, BrokerError> {
        let meant = self.entries(filter);
        let (meant, all) = tokio::try_join!(
            self.register().how_many(&meant),
            self.register().how_many(EVERYTHING),
        )?;
        Ok(meant.saturating_mul(WIDE) >= all)
    }
}
