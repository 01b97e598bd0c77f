//! Everything that can happen next, for the checker.

use crate::action::{Action, Deed, End};
use crate::canon::canonical;
use crate::dispatch::Behind;
use crate::line::Line;
use crate::owner::Sees;
use crate::properties;
use crate::settings::Sweep;
use crate::state::{Own, State, Token, Work};
use crate::story::{FARTHEST, Story};
use stateright::{Model, Property};

impl Model for Line {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            left: self.settings.mishaps,
            ..State::default()
        };
        for (number, story) in state.stories.iter_mut().enumerate() {
            let owed = number < self.settings.events;
            *story = Story {
                waiting: owed,
                complete: !owed,
                ..Story::default()
            };
        }
        vec![canonical(state, &self.settings)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let well = |deed| Action {
            deed,
            end: End::Well,
        };
        self.each_regular(state, &mut |deed| actions.push(well(deed)));
        self.each_failure(state, &mut |deed| actions.push(well(deed)));
        self.each_mishap(state, &mut |deed| actions.push(well(deed)));
        if state.left.crashes > 0 {
            let mut badly = |deed| self.each_bad_end(deed, actions);
            self.each_regular(state, &mut badly);
            self.each_failure(state, &mut badly);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        self.act(&mut state, action.deed)?;
        self.write_on(&mut state, action)?;
        state.end(action)?;
        let state = canonical(state, &self.settings);
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        self.settings.cap == 1 || state.farthest() < FARTHEST
    }

    fn properties(&self) -> Vec<Property<Line>> {
        properties::all()
    }
}

impl Line {
    /// Whatever happens as long as nothing goes wrong, the quick before the slow.
    pub fn each_regular(&self, state: &State, with: &mut impl FnMut(Deed)) {
        for who in 0..self.settings.dispatchers {
            match state.dispatchers[who] {
                Work::Idle => {}
                Work::InFlight { .. } => with(Deed::Answer { who, good: true }),
                _ => with(Deed::Settle(who)),
            }
        }
        for who in 0..self.settings.schedulers {
            if state.schedulers[who].work != Work::Idle {
                with(Deed::GoOn(who));
            }
            if state.schedulers[who].own != Own::Idle {
                with(Deed::Own(who, Sees::All));
            }
        }
        self.each_taking(state, with);
        if self.settings.sweep != Sweep::AtRest || state.is_at_rest() {
            with(Deed::Sweep);
        }
        with(Deed::Tick);
    }

    fn each_taking(&self, state: &State, with: &mut impl FnMut(Deed)) {
        // Idle dispatchers are all alike.
        let dispatchers = &state.dispatchers[..self.settings.dispatchers];
        if let Some(who) = dispatchers.iter().position(|work| *work == Work::Idle) {
            for at in 0..state.deliveries.len() {
                let behind = Behind::Nothing;
                with(Deed::Take { who, at, behind });
            }
        }
        for who in 0..self.settings.schedulers {
            if state.schedulers[who].work != Work::Idle {
                continue;
            }
            for event in (0..3).filter(|event| state.stories[usize::from(*event)].waiting) {
                let behind = false;
                with(Deed::FanOut { who, event, behind });
            }
            for at in 0..state.retries.len() {
                let behind = false;
                with(Deed::Release { who, at, behind });
            }
        }
        if matches!(state.token, Token::Waiting { rest: 0, .. }) {
            for who in 0..self.settings.schedulers {
                if state.schedulers[who].own == Own::Idle {
                    with(Deed::TakeToken(who));
                }
            }
        }
    }

    fn each_mishap(&self, state: &State, with: &mut impl FnMut(Deed)) {
        let left = state.left;
        if left.lags > 0 {
            self.each_lag(state, with);
        }
        if left.crashes > 0 {
            for who in 0..self.settings.schedulers {
                with(Deed::KillScheduler(who));
            }
            for who in 0..self.settings.dispatchers {
                with(Deed::KillDispatcher(who));
            }
        }
        if left.expiries > 0 {
            with(Deed::Expire);
        }
        if left.forgets > 0 {
            with(Deed::Forget);
        }
    }

