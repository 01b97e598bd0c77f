//! One state for all that differ in names only.
//!
//! Copies of a service are alike, and so are events that nobody orders. Generations and epochs
//! are compared and nothing else, so they are numbered anew in the same order; hops are counted
//! from the oldest copy that is still about; and what was forgotten is forgotten. Without this
//! a lane that is opened and closed for ever would have no end of states.

use crate::breaker::Breaker;
use crate::parcel::Parcels;
use crate::settings::{Flaw, Settings};
use crate::state::{COPIES, EVENTS, Next, Own, State, Token, Work};

/// The state that stands for all those that differ from `state` in names only.
#[must_use]
pub fn canonical(mut state: State, settings: &Settings) -> State {
    state.forget_purges_that_are_done();
    state.count_hops_from_the_oldest();
    state.rank_generations();
    if state.left.lags == 0 {
        if settings.flaw != Some(Flaw::OwnerByNumber) {
            state.stop_former_owners();
        }
        state.key.old_epoch = state.key.epoch();
        state.key.old_owner = state.key.owner();
        state.old_breaker = state.breaker;
    }
    state.rank_epochs();
    if settings.flaw != Some(Flaw::OwnerByNumber) {
        state.rank_owners();
    }
    if !settings.ordered {
        state.sort_events();
    }
    sort(&mut state.deliveries);
    sort(&mut state.retries);
    state.sort_copies(settings);
    state
}

fn sort(parcels: &mut Parcels) {
    parcels.as_mut_slice().sort_unstable();
}

/// Every value in use, numbered in order from 0.
#[derive(Clone, Copy, Default)]
struct Ranks {
    used: u64,
}

impl Ranks {
    fn add(&mut self, value: u8) {
        assert!(value < 64, "values are numbered anew after every step");
        self.used |= 1 << value;
    }

    fn rank(self, value: u8) -> u8 {
        let below = self.used & ((1 << value) - 1);
        u8::try_from(below.count_ones()).unwrap_or(u8::MAX)
    }
}

