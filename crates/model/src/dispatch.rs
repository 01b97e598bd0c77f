//! A dispatcher: one delivery, one request, one record.

use crate::breaker::Breaker;
use crate::line::Line;
use crate::parcel::Parcel;
use crate::settings::Flaw;
use crate::state::{Fate, Input, State, Work};
use crate::story::{Record, bit};
use crate::work::Parking;
use posthorn_delivery::LaneReason;
use posthorn_delivery::admission::Admission;

/// In what a dispatcher is behind when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// In nothing.
    Nothing,
    /// In what it knows of the lane.
    Lane,
    /// In what it knows of the breaker.
    Breaker,
    /// Its clock is.
    Clock,
}

impl Line {
    /// Dispatcher `who` takes what is at `at` of DELIVERIES and decides whether to send it.
    #[must_use]
    pub fn take(&self, state: &mut State, who: usize, at: usize, behind: Behind) -> Option<()> {
        let parcel = *state.deliveries.as_slice().get(at)?;
        let input = Input::Delivery(parcel);
        if state.dispatchers[who] != Work::Idle || state.is_held(input) {
            return None;
        }
        let epoch = self.sees_epoch(state, behind == Behind::Lane)?;
        // A mark that is newer than what is known here is good: the view lags.
        let let_go = parcel.in_order || (parcel.epoch > 0 && parcel.epoch >= epoch);
        if !let_go && (epoch > 0 || self.settings.ordered) {
            let why = (LaneReason::Draining, 0);
            state.dispatchers[who] = self.turn_away(state, parcel, epoch, why);
            return Some(());
        }
        let breaker = self.sees_breaker(state, behind)?;
        self.send_or_park(state, who, parcel, epoch, breaker, behind)
    }

    fn sees_breaker(&self, state: &mut State, behind: Behind) -> Option<Breaker> {
        let now = state.breaker;
        let seen = match behind {
            Behind::Nothing | Behind::Lane => return Some(now),
            Behind::Breaker => state.old_breaker,
            // To a clock that is behind, what has just ended has not.
            Behind::Clock => Breaker {
                wait: now.wait.max(u8::from(now.phase != 0)),
                ..now
            },
        };
        if seen == now {
            return None;
        }
        state.left.lags = state.left.lags.checked_sub(1)?;
        Some(seen)
    }

    fn send_or_park(
        &self,
        state: &mut State,
        who: usize,
        parcel: Parcel,
        epoch: u8,
        seen: Breaker,
        behind: Behind,
    ) -> Option<()> {
        state.dispatchers[who] = match self.gate(seen, parcel) {
            Admission::Allow { generation, probe } => {
                let generation = u8::try_from(generation).unwrap_or(u8::MAX);
                self.request(state, parcel, generation, probe)
            }
            Admission::Claim(claimed) => {
                // Compare-and-swap: over what was read or not at all, and then it is read anew.
                let blind = self.has(Flaw::ClaimByPlainWrite);
                if behind == Behind::Breaker && !blind {
                    return None;
                }
                let claimed = Breaker::of(&claimed);
                state.write_breaker(claimed);
                self.request(state, parcel, claimed.generation, true)
            }
            Admission::Hold { until, reason } => {
                if parcel.in_order && !self.has(Flaw::ParkInOrder) {
                    // It lies in its lane already: it is given back until then.
                    return None;
                }
                let wait = crate::breaker::ticks_until(until);
                self.turn_away(state, parcel, epoch, (reason, wait))
            }
            Admission::Expired => return None,
        };
        Some(())
    }

    fn turn_away(
        &self,
        state: &mut State,
        parcel: Parcel,
        epoch: u8,
        why: (LaneReason, u8),
    ) -> Work {
        let parking = Parking {
            parcel: parcel.parked(),
            input: Input::Delivery(parcel),
            sees_key: epoch > 0,
            why,
        };
        self.begin_parking(state, parking)
    }

