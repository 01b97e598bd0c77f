//! What the archive holds for an endpoint, less what it has got or is about to get.
//!
//! Archive and log of attempts are walked side by side, so that of an endpoint that got nearly
//! everything only the rest is remembered. That rest is a stretch: so many events at most, and
//! when all of them have had their turn the next one begins. However long the log is, a stretch
//! reads it once, from its first event on.

use super::waiting::Waiting;
use crate::store::Store;
use posthorn_broker::{Archived, BrokerError, Start};
use posthorn_delivery::recover::{Fate, Known, Standing, fate, recovery_generation};
use posthorn_delivery::{Attempt, Endpoint, Event, EventId, Recovery, ReplayJob, UnixMillis};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Events that are remembered at a time.
const MOST: usize = 50_000;
/// Events of one read.
const EVENTS: usize = 500;
/// Records of one read, and reads before somebody else has a turn.
const RECORDS: usize = 1_000;
const READS: usize = 8;
/// So far apart may be the clocks of those who stored an event and a record.
const CLOCKS_DIFFER: Duration = Duration::from_secs(10);
/// So far apart may be the clocks of who accepted an event and of the broker.
const ACCEPTED: Duration = Duration::from_secs(60);

/// An event that the endpoint may be owed.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it lies in the archive.
    pub sequence: u64,
    /// Its id.
    pub event: EventId,
    /// The generation that the recovery gives it.
    pub generation: u64,
    event_seq: u64,
    is_of_former_stream: bool,
    deliver_at: Option<UnixMillis>,
    standing: Standing,
}

/// Events whose turn has come.
#[derive(Debug, Default)]
pub struct Turn {
    /// Those that are owed, as far as log and lanes know.
    pub owed: Vec<Candidate>,
    /// How many this recovery has sent before: the end of a batch that was cut off.
    pub sent: u64,
    /// How many have been delivered.
    pub delivered: u64,
    /// How many are under way.
    pub under_way: u64,
    /// Everything up to this place in the archive has had its turn.
    pub cursor: u64,
    /// Whether that is all there is.
    pub is_last: bool,
}

/// The walk of one job.
#[derive(Debug)]
pub struct Survey {
    job: String,
    recovery: Recovery,
    upper: u64,
    waiting: Waiting,
    stretch: Stretch,
}

#[derive(Debug, Default)]
struct Stretch {
    /// The archive has been read up to here.
    read_to: u64,
    /// Nothing more of the archive belongs to it.
    is_closed: bool,
    candidates: BTreeMap<u64, Candidate>,
    places: HashMap<EventId, u64>,
    /// When the last event read was stored.
    last_stored: UnixMillis,
    /// Where the log of attempts is read on.
    records: Option<Start>,
    /// Found to be delivered before their turn.
    delivered: u64,
}

impl Survey {
    /// The walk of `job` from its cursor on, and of a job that was not counted from the
    /// beginning; `None` where it recovers nothing.
    #[must_use]
    pub fn of(job: &ReplayJob) -> Option<Survey> {
        Some(Survey {
            job: job.id.clone(),
            recovery: job.recovery.clone()?,
            upper: job.upper,
            waiting: Waiting::default(),
            stretch: Stretch::after(job.cursor),
        })
    }

    /// From the beginning again. What was seen waiting stays left to the line.
    pub fn rewind(&mut self) {
        self.stretch = Stretch::default();
    }

    /// Looks at some more of it. `true` when the next events can have their turn: what was found
    /// of them is then as new as the look.
    ///
    /// # Errors
    /// When the broker does not answer; it may be called again.
    pub async fn look(&mut self, store: &Store, endpoint: &Endpoint) -> Result<bool, BrokerError> {
        if !self.stretch.is_closed {
            self.read_archive(store, endpoint).await?;
            let safe = earlier(self.stretch.last_stored, CLOCKS_DIFFER);
            self.read_records(store, endpoint, safe).await?;
            return Ok(false);
        }
        let waits = &mut self.waiting;
        Ok(waits.catch_up(store, &endpoint.id, &self.job).await?
            && self
                .read_records(store, endpoint, UnixMillis(i64::MAX))
                .await?)
    }

    /// Gives the next events their turn, of which at most `most` are owed.
    #[must_use]
    pub fn turn(&mut self, most: usize, endpoint: &Endpoint, now: UnixMillis) -> Turn {
        let mut turn = Turn {
            delivered: std::mem::take(&mut self.stretch.delivered),
            ..Turn::default()
        };
        while turn.owed.len() < most {
            let Some((sequence, candidate)) = self.stretch.candidates.pop_first() else {
                break;
            };
            turn.cursor = sequence;
            let known = self.known(&candidate);
            match fate(&known, endpoint, self.recovery.include_delivered, now) {
                Fate::Send => turn.owed.push(candidate),
                Fate::Sent => turn.sent += 1,
                Fate::Delivered => turn.delivered += 1,
                Fate::UnderWay => turn.under_way += 1,
            }
        }
        if self.stretch.candidates.is_empty() && self.stretch.is_closed {
            turn.cursor = self.stretch.read_to;
            turn.is_last = self.stretch.read_to >= self.upper;
            self.stretch = Stretch::after(self.stretch.read_to);
        }
        turn
    }