impl State {
    /// What left a lane never comes back to it under the same id.
    fn forget_purges_that_are_done(&mut self) {
        let lane = self.lane;
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own
                && let Next::Purge(parcel) = lead.next
                && lane.find(parcel).is_none()
            {
                lead.next = Next::Look;
            }
        }
    }

    /// An owner that is none and sees everything does nothing but stop; it never becomes one
    /// again by itself.
    fn stop_former_owners(&mut self) {
        let owner = self.key.owner();
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = scheduler.own
                && lead.next == Next::Look
                && owner.is_none_or(|(number, since)| (number, since) != lead.me)
            {
                scheduler.own = Own::Idle;
            }
        }
    }

    fn count_hops_from_the_oldest(&mut self) {
        let mut oldest = [u8::MAX; EVENTS];
        self.each_parcel(&mut |parcel| {
            let event = usize::from(parcel.event);
            oldest[event] = oldest[event].min(parcel.hop);
        });
        for (event, base) in oldest.into_iter().enumerate() {
            if self.stories[event].waiting {
                oldest[event] = 0;
            } else if base == u8::MAX {
                self.stories[event] = self.stories[event].closed();
            } else {
                self.stories[event] = self.stories[event].rebased(base);
            }
        }
        for breaker in [&mut self.breaker, &mut self.old_breaker] {
            breaker.probe = breaker.probe.and_then(|(event, hop)| {
                let base = oldest[usize::from(event)];
                Some((event, hop.checked_sub(base)?))
            });
        }
        self.each_parcel(&mut |parcel| parcel.hop -= oldest[usize::from(parcel.event)]);
        self.forget_records_of_the_gone();
    }

    /// What a record told is asked for by whoever meets the same message again.
    fn forget_records_of_the_gone(&mut self) {
        let mut about = [0_u16; EVENTS];
        self.each_parcel(&mut |parcel| {
            about[usize::from(parcel.event)] |= crate::story::bit(parcel.hop);
        });
        for (story, about) in self.stories.iter_mut().zip(about) {
            let last = story.last.hop_and_one;
            if last > 0 && !story.waiting && about & crate::story::bit(last - 1) == 0 {
                story.last.generation = 0;
                story.last.probe = false;
                if story.due == 0 {
                    story.last = crate::story::Record::default();
                }
            }
        }
    }

    fn each_generation(&mut self, with: &mut impl FnMut(&mut u8)) {
        with(&mut self.breaker.generation);
        with(&mut self.old_breaker.generation);
        for story in &mut self.stories {
            if story.last.hop_and_one > 0 {
                with(&mut story.last.generation);
            }
        }
        for work in &mut self.dispatchers {
            if let Work::InFlight { generation, .. } | Work::Tell { generation, .. } = work {
                with(generation);
            }
        }
    }

    fn rank_generations(&mut self) {
        let mut ranks = Ranks::default();
        self.each_generation(&mut |generation| ranks.add(*generation));
        self.each_generation(&mut |generation| *generation = ranks.rank(*generation));
    }

    fn each_epoch(&mut self, with: &mut impl FnMut(&mut u8)) {
        if let Some(key) = &mut self.key.key {
            with(&mut key.epoch);
            with(&mut key.since);
        }
        with(&mut self.key.old_epoch);
        if let Some((_, since)) = &mut self.key.old_owner {
            with(since);
        }
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own {
                with(&mut lead.me.1);
                if let Next::LookAgain(key) = &mut lead.next {
                    with(&mut key.epoch);
                    with(&mut key.since);
                }
            }
        }
        self.each_parcel(&mut |parcel| with(&mut parcel.epoch));
    }

    fn rank_epochs(&mut self) {
        // 0 is no epoch, and keeps its place.
        let mut ranks = Ranks::default();
        ranks.add(0);
        self.each_epoch(&mut |epoch| ranks.add(*epoch));
        self.each_epoch(&mut |epoch| *epoch = ranks.rank(*epoch));
    }

    fn each_owner(&mut self, with: &mut impl FnMut(&mut u8)) {
        if let Some(key) = &mut self.key.key {
            with(&mut key.owner);
        }
        if let Some((owner, _)) = &mut self.key.old_owner {
            with(owner);
        }
        for scheduler in &mut self.schedulers {
            if let Own::Lead(lead) = &mut scheduler.own {
                with(&mut lead.me.0);
                if let Next::LookAgain(key) = &mut lead.next {
                    with(&mut key.owner);
                }
            }
        }
    }

    fn rank_owners(&mut self) {
        // 0 is nobody, and keeps its place.
        let mut ranks = Ranks::default();
        ranks.add(0);
        self.each_owner(&mut |owner| ranks.add(*owner));
        self.each_owner(&mut |owner| *owner = ranks.rank(*owner));
    }

    fn sort_copies(&mut self, settings: &Settings) {
        self.dispatchers[..settings.dispatchers].sort_unstable();
        if settings.schedulers == COPIES && self.schedulers[0] > self.schedulers[1] {
            self.schedulers.swap(0, 1);
            if let Token::Held(by) = &mut self.token {
                *by = 1 - *by;
            }
        }
    }

    /// By what is known of each. Two that are alike in everything that counts here stay as they
    /// are, which costs a state and nothing else.
    fn sort_events(&mut self) {
        let marks = self.marks();
        let mut order = [0, 1, 2];
        order.sort_by_key(|event| marks[*event]);
        if order == [0, 1, 2] {
            return;
        }
        let mut place = [0_u8; EVENTS];
        for (to, from) in order.into_iter().enumerate() {
            place[from] = u8::try_from(to).unwrap_or(0);
        }
        self.stories = order.map(|event| self.stories[event]);
        for breaker in [&mut self.breaker, &mut self.old_breaker] {
            if let Some((event, _)) = &mut breaker.probe {
                *event = place[usize::from(*event)];
            }
        }
        for scheduler in &mut self.schedulers {
            if let Some(event) = scheduler.work.event_mut() {
                *event = place[usize::from(*event)];
            }
        }
        self.each_parcel(&mut |parcel| parcel.event = place[usize::from(parcel.event)]);
    }

    /// A number for each event that does not depend on its name.
    fn marks(&mut self) -> [u64; EVENTS] {
        let mut marks = [0; EVENTS];
        for (mark, story) in marks.iter_mut().zip(&self.stories) {
            *mark = story.mark();
        }
        let mut place = 0;
        self.each_parcel(&mut |parcel| {
            let mark = &mut marks[usize::from(parcel.event)];
            let anonymous = crate::parcel::Parcel {
                event: 0,
                ..*parcel
            };
            *mark = mark.wrapping_add(mix(anonymous.packed()));
        });
        for parcel in self.lane.as_slice() {
            place += 1;
            let mark = &mut marks[usize::from(parcel.event)];
            *mark = mark.wrapping_add(mix(place << 32 | u64::from(parcel.hop)));
        }
        for (salt, breaker) in [(1_u64, self.breaker), (2, self.old_breaker)] {
            self.mark_probe(&mut marks, salt, breaker);
        }
        for scheduler in &mut self.schedulers {
            if let Some(event) = scheduler.work.event_mut() {
                let mark = &mut marks[usize::from(*event)];
                *mark = mark.wrapping_add(mix(77));
            }
        }
        marks
    }

    fn mark_probe(&self, marks: &mut [u64; EVENTS], salt: u64, breaker: Breaker) {
        if let Some((event, hop)) = breaker.probe {
            let mark = &mut marks[usize::from(event)];
            *mark = mark.wrapping_add(mix(salt << 40 | u64::from(hop)));
        }
    }
}

