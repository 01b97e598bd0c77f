//! Steps that a scheduler's fan-out and a dispatcher have in common: parking and acking.

use crate::line::Line;
use crate::parcel::Parcel;
use crate::settings::Flaw;
use crate::state::{Input, State, Step, Work};
use posthorn_delivery::LaneReason;

/// Why a delivery is parked, and by whom it is seen.
#[derive(Clone, Copy, Debug)]
pub struct Parking {
    /// The delivery as it will lie in the lane.
    pub parcel: Parcel,
    /// The message it came by.
    pub input: Input,
    /// Whether the lane is active to whoever parks.
    pub sees_key: bool,
    /// The reason and how long it holds, for a lane that is opened.
    pub why: (LaneReason, u8),
}

impl Line {
    /// Begins to park: the first write. What comes after is in the work that is returned.
    #[must_use]
    pub fn begin_parking(&self, state: &mut State, parking: Parking) -> Work {
        let Parking {
            parcel,
            input,
            sees_key,
            why: (reason, wait),
        } = parking;
        if !sees_key {
            self.create_key(state, reason, wait);
            let step = self.after_create();
            return Work::Park {
                parcel,
                input,
                step,
            };
        }
        self.park(state, parcel, input, self.after_create())
    }

    fn after_create(&self) -> Step {
        match self.has(Flaw::TokenBeforeAppend) {
            true => Step::Token,
            false => Step::Append,
        }
    }

    /// One step of parking.
    #[must_use]
    pub fn park(&self, state: &mut State, parcel: Parcel, input: Input, step: Step) -> Work {
        let swapped = self.has(Flaw::TokenBeforeAppend);
        match step {
            Step::Append => state.append(parcel),
            Step::Token => state.put_token(),
        }
        let next = match (step, swapped) {
            (Step::Append, false) => Step::Token,
            (Step::Token, true) => Step::Append,
            _ => return Work::Ack(input),
        };
        Work::Park {
            parcel,
            input,
            step: next,
        }
    }

    /// The next step of a thread that parks or acks; `None` when it does neither.
    #[must_use]
    pub fn go_on(&self, state: &mut State, work: Work) -> Option<Work> {
        Some(match work {
            Work::Park {
                parcel,
                input,
                step,
            } => self.park(state, parcel, input, step),
            Work::Ack(input) => {
                state.ack(input);
                Work::Idle
            }
            Work::Late(parcel) => {
                state.publish_delivery(parcel);
                Work::Idle
            }
            _ => return None,
        })
    }
}