    fn known(&self, candidate: &Candidate) -> Known {
        let is_fanned_out = self.waiting.is_fanned_out(candidate.event_seq);
        Known {
            standing: candidate.standing,
            waiting: self.waiting.generation_of(&candidate.event),
            before_fan_out: !is_fanned_out && !candidate.is_of_former_stream,
            deliver_at: candidate.deliver_at,
            generation: candidate.generation,
        }
    }

    async fn read_archive(
        &mut self,
        store: &Store,
        endpoint: &Endpoint,
    ) -> Result<(), BrokerError> {
        let from = match self.stretch.read_to {
            0 => Start::Time(earlier(self.recovery.since, ACCEPTED)),
            read_to => Start::Sequence(read_to + 1),
        };
        let archive = store.broker().archive();
        let filter = self.filter(store, endpoint);
        let page = archive.read(&filter, from, EVENTS).await?;
        let mut is_over = page.is_last || page.up_to >= self.upper;
        for found in page.items {
            let until = self.recovery.until;
            is_over |= until.is_some_and(|until| found.stored_at > until + ACCEPTED);
            self.stretch.last_stored = found.stored_at;
            if self.takes(endpoint, &found) {
                self.stretch.begin_records(found.stored_at);
                let candidate = self.candidate(endpoint, found);
                self.stretch.add(candidate);
            }
        }
        self.stretch.read_to = if is_over { self.upper } else { page.up_to };
        self.stretch.is_closed = is_over || self.stretch.candidates.len() >= MOST;
        Ok(())
    }

    /// The narrowest subject that holds all that the endpoint subscribed to.
    fn filter(&self, store: &Store, endpoint: &Endpoint) -> String {
        let pattern = match endpoint.event_types.as_slice() {
            [only] => only.as_str(),
            _ => ">",
        };
        store.broker().names().archived(&endpoint.tenant, pattern)
    }

    fn takes(&self, endpoint: &Endpoint, found: &Archived) -> bool {
        let event = &found.event;
        let until = self.recovery.until;
        found.sequence <= self.upper
            && event.accepted_at >= self.recovery.since
            && until.is_none_or(|until| event.accepted_at < until)
            && is_for(event, endpoint)
    }

    fn candidate(&self, endpoint: &Endpoint, found: Archived) -> Candidate {
        let Archived { event, .. } = found;
        let generation = recovery_generation(&self.job, &endpoint.tenant, &event.id, &endpoint.id);
        Candidate {
            sequence: found.sequence,
            generation,
            event_seq: found.event_seq,
            is_of_former_stream: found.is_of_former_stream,
            deliver_at: event.deliver_at,
            standing: Standing::default(),
            event: event.id,
        }
    }

    /// Reads the log of attempts on, up to what was stored at `bound`. Returns whether it came
    /// there.
    async fn read_records(
        &mut self,
        store: &Store,
        endpoint: &Endpoint,
        bound: UnixMillis,
    ) -> Result<bool, BrokerError> {
        let names = store.broker().names();
        let subject = names.attempts_of_endpoint(endpoint.tenant.as_str(), endpoint.id.as_str());
        for _ in 0..READS {
            let Some(from) = self.stretch.records else {
                return Ok(true);
            };
            if self.stretch.candidates.is_empty() {
                return Ok(true);
            }
            let page = match from {
                Start::Time(at) => store.attempts().read_since(&subject, at, RECORDS).await?,
                Start::Sequence(at) => store.attempts().read(&subject, at, RECORDS).await?,
            };
            let is_last = page.pending == 0 || page.items.is_empty();
            for record in page.items {
                if record.stored_at > bound {
                    return Ok(true);
                }
                self.stretch.records = Some(Start::Sequence(record.sequence + 1));
                let again = self.recovery.include_delivered;
                self.stretch.note(&record.value, again);
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Stretch {
    fn after(read_to: u64) -> Stretch {
        Stretch {
            read_to,
            ..Stretch::default()
        }
    }

    /// The first record of what comes next is no earlier than this.
    fn begin_records(&mut self, stored_at: UnixMillis) {
        let from = Start::Time(earlier(stored_at, CLOCKS_DIFFER));
        self.records.get_or_insert(from);
    }

    /// An event that lies in the archive twice counts once.
    fn add(&mut self, candidate: Candidate) {
        let place = *self
            .places
            .entry(candidate.event.clone())
            .or_insert(candidate.sequence);
        if place == candidate.sequence {
            self.candidates.insert(place, candidate);
        }
    }

    fn note(&mut self, record: &Attempt, include_delivered: bool) {
        let Some(place) = self.places.get(&record.event_id) else {
            return;
        };
        let Some(candidate) = self.candidates.get_mut(place) else {
            return;
        };
        candidate.standing = candidate.standing.after(record, candidate.generation);
        if candidate.standing.is_delivered_by_others() && !include_delivered {
            self.candidates.remove(place);
            self.delivered += 1;
        }
    }
}

/// A test send was for nobody's records, and is not missed.
fn is_for(event: &Event, endpoint: &Endpoint) -> bool {
    event.only_endpoint.is_none() && endpoint.wants(&event.event_type)
}

fn earlier(at: UnixMillis, by: Duration) -> UnixMillis {
    UnixMillis(at.0.saturating_sub(millis(by)))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
