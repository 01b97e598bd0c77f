//! How a lane is closed while others append to it.

use crate::line::Line;
use crate::settings::{Flaw, Sweep};
use crate::state::{Lead, Next, Own, State};

impl Line {
    /// The next step of closing. The looks are apart from the writes after them: what comes in
    /// between is what all this is about.
    pub fn close(&self, state: &mut State, who: usize, lead: Lead) {
        let empty = state.lane.is_empty();
        let own = &mut state.schedulers[who].own;
        match lead.next {
            Next::Delete => match state.key.key.filter(|_| !lead.lost) {
                None => *own = Own::Renew,
                Some(key) => {
                    state.write_key(None);
                    state.set_next(who, Next::LookAgain(key));
                }
            },
            Next::LookAgain(_) if empty => state.set_next(who, Next::AckToken),
            Next::LookAgain(key) => match state.key.key {
                None => self.become_owner(state, who, key),
                Some(_) => *own = Own::Renew,
            },
            Next::AckToken => self.ack_token(state, who, lead),
            Next::LookLast if empty => *own = Own::Idle,
            Next::LookLast => *own = Own::Renew,
            Next::Look | Next::Publish(_) | Next::Purge(_) => {}
        }
    }

    fn ack_token(&self, state: &mut State, who: usize, lead: Lead) {
        if lead.live {
            state.remove_token();
        }
        let never_owned = lead.me == (0, 0);
        let flaw = match never_owned {
            true => Flaw::NoLookAfterIdleToken,
            false => Flaw::NoLookAfterAck,
        };
        match self.has(flaw) {
            true => state.schedulers[who].own = Own::Idle,
            false => state.set_next(who, Next::LookLast),
        }
    }

    /// What a sweep puts right: a lane that holds something, or is active, and has no token.
    /// `None` when there is nothing to put right.
    #[must_use]
    pub fn sweep(&self, state: &mut State) -> Option<()> {
        let idle_key = state.key.key.is_some() && !self.settings.ordered;
        let stranded = !state.lane.is_empty() || idle_key;
        if self.settings.sweep == Sweep::Never
            || !stranded
            || state.token != crate::state::Token::None
        {
            return None;
        }
        state.put_token();
        Some(())
    }
}
