//! A scheduler's fan-out, and its release of what is due in RETRIES.

use crate::line::Line;
use crate::parcel::Parcel;
use crate::settings::Flaw;
use crate::state::{Input, State, Work};
use crate::work::Parking;
use posthorn_delivery::LaneReason;

impl Line {
    /// Scheduler `who` takes an event, decides, and makes its first write.
    #[must_use]
    pub fn fan_out(&self, state: &mut State, who: usize, event: u8, behind: bool) -> Option<()> {
        let story = state.stories.get(usize::from(event))?;
        if !story.waiting || state.is_held(Input::Event(event)) {
            return None;
        }
        let parcel = Parcel {
            event,
            attempt: 1,
            ..Parcel::default()
        };
        self.hand_on(state, who, Input::Event(event), parcel, behind)
    }

    /// Scheduler `who` takes what is at `at` of RETRIES, if that is due.
    #[must_use]
    pub fn release(&self, state: &mut State, who: usize, at: usize, behind: bool) -> Option<()> {
        let waiting = *state.retries.as_slice().get(at)?;
        if waiting.due > 0 || state.is_held(Input::Retry(waiting)) {
            return None;
        }
        self.hand_on(
            state,
            who,
            Input::Retry(waiting),
            waiting.next_hop(),
            behind,
        )
    }

    /// `next` goes to DELIVERIES, or one hop on into the lane where that is active.
    fn hand_on(
        &self,
        state: &mut State,
        who: usize,
        input: Input,
        next: Parcel,
        behind: bool,
    ) -> Option<()> {
        if state.schedulers[who].work != Work::Idle {
            return None;
        }
        let sees_key = self.sees_epoch(state, behind)? > 0;
        state.schedulers[who].work = if sees_key || self.settings.ordered {
            let parking = Parking {
                parcel: next.parked(),
                input,
                sees_key,
                why: (LaneReason::Fifo, 0),
            };
            self.begin_parking(state, parking)
        } else if self.has(Flaw::AckBeforePublish) {
            state.ack(input);
            Work::Late(next)
        } else {
            state.publish_delivery(next);
            Work::Ack(input)
        };
        Some(())
    }

    /// The epoch of the lane to whoever looks; `None` when being behind makes no difference.
    #[must_use]
    pub fn sees_epoch(&self, state: &mut State, behind: bool) -> Option<u8> {
        if !behind {
            return Some(state.key.epoch());
        }
        if state.key.old_epoch == state.key.epoch() {
            return None;
        }
        state.left.lags = state.left.lags.checked_sub(1)?;
        Some(state.key.old_epoch)
    }
}