    fn each_lag(&self, state: &State, with: &mut impl FnMut(Deed)) {
        let behind = true;
        self.each_taking(state, &mut |deed| match deed {
            Deed::FanOut { who, event, .. } => with(Deed::FanOut { who, event, behind }),
            Deed::Release { who, at, .. } => with(Deed::Release { who, at, behind }),
            Deed::Take { who, at, .. } => {
                for behind in [Behind::Lane, Behind::Breaker, Behind::Clock] {
                    with(Deed::Take { who, at, behind });
                }
            }
            _ => {}
        });
        for who in 0..self.settings.schedulers {
            with(Deed::Own(who, Sees::OldOwner));
            with(Deed::Own(who, Sees::OldBreaker));
        }
    }

    fn each_failure(&self, state: &State, with: &mut impl FnMut(Deed)) {
        if state.left.failures > 0 {
            for who in 0..self.settings.dispatchers {
                with(Deed::Answer { who, good: false });
            }
        }
    }

    fn each_bad_end(&self, deed: Deed, actions: &mut Vec<Action>) {
        let mut with = |end| actions.push(Action { deed, end });
        match deed {
            Deed::FanOut { .. } | Deed::Release { .. } | Deed::GoOn(_) => {
                with(End::Killed);
                with(End::AckLost);
            }
            Deed::Take { .. } | Deed::Settle(_) => with(End::Killed),
            Deed::Answer { .. } => {
                with(End::Killed);
                if self.writes_on() {
                    with(End::KilledAfter(0));
                    with(End::KilledAfter(1));
                }
            }
            _ => {}
        }
    }

    /// Whether a dispatcher's writes after the record are one step with it: only an owner that
    /// keeps an order reads records.
    fn writes_on(&self) -> bool {
        !self.settings.each_write && !self.settings.ordered
    }

    /// A dispatcher goes on to its last write, or is killed on the way.
    fn write_on(&self, state: &mut State, action: Action) -> Option<()> {
        let Deed::Answer { who, .. } = action.deed else {
            return Some(());
        };
        if !self.writes_on() {
            return Some(());
        }
        let mut written = 0;
        while !matches!(state.dispatchers[who], Work::Ack(_)) {
            if action.end == End::KilledAfter(written) {
                return state.kill_dispatcher(who);
            }
            self.settle(state, who)?;
            written += 1;
        }
        (!matches!(action.end, End::KilledAfter(_))).then_some(())
    }

    /// Carries `deed` out; `None` when it cannot happen now.
    #[must_use]
    pub fn act(&self, state: &mut State, deed: Deed) -> Option<()> {
        match deed {
            Deed::FanOut { who, event, behind } => self.fan_out(state, who, event, behind),
            Deed::Release { who, at, behind } => self.release(state, who, at, behind),
            Deed::GoOn(who) => {
                let work = self.go_on(state, state.schedulers[who].work)?;
                state.schedulers[who].work = work;
                Some(())
            }
            Deed::TakeToken(who) => self.take_token(state, who),
            Deed::Own(who, sees) => self.own(state, who, sees),
            Deed::Sweep => self.sweep(state),
            Deed::Take { who, at, behind } => self.take(state, who, at, behind),
            Deed::Answer { who, good } => self.answer(state, who, good),
            Deed::Settle(who) => self.settle(state, who),
            Deed::Tick => state.tick(),
            Deed::KillScheduler(who) => state.kill_scheduler(who),
            Deed::KillDispatcher(who) => state.kill_dispatcher(who),
            Deed::Expire => state.expire(),
            Deed::Forget => {
                state.left.forgets -= 1;
                state.forget_ids();
                Some(())
            }
        }
    }
}
