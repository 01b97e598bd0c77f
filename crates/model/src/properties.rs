//! What must be true of every state, and what must be seen in some.

use crate::action::{Action, Deed, End};
use crate::canon::canonical;
use crate::line::Line;
use crate::settings::Sweep;
use crate::state::{Own, State, Token, Work};
use crate::story::{FARTHEST, Story};
use stateright::{Model, Property};

/// No event that was accepted is nowhere.
pub const LOST: &str = "no delivery is lost";
/// Wherever nothing can happen any more, everything is over and the lane is closed.
pub const STUCK: &str = "nothing is stuck";
/// Requests that claimed the same generation of the breaker are not out at the same time.
pub const PROBES: &str = "one probe a generation";
/// Two never believe to own the lane, both with a view that is up to date.
pub const OWNERS: &str = "one owner";
/// No request of an ordered endpoint is made before all earlier events are decided.
pub const ORDER: &str = "order is kept";
/// No delivery walks between the streams for ever. Where an owner has several on their way,
/// they can: each is parked again because another's parking has opened the lane anew, if every
/// one of them meets the lane at the moment at which it is closed. There a walk is cut off.
pub const ENDLESS: &str = "no delivery walks for ever";
/// From every state the line comes to rest when nothing more goes wrong.
pub const SETTLES: &str = "everything settles";

/// All of them.
#[must_use]
pub fn all() -> Vec<Property<Line>> {
    vec![
        Property::always(LOST, |_, state: &State| state.has_all()),
        Property::always(STUCK, |line: &Line, state: &State| {
            line.is_settled(state) || line.can_go_on(state)
        }),
        Property::always(PROBES, |_, state: &State| state.has_one_probe()),
        Property::always(OWNERS, |line: &Line, state| {
            !(line.believes(state, 0) && line.believes(state, 1))
        }),
        Property::always(ORDER, |_, state: &State| !state.overtaken),
        Property::always(ENDLESS, |line: &Line, state: &State| {
            line.settings.cap > 1 || state.farthest() < FARTHEST
        }),
        Property::always(SETTLES, |line: &Line, state| {
            !line.settings.settles || line.settles(state)
        }),
        Property::sometimes("everything is over", |line: &Line, state: &State| {
            line.is_settled(state)
        }),
        Property::sometimes("a lane has an owner", |_, state: &State| {
            let mut owns = state.schedulers.iter().map(|one| one.own);
            owns.any(|own| matches!(own, Own::Lead(_)))
        }),
        Property::sometimes("a probe is out", |line: &Line, state: &State| {
            !line.settings.breaker || state.probes().next().is_some()
        }),
        Property::sometimes("all crashes happen", |_, state: &State| {
            state.left.crashes == 0
        }),
    ]
}

impl State {
    fn has_all(&self) -> bool {
        let streams = [&self.deliveries, &self.retries, &self.lane];
        self.stories.iter().zip(0..).all(|(story, event)| {
            let has = |parcels: &&crate::parcel::Parcels| {
                parcels
                    .as_slice()
                    .iter()
                    .any(|parcel| parcel.event == event)
            };
            story.waiting || story.is_over() || streams.iter().any(has)
        })
    }

    /// The most hops that any copy is ahead of the oldest of the same delivery.
    #[must_use]
    pub fn farthest(&self) -> u8 {
        let streams = [&self.deliveries, &self.retries, &self.lane];
        let parcels = streams.into_iter().flat_map(|parcels| parcels.as_slice());
        parcels.map(|parcel| parcel.hop).max().unwrap_or(0)
    }

    fn probes(&self) -> impl Iterator<Item = u8> {
        self.dispatchers.iter().filter_map(|work| match work {
            Work::InFlight {
                generation,
                probe: true,
                ..
            } => Some(*generation),
            _ => None,
        })
    }

    fn has_one_probe(&self) -> bool {
        let mut probes = self.probes();
        match (probes.next(), probes.next()) {
            (Some(one), Some(other)) => one != other,
            _ => true,
        }
    }
}

impl Line {
    /// Whether everything is over. An ordered lane keeps its key, and where nobody sweeps an
    /// empty lane may stay active: whoever parks in it puts a token.
    #[must_use]
    pub fn is_settled(&self, state: &State) -> bool {
        let streams = [&state.deliveries, &state.retries, &state.lane];
        let kept = self.settings.ordered || self.settings.sweep == Sweep::Never;
        let over = |story: &Story| story.is_over() && !story.waiting;
        state.stories.iter().all(over)
            && streams.iter().all(|parcels| parcels.is_empty())
            && state.token == Token::None
            && (kept || state.key.key.is_none())
            && state.is_at_rest()
    }

    fn can_go_on(&self, state: &State) -> bool {
        self.first_regular(state).is_some()
    }

    fn first_regular(&self, state: &State) -> Option<State> {
        let mut first = None;
        self.each_regular(state, &mut |deed: Deed| {
            if first.is_none() {
                let action = Action {
                    deed,
                    end: End::Well,
                };
                first = self.next_state(state, action);
            }
        });
        first
    }

    /// Whether the line comes to rest when from here on nothing goes wrong and whatever can
    /// happen first does.
    fn settles(&self, state: &State) -> bool {
        const LONG_ENOUGH: usize = 400;
        let mut now = canonical(*state, &self.settings);
        for _ in 0..LONG_ENOUGH {
            match self.first_regular(&now) {
                Some(next) => now = next,
                None => return self.is_settled(&now),
            }
        }
        false
    }
}
