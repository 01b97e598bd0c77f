//! A log from the oldest on, in batches that are bounded in messages and bytes.

use posthorn_broker::{BrokerError, LogReader, Logged, Start, Wire};

/// Messages of one request, and the bytes of their payload.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 16 << 20;

/// The messages of a subject from the oldest up to a sequence, in batches.
pub struct Upwards<'a, T> {
    log: &'a LogReader<T>,
    subject: String,
    next: u64,
    upper: u64,
    most: usize,
}

impl<'a, T: Wire> Upwards<'a, T> {
    /// All messages of `subject` that are there now.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn all(log: &'a LogReader<T>, subject: &str) -> Result<Upwards<'a, T>, BrokerError> {
        Upwards::from(log, subject, Some(1)).await
    }

    /// Those from a sequence on; of `None`, none.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn from(
        log: &'a LogReader<T>,
        subject: &str,
        from: Option<u64>,
    ) -> Result<Upwards<'a, T>, BrokerError> {
        let (first, last) = log.bounds().await?;
        Ok(Upwards {
            log,
            subject: subject.to_owned(),
            next: from.map_or(last.saturating_add(1), |from| from.max(first).max(1)),
            upper: last,
            most: MOST,
        })
    }

    /// In batches of at most so many.
    #[must_use]
    pub fn by(self, most: usize) -> Upwards<'a, T> {
        Upwards { most, ..self }
    }

    /// The last sequence that belongs to it.
    #[must_use]
    pub fn upper(&self) -> u64 {
        self.upper
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn batch(&mut self) -> Result<Option<Vec<Logged<T>>>, BrokerError> {
        if self.next > self.upper {
            return Ok(None);
        }
        let from = Start::Sequence(self.next);
        let reading = (self.log).read_within(&self.subject, from, self.most, Some(MOST_BYTES));
        let mut page = reading.await?;
        self.next = match page.items.last() {
            _ if page.pending == 0 => self.upper.saturating_add(1),
            Some(last) => last.sequence.saturating_add(1),
            // There are more, and those that came cannot be read.
            None => self.next.saturating_add(1),
        };
        page.items.retain(|message| message.sequence <= self.upper);
        Ok(Some(page.items))
    }
}
