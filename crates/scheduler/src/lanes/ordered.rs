//! Strict order: the head of the lane, and nothing else before it is done.

use super::End;
use super::owner::{Owner, Step};
use posthorn_broker::codec::Parked;
use posthorn_broker::{BrokerError, Logged, StreamName};
use posthorn_delivery::lane::{Head, Order, fold};
use posthorn_delivery::{
    Attempt, Delivery, Disposition, Endpoint, Event, LaneReason, MessageId, UnixMillis,
};
use std::time::Duration;

/// Read at once while the lane is looked through.
const PAGE: usize = 256;
/// Fan-out has not come so far yet: it takes milliseconds.
const BEHIND: Duration = Duration::from_millis(5);
/// The record is looked for although none was heard, first and later.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// What an owner knows of an ordered lane.
pub(crate) struct Ordered {
    order: Order,
    read_up_to: u64,
    fanned_out: u64,
    head: Option<Current>,
    owned_since: UnixMillis,
}

/// The head, and the attempt of it that is next or on its way.
struct Current {
    event_seq: u64,
    position: u64,
    parked: Delivery,
    next: Option<Delivery>,
    sent: Option<Sent>,
    /// Its records have to be read: something is in them that is not known here.
    is_unclear: bool,
    is_done: bool,
}

struct Sent {
    id: MessageId,
    look_at: UnixMillis,
    look_after: Duration,
}

impl Ordered {
    pub fn new(now: UnixMillis) -> Ordered {
        Ordered {
            order: Order::default(),
            read_up_to: 0,
            fanned_out: 0,
            head: None,
            owned_since: now,
        }
    }

    /// Whether a head is under way.
    pub fn has_begun(&self) -> bool {
        self.head.is_some()
    }

    /// An answer was heard of.
    pub fn hear(&mut self, attempt: &Attempt) {
        let Some(current) = &mut self.head else {
            return;
        };
        let expected = current.sent.as_ref().map(|sent| &sent.id);
        if expected != Some(&attempt.message_id()) {
            return;
        }
        match attempt.disposition {
            // Where its record lies is part of the history, so it has to be read.
            Disposition::Retry { .. } => current.is_unclear = true,
            _ => current.is_done = true,
        }
    }
}