    fn request(&self, state: &mut State, parcel: Parcel, generation: u8, probe: bool) -> Work {
        let earlier = &state.stories[..usize::from(parcel.event)];
        if self.settings.ordered && earlier.iter().any(|story| !story.is_decided()) {
            state.overtaken = true;
        }
        Work::InFlight {
            parcel,
            generation,
            probe,
        }
    }

    /// The answer comes and its record is written.
    #[must_use]
    pub fn answer(&self, state: &mut State, who: usize, good: bool) -> Option<()> {
        let Work::InFlight {
            parcel,
            generation,
            probe,
        } = state.dispatchers[who]
        else {
            return None;
        };
        if !good {
            state.left.failures = state.left.failures.checked_sub(1)?;
        }
        let first = self.recorded(state, parcel);
        let (fate, record) = match first {
            Some(first) => first,
            None => {
                let record = Record {
                    hop_and_one: parcel.hop + 1,
                    generation,
                    probe,
                };
                (self.record(state, parcel, good, record), record)
            }
        };
        let told = record.hop_and_one == parcel.hop + 1;
        let moves = told && self.moves(state, fate, record).is_some();
        state.dispatchers[who] = match moves {
            true => Work::Tell {
                parcel,
                fate,
                generation: record.generation,
                probe: record.probe,
            },
            false => carry_out_or_ack(parcel, fate),
        };
        Some(())
    }

    fn moves(&self, state: &State, fate: Fate, record: Record) -> Option<Breaker> {
        let good = fate == Fate::Complete;
        self.observe(state.breaker, record.generation, record.probe, good)
    }

    /// What was decided about this message before.
    fn recorded(&self, state: &State, parcel: Parcel) -> Option<(Fate, Record)> {
        let story = &state.stories[usize::from(parcel.event)];
        let fate = match (story.ended & bit(parcel.hop), story.again & bit(parcel.hop)) {
            (0, 0) => return None,
            (0, _) => Fate::Retry,
            // The last attempt that failed, or one that did not.
            _ if story.dead && !story.complete => Fate::Dead,
            _ => Fate::Complete,
        };
        Some((fate, story.last))
    }

    fn record(&self, state: &mut State, parcel: Parcel, good: bool, record: Record) -> Fate {
        let attempts = self.settings.attempts;
        let story = state.story_mut(parcel);
        story.last = record;
        story.due = 0;
        if good {
            story.complete = true;
            story.ended |= bit(parcel.hop);
            return Fate::Complete;
        }
        if parcel.attempt >= attempts {
            story.dead = true;
            story.ended |= bit(parcel.hop);
            return Fate::Dead;
        }
        story.again |= bit(parcel.hop);
        story.due = u8::from(parcel.in_order);
        Fate::Retry
    }

    /// Dispatcher `who` makes its next write after the record.
    #[must_use]
    pub fn settle(&self, state: &mut State, who: usize) -> Option<()> {
        state.dispatchers[who] = match state.dispatchers[who] {
            Work::Tell {
                parcel,
                fate,
                generation,
                probe,
            } => {
                let good = fate == Fate::Complete;
                if let Some(moved) = self.observe(state.breaker, generation, probe, good) {
                    state.write_breaker(moved);
                }
                carry_out_or_ack(parcel, fate)
            }
            Work::CarryOut { parcel, fate } => {
                match fate {
                    Fate::Dead => state.story_mut(parcel).letter = true,
                    _ => state.publish_retry(Parcel {
                        attempt: parcel.attempt + 1,
                        due: 0,
                        ..parcel.next_hop()
                    }),
                }
                Work::Ack(Input::Delivery(parcel))
            }
            work => self.go_on(state, work)?,
        };
        Some(())
    }
}

/// An attempt that is complete owes nothing more, and neither does one in order: its owner
/// reads the record.
fn carry_out_or_ack(parcel: Parcel, fate: Fate) -> Work {
    let retry_elsewhere = fate == Fate::Retry && !parcel.in_order;
    match retry_elsewhere || fate == Fate::Dead {
        true => Work::CarryOut { parcel, fate },
        false => Work::Ack(Input::Delivery(parcel)),
    }
}
