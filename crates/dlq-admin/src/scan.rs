//! Reading the logs: newest first for people, oldest first for jobs and counts.
//!
//! Every search is bounded in what it looks at and in time. One that meets its bound before its
//! page is full says so and where to go on, which is honest about a filter that the subjects of a
//! stream do not serve, and better than a request that never ends.

mod upwards;

use crate::walk::Walk;
use posthorn_broker::{BrokerError, LogReader, Logged, Wire};
use posthorn_delivery::UnixMillis;
use std::time::Duration;
use tokio::time::Instant;

pub use upwards::Upwards;

/// How much earlier than it happened a thing may be stored, by clocks that differ, before it is
/// missed at the beginning of the time asked for.
pub const CLOCK_SLACK: Duration = Duration::from_secs(60);
/// How much later than it happened a thing may be stored before it is missed at the end of the
/// time asked for. Everything stored in between is looked at first, so it is short.
pub const STORED_AFTER: Duration = Duration::from_secs(2);

/// Everything in a stream. The server counts and finds that at once, while it goes through every
/// subject for a filter that only comes to the same.
pub const EVERYTHING: &str = ">";

/// How much a search may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    messages: usize,
    time: Duration,
}

impl Budget {
    /// Of a page.
    pub const PAGE: Budget = Budget::new(50_000, Duration::from_secs(2));
    /// Of a count.
    pub const COUNT: Budget = Budget::new(2_000_000, Duration::from_secs(8));

    /// To look at about so many messages, or for so long.
    #[must_use]
    pub const fn new(messages: usize, time: Duration) -> Budget {
        Budget { messages, time }
    }

    /// The most messages that are looked at.
    #[must_use]
    pub fn messages(self) -> usize {
        self.messages
    }

    /// The longest time.
    #[must_use]
    pub fn time(self) -> Duration {
        self.time
    }
}

/// What to look for in a log.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The subjects that hold all of it.
    pub subject: &'a str,
    /// Below this sequence; `None` from the newest on.
    pub below: Option<u64>,
    /// Nothing that was stored more than [`CLOCK_SLACK`] before.
    pub since: Option<UnixMillis>,
    /// Nothing that was stored more than [`STORED_AFTER`] after.
    pub until: Option<UnixMillis>,
    /// How much it may cost.
    pub budget: Budget,
}

impl<'a> Search<'a> {
    /// For a page of what is on `subject`, below a sequence.
    #[must_use]
    pub fn page(subject: &'a str, below: Option<u64>) -> Search<'a> {
        Search {
            subject,
            below,
            since: None,
            until: None,
            budget: Budget::PAGE,
        }
    }

    /// The same, between two times.
    #[must_use]
    pub fn between(self, since: Option<UnixMillis>, until: Option<UnixMillis>) -> Search<'a> {
        Search {
            since,
            until,
            ..self
        }
    }

    async fn walk<T: Wire>(&self, log: &LogReader<T>) -> Result<Walk, BrokerError> {
        let (first, last) = log.bounds().await?;
        let end = last.saturating_add(1);
        let mut below = self.below.map_or(end, |below| below.min(end));
        let mut first = first;
        // Of all subjects: the server knows where a time begins in the stream, and would have to
        // look for it on one.
        if let Some(since) = self.since {
            let from = UnixMillis(since.0.saturating_sub(slack()));
            first = first.max(log.first_since(EVERYTHING, from).await?.unwrap_or(end));
        }
        if let Some(until) = self.until {
            let to = until + STORED_AFTER;
            below = below.min(log.first_since(EVERYTHING, to).await?.unwrap_or(end));
        }
        Ok(Walk::new(first, below))
    }
}

/// [`CLOCK_SLACK`] in milliseconds.
pub(crate) fn slack() -> i64 {
    i64::try_from(CLOCK_SLACK.as_millis()).unwrap_or(i64::MAX)
}

/// A log backwards, window by window, until its budget is spent.
pub struct Backwards<'a, T> {
    log: &'a LogReader<T>,
    subject: String,
    walk: Walk,
    left: usize,
    until: Instant,
}

