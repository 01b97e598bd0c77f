//! What waits for an endpoint, wherever it waits.
//!
//! A delivery that was not attempted yet is in no log: only the place where it lies says that it
//! is there. The places are read in the order in which a delivery passes them, the lanes once
//! more at the end, because a dispatcher may put a delivery back. What was seen once is left to
//! the line for as long as the job works, so each place is read on from where it was left.

use crate::store::Store;
use posthorn_broker::codec::Parked;
use posthorn_broker::{BrokerError, LaneStore, LogPage, StreamName};
use posthorn_delivery::{Delivery, EndpointId, Event, EventId, LaneId};
use std::collections::HashMap;

/// Reads of one place before somebody else has a turn: the lease is to be renewed.
const READS: usize = 4;
/// Deliveries of one read.
const PAGE: usize = 1_000;

/// The deliveries seen so far.
#[derive(Debug, Default)]
pub struct Waiting {
    seen: HashMap<u128, u64>,
    live: u64,
    replay: u64,
    on_their_way: u64,
    fanned_out: u64,
    is_complete: bool,
}

impl Waiting {
    /// Reads on, a bounded part of it. Returns whether everything has been seen that waits now,
    /// less what the job `own` has put there since it was.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn catch_up(
        &mut self,
        store: &Store,
        endpoint: &EndpointId,
        own: &str,
    ) -> Result<bool, BrokerError> {
        let places = store.lanes().store();
        // An event leaves EVENTS when all that it owes has been stored.
        let events = store.broker().log::<Event>(StreamName::Events).await?;
        self.fanned_out = events.bounds().await?.0.saturating_sub(1);
        let all = self.lanes(places, endpoint, own).await?
            && self.dispatchers(places, endpoint, own).await?
            && self.lanes(places, endpoint, own).await?;
        self.is_complete |= all;
        Ok(all)
    }

    /// The generation of the delivery of an event that was seen; 0 in its first life.
    #[must_use]
    pub fn generation_of(&self, event: &EventId) -> Option<u64> {
        self.seen.get(&event.bits()).copied()
    }

    /// Whether an event of this sequence in EVENTS had been fanned out at the last look.
    #[must_use]
    pub fn is_fanned_out(&self, event_seq: u64) -> bool {
        event_seq <= self.fanned_out
    }

    async fn lanes(
        &mut self,
        places: &LaneStore,
        endpoint: &EndpointId,
        own: &str,
    ) -> Result<bool, BrokerError> {
        for (lane, is_live) in [
            (LaneId::live(endpoint), true),
            (LaneId::replay(endpoint), false),
        ] {
            let mut ended = false;
            for _ in 0..READS {
                let from = if is_live { self.live } else { self.replay } + 1;
                let page = places.read(&lane, from, PAGE).await?;
                let last = self.note_parked(&page, own);
                let place = if is_live {
                    &mut self.live
                } else {
                    &mut self.replay
                };
                *place = last.unwrap_or(*place);
                ended = page.pending == 0 || last.is_none();
                if ended {
                    break;
                }
            }
            if !ended {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn dispatchers(
        &mut self,
        places: &LaneStore,
        endpoint: &EndpointId,
        own: &str,
    ) -> Result<bool, BrokerError> {
        for _ in 0..READS {
            let from = self.on_their_way + 1;
            let page = places.read_on_their_way(endpoint, from, PAGE).await?;
            let last = self.note_parked(&page, own);
            self.on_their_way = last.unwrap_or(self.on_their_way);
            if page.pending == 0 || last.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Remembers a page, and returns its last position.
    fn note_parked(&mut self, page: &LogPage<Parked>, own: &str) -> Option<u64> {
        for item in &page.items {
            if let Parked::Delivery(delivery) = &item.value {
                self.note(delivery, own);
            }
        }
        page.items.last().map(|item| item.sequence)
    }

    /// What the job itself hands in while it works it knows by its cursor.
    fn note(&mut self, delivery: &Delivery, own: &str) {
        let replay = delivery.replay.as_ref();
        if self.is_complete && replay.is_some_and(|replay| replay.replay_id == own) {
            return;
        }
        let generation = delivery.replay_generation();
        self.seen.insert(delivery.event_id.bits(), generation);
    }
}
