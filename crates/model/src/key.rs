//! The key of the lane in a few bytes; the product's functions move it.

use crate::breaker::{after, ticks_until};
use posthorn_delivery::{LaneReason, LaneState, Tenant, UnixMillis};

/// The key of the lane. Epochs are by rank among those that anybody knows of, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Rises at opening and whenever a hold begins.
    pub epoch: u8,
    /// The epoch at its opening, which tells it from the lane before it.
    pub since: u8,
    /// Rises whenever its token is taken.
    pub owner: u8,
    /// Why it is active, as a place in [`LaneReason::ALL`].
    pub reason: u8,
    /// Ticks until it ends, as far as is known.
    pub until: u8,
}

/// What is known of the lane: the key, and how it looked to whoever is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// As it is.
    pub key: Option<Key>,
    /// The epoch before the last change of it; 0 when there was no key.
    pub old_epoch: u8,
    /// Who owned it before the last change of that.
    pub old_owner: Option<(u8, u8)>,
}

impl Lane {
    /// The epoch; 0 when there is no key.
    #[must_use]
    pub fn epoch(&self) -> u8 {
        self.key.map_or(0, |key| key.epoch)
    }

    /// Who owns it, and since when it is active.
    #[must_use]
    pub fn owner(&self) -> Option<(u8, u8)> {
        self.key.map(|key| (key.owner, key.since))
    }

    /// Puts `key` in place of what is there.
    pub fn write(&mut self, key: Option<Key>) {
        let (epoch, owner) = (self.epoch(), self.owner());
        self.key = key;
        if self.epoch() != epoch {
            self.old_epoch = epoch;
        }
        if self.owner() != owner {
            self.old_owner = owner;
        }
    }
}

impl Key {
    /// Spelled out.
    #[must_use]
    pub fn state(&self, tenant: &Tenant) -> LaneState {
        LaneState {
            tenant: tenant.clone(),
            reason: LaneReason::ALL[usize::from(self.reason)],
            hold_until: hold_until(self.until),
            since: UnixMillis(i64::from(self.since)),
            epoch: u64::from(self.epoch),
            owner: u64::from(self.owner),
            rate_per_second: 0,
        }
    }

    /// Packed.
    #[must_use]
    pub fn of(state: &LaneState) -> Key {
        let reason = LaneReason::ALL
            .iter()
            .position(|reason| *reason == state.reason);
        Key {
            epoch: small(state.epoch),
            since: small(u64::try_from(state.since.0).unwrap_or(0)),
            owner: small(state.owner),
            reason: small(reason.unwrap_or(0) as u64),
            until: ticks_until(state.hold_until),
        }
    }
}

/// When a hold ends that has `ticks` to go; unset when it is over or was never known.
#[must_use]
pub fn hold_until(ticks: u8) -> UnixMillis {
    match ticks {
        0 => UnixMillis(0),
        ticks => after(ticks),
    }
}

fn small(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