impl<'a, T: Wire> Backwards<'a, T> {
    /// Begins a search.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn begin(
        log: &'a LogReader<T>,
        search: &Search<'_>,
    ) -> Result<Backwards<'a, T>, BrokerError> {
        Ok(Backwards {
            walk: search.walk(log).await?,
            log,
            subject: search.subject.to_owned(),
            left: search.budget.messages,
            until: Instant::now() + search.budget.time,
        })
    }

    /// The next messages, newest first and never none at all; `None` at the end, or when the
    /// budget is spent.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn next(&mut self) -> Result<Option<Vec<Logged<T>>>, BrokerError> {
        while let Some(window) = self.walk.window() {
            if self.is_spent() {
                return Ok(None);
            }
            let (from, most) = (*window.start(), self.walk.most());
            let answer = self.log.read(&self.subject, from, most).await?;
            self.left = self.left.saturating_sub(answer.items.len());
            let more = answer.pending > 0;
            let found = (self.walk).answered(answer.items, more, |message| message.sequence);
            let Some(messages) = found else {
                continue;
            };
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
            if self.walk.wants_leap() {
                let next = self.log.newest_below(&self.subject, self.walk.below());
                self.walk.leap(next.await?);
            }
        }
        Ok(None)
    }

    /// Whether as much was looked at, or for as long, as it may.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left == 0 || Instant::now() >= self.until
    }

    /// Where another search goes on; `None` at the end.
    #[must_use]
    pub fn rest(&self) -> Option<u64> {
        self.walk.window().map(|_| self.walk.below())
    }
}

/// A page, newest first.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The messages.
    pub items: Vec<Logged<T>>,
    /// The next page begins below this sequence; `None` when this is the last.
    pub next: Option<u64>,
    /// Whether it was searched to its end. Otherwise the budget was spent before the page was
    /// full, and what is missing from it is below `next`.
    pub complete: bool,
}

/// The newest messages of a search, at most `limit` of those that `takes` says yes to.
///
/// # Errors
/// When the broker fails.
pub async fn newest<T: Wire>(
    log: &LogReader<T>,
    search: &Search<'_>,
    limit: usize,
    takes: impl Fn(&Logged<T>) -> bool,
) -> Result<Page<T>, BrokerError> {
    let mut backwards = Backwards::begin(log, search).await?;
    let mut page = Page {
        items: Vec::new(),
        next: None,
        complete: true,
    };
    while let Some(messages) = backwards.next().await? {
        if fill(&mut page, messages, limit, &takes) {
            return Ok(page);
        }
    }
    page.next = backwards.rest();
    page.complete = page.next.is_none() || page.items.len() == limit;
    Ok(page)
}

/// Whether the page is full. One message beyond the limit tells that there is another.
fn fill<T>(
    page: &mut Page<T>,
    messages: Vec<Logged<T>>,
    limit: usize,
    takes: &impl Fn(&Logged<T>) -> bool,
) -> bool {
    for message in messages.into_iter().filter(|message| takes(message)) {
        if page.items.len() == limit {
            page.next = page.items.last().map(|last| last.sequence);
            return true;
        }
        page.items.push(message);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

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
            complete: true,
        }
    }

    #[test]
    fn a_full_page_has_a_successor_only_when_something_is_left() {
        let all = |_: &Logged<()>| true;
        let mut page = empty();
        assert!(!fill(&mut page, messages(&[9, 7]), 2, &all));
        assert_eq!(page.next, None);
        assert!(fill(&mut page, messages(&[4]), 2, &all));
        assert_eq!(page.next, Some(7));
        assert_eq!(page.items.len(), 2);
    }

    #[test]
    fn what_is_passed_takes_no_room() {
        let even = |message: &Logged<()>| message.sequence.is_multiple_of(2);
        let mut page = empty();
        assert!(!fill(&mut page, messages(&[9, 8, 7, 6, 3]), 2, &even));
        let found: Vec<u64> = page.items.iter().map(|message| message.sequence).collect();
        assert_eq!((found, page.next), (vec![8, 6], None));
    }
}
