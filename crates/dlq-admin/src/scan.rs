//! Reading the logs: newest first for people, oldest first for jobs and counts.

use crate::walk::{BATCH, Walk};
use posthorn_broker::{BrokerError, LogReader, Logged, Wire};

/// The most messages that one page looks at. A filter that matches next to nothing is
/// answered with what was found so far and a cursor, and not with a request that never ends.
pub const MAX_LOOKED_AT: usize = 50_000;

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It belongs to the page.
    Take,
    /// It does not.
    Pass,
    /// It does not, and nothing older does.
    Stop,
}

/// A page, newest first.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The messages.
    pub items: Vec<Logged<T>>,
    /// The next page begins below this sequence; `None` when this is the last.
    pub next: Option<u64>,
}

/// The newest messages of a subject below a sequence, at most `limit` of those that `look`
/// takes. A page may be short, or empty, and have a successor: see [`MAX_LOOKED_AT`].
///
/// # Errors
/// When the broker fails.
pub async fn newest<T: Wire>(
    log: &LogReader<T>,
    subject: &str,
    below: Option<u64>,
    limit: usize,
    look: impl Fn(&Logged<T>) -> Look,
) -> Result<Page<T>, BrokerError> {
    let (first, last) = log.bounds().await?;
    let end = last.saturating_add(1);
    let mut walk = Walk::new(first, below.map_or(end, |below| below.min(end)));
    let mut page = Page {
        items: Vec::new(),
        next: None,
    };
    let mut looked_at = 0;
    while let Some(window) = walk.window() {
        let answer = log.read(subject, *window.start(), BATCH).await?;
        looked_at += answer.items.len();
        let messages = walk.answered(answer.items, |message| message.sequence);
        if fill(&mut page, messages.unwrap_or_default(), limit, &look) {
            return Ok(page);
        }
        if looked_at >= MAX_LOOKED_AT {
            page.next = walk.window().map(|_| walk.below());
            return Ok(page);
        }
    }
    Ok(page)
}

/// Whether the page is complete. One message beyond the limit tells that there is another.
fn fill<T>(
    page: &mut Page<T>,
    messages: Vec<Logged<T>>,
    limit: usize,
    look: &impl Fn(&Logged<T>) -> Look,
) -> bool {
    for message in messages {
        match look(&message) {
            Look::Pass => {}
            Look::Stop => return true,
            Look::Take if page.items.len() == limit => {
                page.next = page.items.last().map(|last| last.sequence);
                return true;
            }
            Look::Take => page.items.push(message),
        }
    }
    false
}

/// The messages of a subject from the oldest up to a sequence, in batches.
pub struct Upwards<'a, T> {
    log: &'a LogReader<T>,
    subject: String,
    next: u64,
    upper: u64,
}

impl<'a, T: Wire> Upwards<'a, T> {
    /// All messages of `subject` that are there now.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn all(log: &'a LogReader<T>, subject: &str) -> Result<Upwards<'a, T>, BrokerError> {
        let (first, last) = log.bounds().await?;
        Ok(Upwards {
            log,
            subject: subject.to_owned(),
            next: first.max(1),
            upper: last,
        })
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
        let mut page = self.log.read(&self.subject, self.next, BATCH).await?;
        self.next = match page.items.last() {
            Some(last) if page.pending > 0 => last.sequence.saturating_add(1),
            _ => self.upper.saturating_add(1),
        };
        page.items.retain(|message| message.sequence <= self.upper);
        Ok(Some(page.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::UnixMillis;

    fn messages(sequences: &[u64]) -> Vec<Logged<()>> {
        let message = |sequence: &u64| Logged {
            sequence: *sequence,
            subject: String::new(),
            stored_at: UnixMillis(0),
            value: (),
        };
        sequences.iter().map(message).collect()
    }

    fn empty() -> Page<()> {
        Page {
            items: Vec::new(),
            next: None,
        }
    }

    #[test]
    fn a_full_page_has_a_successor_only_when_something_is_left() {
        let take = |_: &Logged<()>| Look::Take;
        let mut page = empty();
        assert!(!fill(&mut page, messages(&[9, 7]), 2, &take));
        assert_eq!(page.next, None);
        assert!(fill(&mut page, messages(&[4]), 2, &take));
        assert_eq!(page.next, Some(7));
        assert_eq!(page.items.len(), 2);
    }

    #[test]
    fn what_is_passed_takes_no_room_and_a_stop_ends_the_list() {
        let look = |message: &Logged<()>| match message.sequence {
            3 => Look::Stop,
            even if even % 2 == 0 => Look::Take,
            _ => Look::Pass,
        };
        let mut page = empty();
        assert!(fill(&mut page, messages(&[9, 8, 7, 6, 3, 2]), 2, &look));
        let found: Vec<u64> = page.items.iter().map(|message| message.sequence).collect();
        assert_eq!((found, page.next), (vec![8, 6], None));
    }
}