impl Work {
    fn event_mut(&mut self) -> Option<&mut u8> {
        use crate::state::Input;
        match self {
            Work::Park {
                input: Input::Event(event),
                ..
            }
            | Work::Ack(Input::Event(event)) => Some(event),
            _ => None,
        }
    }
}

impl crate::story::Story {
    fn mark(&self) -> u64 {
        let flags = [self.waiting, self.complete, self.dead, self.letter];
        let flags = flags
            .into_iter()
            .fold(0_u64, |bits, flag| bits << 1 | u64::from(flag));
        let seen = u64::from(self.sent) << 32 | u64::from(self.laned) << 16;
        let records = u64::from(self.again) << 32 | u64::from(self.ended) << 16;
        let last = u64::from(self.last.hop_and_one) << 8 | u64::from(self.last.generation);
        let rest = u64::from(self.retried) << 16 | u64::from(self.due) << 8;
        mix(mix(seen | flags) ^ mix(records | last) ^ rest)
    }
}

/// The finaliser of splitmix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::Parcel;

    fn parcel(event: u8, hop: u8) -> Parcel {
        Parcel {
            event,
            hop,
            attempt: 1,
            ..Parcel::default()
        }
    }

    #[test]
    fn states_that_differ_in_names_only_are_one() {
        let settings = crate::suite::unordered();
        let state = |event: u8, who: usize, generation: u8| {
            let mut state = State::default();
            state.deliveries.push(parcel(event, 4));
            state.dispatchers[who] = Work::InFlight {
                parcel: parcel(event, 4),
                generation,
                probe: false,
            };
            state.breaker.generation = generation;
            canonical(state, &settings)
        };
        assert_eq!(state(0, 0, 3), state(2, 1, 9));
        let other = {
            let mut state = State::default();
            state.deliveries.push(parcel(0, 4));
            state
        };
        assert_ne!(state(0, 0, 3), canonical(other, &settings));
    }

    #[test]
    fn an_event_whose_copies_are_gone_has_no_history() {
        let mut state = State::default();
        state.stories[1].complete = true;
        state.stories[1].sent = 0b1010;
        let canonical = canonical(state, &crate::suite::ordered());
        assert_eq!(canonical.stories[1].sent, 0);
        assert!(canonical.stories[1].complete);
    }
}
