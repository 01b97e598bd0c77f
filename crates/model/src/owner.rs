//! The owner of the lane: a scheduler with a fresh token.

use crate::breaker::Breaker;
use crate::key::Key;
use crate::line::Line;
use crate::parcel::Parcel;
use crate::settings::Flaw;
use crate::state::{Lead, Next, Own, State, Token};
use posthorn_delivery::LaneReason;
use posthorn_delivery::lane::{Order, Stand};

/// In what an owner is behind when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// In nothing.
    All,
    /// It does not see yet that another owns the lane.
    OldOwner,
    /// It does not see yet that the breaker moved.
    OldBreaker,
}

impl Line {
    /// Scheduler `who` is handed the token.
    #[must_use]
    pub fn take_token(&self, state: &mut State, who: usize) -> Option<()> {
        let Token::Waiting { rest: 0, fresh } = state.token else {
            return None;
        };
        if state.schedulers[who].own != Own::Idle {
            return None;
        }
        state.token = Token::Held(u8::try_from(who).ok()?);
        if !fresh {
            state.schedulers[who].own = Own::Renew;
            if !self.settings.each_write {
                state.remove_token();
                state.schedulers[who].own = Own::Put;
            }
            return Some(());
        }
        let lead = Lead {
            me: (0, 0),
            live: true,
            lost: false,
            probed: false,
            next: Next::AckToken,
        };
        state.schedulers[who].own = Own::Lead(lead);
        match (state.key.key, state.lane.is_empty()) {
            (Some(key), _) => self.become_owner(state, who, self.taken(key)),
            (None, true) => {}
            (None, false) => {
                let opened = self.opened(state, LaneReason::Draining, 0);
                self.become_owner(state, who, Key::of(&opened.taken()));
            }
        }
        Some(())
    }

    /// Scheduler `who` writes the key over what it read.
    pub fn become_owner(&self, state: &mut State, who: usize, key: Key) {
        state.write_key(Some(key));
        if let Own::Lead(lead) = &mut state.schedulers[who].own {
            lead.me = (key.owner, key.since);
            lead.lost = false;
            lead.next = Next::Look;
        }
    }

    /// Scheduler `who` does the next thing about the token.
    #[must_use]
    pub fn own(&self, state: &mut State, who: usize, sees: Sees) -> Option<()> {
        let own = state.schedulers[who].own;
        if let Own::Lead(lead) = own
            && lead.next == Next::Look
        {
            return self.look(state, who, lead, sees);
        }
        if sees != Sees::All {
            return None;
        }
        match own {
            Own::Idle => return None,
            Own::Renew => {
                state.remove_token();
                state.schedulers[who].own = Own::Put;
            }
            Own::Put => {
                state.put_token();
                state.schedulers[who].own = Own::Idle;
            }
            Own::Lead(lead) => self.step(state, who, lead),
        }
        Some(())
    }

    fn step(&self, state: &mut State, who: usize, lead: Lead) {
        match lead.next {
            Next::Publish(parcel) => self.publish(state, who, parcel),
            Next::Purge(parcel) => {
                while state.lane.find(parcel).is_some() {
                    state.lane.remove(0);
                }
                state.set_next(who, Next::Look);
            }
            _ => self.close(state, who, lead),
        }
    }

    fn publish(&self, state: &mut State, who: usize, parcel: Parcel) {
        state.publish_delivery(parcel);
        if self.settings.ordered {
            state.set_next(who, Next::Look);
            return;
        }
        // The message in the lane is one hop behind what it was let go as.
        let lies = Parcel {
            hop: parcel.hop - 1,
            ..parcel
        };
        state.set_next(who, Next::Purge(lies));
    }

    /// Whether the lane is this owner's, as far as it sees.
    fn is_mine(&self, lead: Lead, owner: Option<(u8, u8)>) -> bool {
        match owner {
            None => false,
            Some((number, _)) if self.has(Flaw::OwnerByNumber) => number == lead.me.0,
            Some(owner) => owner == lead.me,
        }
    }

    /// Whether the owner of scheduler `who` would go on as things are.
    #[must_use]
    pub fn believes(&self, state: &State, who: usize) -> bool {
        match state.schedulers[who].own {
            Own::Lead(lead) if matches!(lead.next, Next::Look | Next::Publish(_)) => {
                self.is_mine(lead, state.key.owner())
            }
            _ => false,
        }
    }

    fn look(&self, state: &mut State, who: usize, lead: Lead, sees: Sees) -> Option<()> {
        let mine = self.is_mine(lead, state.key.owner());
        match sees {
            Sees::OldOwner if mine || !self.is_mine(lead, state.key.old_owner) => return None,
            Sees::OldOwner => state.left.lags = state.left.lags.checked_sub(1)?,
            _ if !mine => {
                state.schedulers[who].own = Own::Idle;
                return (sees == Sees::All).then_some(());
            }
            _ => {}
        }
        let breaker = match sees {
            Sees::OldBreaker if state.old_breaker == state.breaker => return None,
            Sees::OldBreaker => {
                state.left.lags = state.left.lags.checked_sub(1)?;
                state.old_breaker
            }
            _ => state.breaker,
        };
        self.decide(state, who, lead, breaker)?;
        if !self.settings.each_write
            && let Own::Lead(lead) = state.schedulers[who].own
            && let Next::Publish(parcel) = lead.next
        {
            self.publish(state, who, parcel);
        }
        Some(())
    }

