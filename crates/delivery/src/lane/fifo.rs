//! Strict order: one delivery after the other, by the sequence of their events.
//!
//! The head stays in the lane until its record says that it is complete or dead, and its
//! retries are timed by the owner. Where it stands is not kept anywhere: it follows from the
//! delivery in the lane and the records of its attempts.

use crate::attempt::{Attempt, Disposition};
use crate::decide::successor;
use crate::delivery::Delivery;
use std::collections::BTreeMap;

/// Where a head stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// This attempt is next, not before its `not_before`. It may be on its way already: its
    /// message id is the same then.
    Next(Box<Delivery>),
    /// Complete or dead: it leaves the lane.
    Done,
}

/// Where `parked` stands after `records`, each with its sequence in ATTEMPTS. Records of
/// other deliveries, and of hops before, are passed over.
#[must_use]
pub fn fold(parked: Delivery, records: &[(u64, Attempt)]) -> Head {
    let mut next = parked.next_hop();
    while let Some((sequence, record)) = records.iter().find(|(_, record)| answers(record, &next)) {
        let Disposition::Retry {
            not_before,
            same_attempt,
        } = record.disposition
        else {
            return Head::Done;
        };
        let tried = next.with_attempt(record.summary(*sequence));
        next = successor(tried, not_before, same_attempt);
    }
    Head::Next(Box::new(next))
}

fn answers(record: &Attempt, delivery: &Delivery) -> bool {
    record.hop == delivery.hop
        && record.event_id == delivery.event_id
        && record.endpoint_id == delivery.endpoint_id
        && record.replay_generation == delivery.replay_generation()
}

/// The lowest event sequences of a lane, and where in the lane they are.
///
/// Fan-out appends out of order where several events are fanned out at the same time, and one
/// that was interrupted comes later than thousands after it. So the whole lane is read; what
/// is kept of it is bounded: the lowest, and the knowledge that there were more.
#[derive(Clone, Debug, Default)]
pub struct Order {
    lowest: BTreeMap<(u64, u64), ()>,
    /// Nothing at or above this is complete in `lowest`.
    horizon: Option<(u64, u64)>,
}

/// How many are kept: 64 KiB, whatever the lane holds.
const KEPT: usize = 4_096;

impl Order {
    /// Takes in what lies at `position` of the lane.
    pub fn add(&mut self, event_seq: u64, position: u64) {
        let entry = (event_seq, position);
        if self.horizon.is_some_and(|horizon| entry >= horizon) {
            return;
        }
        self.lowest.insert(entry, ());
        if self.lowest.len() > KEPT {
            self.horizon = self.lowest.pop_last().map(|(entry, ())| entry);
        }
    }

    /// The position of the lowest event at or below `fanned_out`, with its event's sequence:
    /// up to there everything that will ever be in the lane is in it.
    #[must_use]
    pub fn head(&self, fanned_out: u64) -> Option<(u64, u64)> {
        let ((event_seq, position), ()) = self.lowest.first_key_value()?;
        (*event_seq <= fanned_out).then_some((*event_seq, *position))
    }

    /// What lies at `position` has left the lane.
    pub fn remove(&mut self, event_seq: u64, position: u64) {
        self.lowest.remove(&(event_seq, position));
    }

    /// What was kept is used up and the lane holds more: it must be read again from its
    /// beginning, into a new one.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.lowest.is_empty() && self.horizon.is_some()
    }

    /// Whether the lane is empty as far as it was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lowest.is_empty() && self.horizon.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::AttemptResult;
    use crate::breaker::BreakerSignal;
    use crate::letter::Reason;
    use crate::testing::{NOW, delivery};
    use crate::time::UnixMillis;
    use std::time::Duration;

    fn record(hop: u32, disposition: Disposition) -> (u64, Attempt) {
        let of = delivery();
        let attempt = Attempt {
            tenant: of.tenant,
            event_id: of.event_id,
            event_type: of.event_type,
            endpoint_id: of.endpoint_id,
            number: 1,
            hop,
            replay_generation: 0,
            at: NOW,
            latency_ms: 5,
            result: AttemptResult::Status(500),
            response_body: bytes::Bytes::new(),
            disposition,
            breaker_generation: 0,
            probe: false,
            breaker_signal: BreakerSignal::Failure,
            hold_until: None,
            disable_endpoint: false,
            in_order: true,
            detail: String::new(),
            exchange: None,
        };
        (u64::from(hop) * 10, attempt)
    }

    fn retry(at: UnixMillis) -> Disposition {
        Disposition::Retry {
            not_before: at,
            same_attempt: false,
        }
    }

    #[test]
    fn fan_07_a_head_without_a_record_is_sent_and_with_retries_waits_for_its_time() {
        let Head::Next(first) = fold(delivery(), &[]) else {
            panic!("it is sent")
        };
        assert_eq!((first.hop, first.attempt), (1, 1));
        let later = NOW + Duration::from_secs(9);
        let records = [record(2, retry(later)), record(1, retry(NOW))];
        let Head::Next(third) = fold(delivery(), &records) else {
            panic!("it is tried again")
        };
        assert_eq!((third.hop, third.attempt, third.not_before), (3, 3, later));
        let sequences: Vec<u64> = third.history.iter().map(|entry| entry.sequence).collect();
        assert_eq!(sequences, [10, 20]);
    }

    #[test]
    fn a_head_that_is_complete_or_dead_is_done() {
        for end in [Disposition::Complete, Disposition::Dead(Reason::Exhausted)] {
            let records = [record(1, retry(NOW)), record(2, end)];
            assert_eq!(fold(delivery(), &records), Head::Done);
        }
        let mut other = record(1, Disposition::Complete);
        other.1.replay_generation = 5;
        assert!(matches!(fold(delivery(), &[other]), Head::Next(_)));
    }

    #[test]
    fn the_head_is_the_lowest_event_that_is_certainly_complete() {
        let mut order = Order::default();
        for (event_seq, position) in [(9, 1), (7, 2), (8, 3)] {
            order.add(event_seq, position);
        }
        assert_eq!(
            order.head(6),
            None,
            "7 may be preceded by 6, which is on its way"
        );
        assert_eq!(order.head(7), Some((7, 2)));
        order.add(3, 4);
        assert_eq!(
            order.head(9),
            Some((3, 4)),
            "one that was interrupted comes late"
        );
        order.remove(3, 4);
        assert_eq!(order.head(9), Some((7, 2)));
    }

    #[test]
    fn a_long_lane_is_walked_in_order_with_bounded_memory() {
        let lane: Vec<u64> = (0..20_000).map(|n| n * 7_919 % 20_011).collect();
        let mut left: std::collections::BTreeSet<u64> = lane.iter().copied().collect();
        let mut walked = Vec::new();
        while !left.is_empty() {
            let mut order = Order::default();
            for (position, event_seq) in lane.iter().enumerate() {
                if left.contains(event_seq) {
                    order.add(*event_seq, position as u64);
                }
            }
            assert!(order.lowest.len() <= KEPT);
            while let Some((event_seq, position)) = order.head(u64::MAX) {
                order.remove(event_seq, position);
                left.remove(&event_seq);
                walked.push(event_seq);
            }
            assert_eq!(order.is_spent(), !left.is_empty());
        }
        let mut sorted = lane;
        sorted.sort_unstable();
        assert_eq!(walked, sorted);
    }
}