impl Owner<'_> {
    /// The next step of an ordered lane; `room` is whether anything may be let go.
    pub(super) async fn ordered_step(
        &mut self,
        endpoint: Option<&Endpoint>,
        room: u32,
    ) -> Result<Step, BrokerError> {
        if self.ordered.head.is_none() && !self.next_head().await? {
            return self.no_head().await;
        }
        let now = posthorn_wiring::now();
        if self.look_is_due(now) {
            self.read_records().await?;
        }
        let Some(current) = &self.ordered.head else {
            return Ok(Step::Go);
        };
        if current.is_done {
            return self.finish().await;
        }
        if let Some(sent) = &current.sent {
            return Ok(Step::Wait(sent.look_at));
        }
        let due = current.next.as_ref().map_or(now, |next| next.not_before);
        if due > now {
            return Ok(self.rest(due));
        }
        if room == 0 {
            let slot = self.pace.as_ref().map(|pace| pace.next(now));
            return Ok(Step::Wait(slot.unwrap_or(now + BEHIND).max(now + BEHIND)));
        }
        self.send_head(endpoint).await
    }

    /// Finds the lowest event that nothing can come before any more.
    async fn next_head(&mut self) -> Result<bool, BrokerError> {
        if self.ordered.order.head(self.ordered.fanned_out).is_none() {
            // In this order: all events up to there are in the lane before it is read.
            let fanned_out = self.fanned_out().await?;
            self.read_lane().await?;
            self.ordered.fanned_out = fanned_out;
        }
        let Some((event_seq, position)) = self.ordered.order.head(self.ordered.fanned_out) else {
            return Ok(false);
        };
        let store = self.context.lanes.store();
        let page = store.read(self.lane, position, 1).await?;
        let found = page
            .items
            .into_iter()
            .find(|item| item.sequence == position);
        match found {
            Some(item) => self.begin(event_seq, item),
            // Removed by an owner before us.
            None => self.ordered.order.remove(event_seq, position),
        }
        Ok(true)
    }

    /// Up to which event everything has been fanned out.
    ///
    /// EVENTS holds only what has not been, so what came before its first one has. The
    /// consumer's floor alone is not enough: a server that is killed forgets the last of its
    /// acknowledgements, not what they removed, and without a further event no floor tells.
    async fn fanned_out(&self) -> Result<u64, BrokerError> {
        let events = self.context.broker.log::<Event>(StreamName::Events).await?;
        let (first, _) = events.bounds().await?;
        let floor = self.context.lanes.store().fanned_out().await?;
        Ok(floor.max(first.saturating_sub(1)))
    }

    fn begin(&mut self, event_seq: u64, item: Logged<Parked>) {
        let Parked::Delivery(parked) = item.value else {
            return;
        };
        // What was appended since the lane is ours has been let go by nobody else.
        let margin = Duration::from_secs(2);
        let is_unclear = item.stored_at <= self.ordered.owned_since + margin;
        self.ordered.head = Some(Current {
            event_seq,
            position: item.sequence,
            next: Some(parked.clone().next_hop()),
            parked: *parked,
            sent: None,
            is_unclear,
            is_done: false,
        });
    }

    /// Takes in what was appended since the last look.
    async fn read_lane(&mut self) -> Result<(), BrokerError> {
        if self.ordered.order.is_spent() {
            self.ordered.order = Order::default();
            self.ordered.read_up_to = 0;
        }
        loop {
            let from = self.ordered.read_up_to + 1;
            let store = self.context.lanes.store();
            let page = store.read(self.lane, from, PAGE).await?;
            let Some(last) = page.items.last().map(|item| item.sequence) else {
                return Ok(());
            };
            let mut unreadable = Vec::new();
            for item in page.items {
                match &item.value {
                    Parked::Delivery(delivery) => {
                        self.ordered.order.add(delivery.event_seq, item.sequence);
                    }
                    Parked::Unreadable(..) => unreadable.push(item),
                }
            }
            super::release::bury_all(self.context, self.lane, unreadable).await?;
            self.ordered.read_up_to = last;
            if page.pending == 0 {
                return Ok(());
            }
        }
    }

    async fn no_head(&mut self) -> Result<Step, BrokerError> {
        if self.ordered.order.is_empty() {
            return self.close().await;
        }
        Ok(Step::Wait(posthorn_wiring::now() + BEHIND))
    }

    fn look_is_due(&self, now: UnixMillis) -> bool {
        self.ordered.head.as_ref().is_some_and(|current| {
            let late = |sent: &Sent| now >= sent.look_at;
            !current.is_done && (current.is_unclear || current.sent.as_ref().is_some_and(late))
        })
    }

    /// Where the head stands, from the records of its attempts.
    async fn read_records(&mut self) -> Result<(), BrokerError> {
        let now = posthorn_wiring::now();
        let Some(current) = &mut self.ordered.head else {
            return Ok(());
        };
        let store = self.context.lanes.store();
        let records = store.records(&current.parked).await?;
        current.is_unclear = false;
        let next = match fold(current.parked.clone(), &records) {
            Head::Done => {
                current.is_done = true;
                return Ok(());
            }
            Head::Next(next) => *next,
        };
        let id = next.message_id();
        match &mut current.sent {
            Some(sent) if sent.id == id => {
                // Published again under the same id, which is nothing while it is on its way.
                if sent.look_after >= LOOK.1 {
                    current.sent = None;
                } else {
                    sent.look_after = (sent.look_after * 2).min(LOOK.1);
                    sent.look_at = now + sent.look_after;
                }
            }
            _ => current.sent = None,
        }
        current.next = Some(next);
        Ok(())
    }

    async fn send_head(&mut self, endpoint: Option<&Endpoint>) -> Result<Step, BrokerError> {
        let Some(next) = self
            .ordered
            .head
            .as_ref()
            .and_then(|head| head.next.clone())
        else {
            return Ok(Step::Go);
        };
        let now = posthorn_wiring::now();
        let released = self.marked(next, endpoint, true);
        let id = released.message_id();
        if let Some(endpoint) = endpoint {
            let store = self.context.lanes.store();
            self.hearing
                .begin(store, &endpoint.tenant, &endpoint.id)
                .await?;
        }
        if let Some(current) = &mut self.ordered.head {
            current.sent = Some(Sent {
                id,
                look_at: now + LOOK.0,
                look_after: LOOK.0,
            });
        }
        self.candidate = Some((self.breaker().revision, now));
        self.context.broker.publish_delivery(&released).await?;
        metrics::counter!("posthorn_lane_releases_total").increment(1);
        self.flight.released(1, now);
        if let Some(pace) = &mut self.pace {
            pace.used(1, now);
        }
        Ok(Step::Go)
    }

    /// Whether the head will never be sent any more. It is let go also while the endpoint is
    /// shut, and dead-lettered without a request.
    pub(super) async fn head_is_over(&mut self, endpoint: &Endpoint) -> Result<bool, BrokerError> {
        if self.ordered.head.is_none() && !self.next_head().await? {
            return Ok(false);
        }
        let head = self.ordered.head.as_ref();
        let now = posthorn_wiring::now();
        Ok(head.is_some_and(|head| head.parked.is_over(endpoint, now)))
    }

    /// The head is complete or dead: it leaves the lane.
    async fn finish(&mut self) -> Result<Step, BrokerError> {
        let Some(current) = self.ordered.head.take() else {
            return Ok(Step::Go);
        };
        self.context.lanes.store().remove(current.position).await?;
        self.ordered
            .order
            .remove(current.event_seq, current.position);
        let fifo = self.is_ordered(self.endpoint().as_ref().map(|known| &known.value));
        if !fifo {
            // The endpoint no longer asks for an order; what is left flows.
            return match self.describe(LaneReason::Draining, UnixMillis(0)).await? {
                true => Ok(Step::Go),
                false => Ok(Step::End(End::Done)),
            };
        }
        Ok(Step::Go)
    }
}