    fn decide(&self, state: &mut State, who: usize, lead: Lead, breaker: Breaker) -> Option<()> {
        let stands = self.stand(breaker);
        if let Some(done) = self.tell_reason(state, who, lead, stands) {
            return done;
        }
        let room = state.deliveries.len() < self.settings.cap;
        let may = match stands {
            Stand::Shut { until, .. } if !state.lane.is_empty() => {
                give_back(state, who, lead, crate::breaker::ticks_until(until));
                return Some(());
            }
            Stand::Shut { .. } => false,
            Stand::Probing { .. } => false,
            Stand::Probe => self.may_probe(state, lead),
            Stand::Flow | Stand::Deleted => room,
        };
        match self.settings.ordered {
            true => self.release_in_order(state, who, lead, may),
            false => self.release_head(state, who, may, stands),
        }
    }

    /// A probe that came back to the lane without a request moves no breaker, so another goes
    /// also when nothing is on its way any more.
    fn may_probe(&self, state: &State, lead: Lead) -> bool {
        match self.has(Flaw::ProbeUntilBreakerMoves) {
            true => !lead.probed,
            false => state.deliveries.is_empty(),
        }
    }

    /// Writes why the lane is active, if that has changed. `None` when there is nothing to
    /// tell.
    fn tell_reason(
        &self,
        state: &mut State,
        who: usize,
        lead: Lead,
        stands: Stand,
    ) -> Option<Option<()>> {
        let key = state.key.key?;
        let (reason, wait) = match stands {
            Stand::Shut { reason, until } => (reason, crate::breaker::ticks_until(until)),
            Stand::Probe | Stand::Probing { .. } => (LaneReason::Probing, 0),
            Stand::Flow | Stand::Deleted if self.settings.ordered => (LaneReason::Fifo, 0),
            Stand::Flow | Stand::Deleted => (LaneReason::Draining, 0),
        };
        let moved = self.moved(key, reason, wait)?;
        if lead.lost {
            // The compare-and-swap failed; it is read anew.
            let mine = self.is_mine(lead, state.key.owner());
            match &mut state.schedulers[who].own {
                Own::Lead(lead) if mine => lead.lost = false,
                own => *own = Own::Idle,
            }
            return Some(Some(()));
        }
        state.write_key(Some(moved));
        if let Own::Lead(lead) = &mut state.schedulers[who].own {
            lead.lost = false;
        }
        // A reason that begins no hold is nothing to anybody but operators.
        let plain = moved.epoch == key.epoch && !self.settings.each_write;
        (!plain).then_some(Some(()))
    }

    fn release_head(&self, state: &mut State, who: usize, may: bool, stands: Stand) -> Option<()> {
        let Some(head) = state.lane.as_slice().first().copied() else {
            state.set_next(who, Next::Delete);
            return Some(());
        };
        if !may {
            return None;
        }
        let parcel = Parcel {
            epoch: state.key.epoch(),
            ..head.next_hop()
        };
        let by_breaker = self.has(Flaw::ProbeUntilBreakerMoves);
        if let Own::Lead(lead) = &mut state.schedulers[who].own {
            lead.probed |= stands == Stand::Probe && by_breaker;
            lead.next = Next::Publish(parcel);
        }
        Some(())
    }

    fn release_in_order(&self, state: &mut State, who: usize, lead: Lead, may: bool) -> Option<()> {
        if state.lane.is_empty() {
            state.set_next(who, Next::AckToken);
            return Some(());
        }
        let head = self.head(state)?;
        let story = state.stories[usize::from(head.event)];
        let Some(next) = self.templates.fold(head, &story) else {
            let at = state.lane.find(head)?;
            state.lane.remove(at);
            return Some(());
        };
        if next.due > 0 {
            give_back(state, who, lead, next.due);
            return Some(());
        }
        if self.has(Flaw::NextBeforeRecord) && story.sent & crate::story::bit(next.hop) != 0 {
            let at = state.lane.find(head)?;
            state.lane.remove(at);
            return Some(());
        }
        let on_its_way = !state.deliveries.is_empty();
        let known = story.sent & crate::story::bit(next.hop) != 0;
        if !may || on_its_way || known {
            return None;
        }
        let parcel = Parcel {
            epoch: state.key.epoch(),
            ..next
        };
        if let Own::Lead(lead) = &mut state.schedulers[who].own {
            lead.probed = false;
            lead.next = Next::Publish(parcel);
        }
        Some(())
    }

    fn head(&self, state: &State) -> Option<Parcel> {
        let mut order = Order::default();
        for (parcel, place) in state.lane.as_slice().iter().zip(1_u64..) {
            order.add(u64::from(parcel.event) + 1, place);
        }
        let floor = match self.has(Flaw::IgnoreAckFloor) {
            true => u64::MAX,
            false => state.ack_floor(),
        };
        let (_, place) = order.head(floor)?;
        let at = usize::try_from(place).ok()?.checked_sub(1)?;
        state.lane.as_slice().get(at).copied()
    }
}

/// The token comes back in `rest` ticks, if the owner still has it; the owner forgets it.
fn give_back(state: &mut State, who: usize, lead: Lead, rest: u8) {
    if lead.live {
        state.token = Token::Waiting { rest, fresh: false };
    }
    state.schedulers[who].own = Own::Idle;
}
