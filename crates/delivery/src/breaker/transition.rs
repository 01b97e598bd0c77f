//! How a breaker moves.

use super::state::{BreakerPolicy, BreakerSignal, BreakerState, Phase, Probe};
use crate::time::UnixMillis;
use std::time::Duration;

/// What an attempt reports back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The generation that it started under.
    pub generation: u64,
    /// Whether it was the probe.
    pub probe: bool,
    /// What it says about the receiver.
    pub signal: BreakerSignal,
    /// Failures that this report stands for: those that came while an earlier report was
    /// being written are added up. At least 1 for a failure.
    pub count: u32,
    /// Until when the receiver asked to be left alone.
    pub hold_until: Option<UnixMillis>,
}

/// The state in which `delivery` holds the probe: the caller writes it by compare-and-swap
/// over the state it read, and whoever's write is taken sends the one probe.
#[must_use]
pub fn claim(
    state: &BreakerState,
    delivery: &str,
    lease: Duration,
    now: UnixMillis,
) -> BreakerState {
    BreakerState {
        phase: Phase::HalfOpen,
        generation: state.generation + 1,
        probe: Some(Probe {
            delivery: delivery.to_owned(),
            lease_until: now + lease,
        }),
        reason: "probing".to_owned(),
        ..state.clone()
    }
}

/// The state after an attempt, or `None` when it changes nothing.
#[must_use]
pub fn observe(
    state: &BreakerState,
    policy: Option<&BreakerPolicy>,
    attempted: Attempted,
    now: UnixMillis,
) -> Option<BreakerState> {
    let moved = policy
        .filter(|_| attempted.generation == state.generation)
        .and_then(|policy| transition(state, policy, attempted, now));
    let Some(asked) = attempted
        .hold_until
        .filter(|until| *until > state.hold_until)
    else {
        return moved;
    };
    Some(hold(&moved.unwrap_or_else(|| state.clone()), asked))
}

/// The state in which the whole endpoint is left alone until `until`; never shortens a hold.
#[must_use]
pub fn hold(state: &BreakerState, until: UnixMillis) -> BreakerState {
    BreakerState {
        hold_until: state.hold_until.max(until),
        ..state.clone()
    }
}

fn transition(
    state: &BreakerState,
    policy: &BreakerPolicy,
    attempted: Attempted,
    now: UnixMillis,
) -> Option<BreakerState> {
    match state.phase {
        Phase::Closed => count(state, policy, attempted, now),
        Phase::HalfOpen if attempted.probe => Some(conclude(state, policy, attempted, now)),
        Phase::HalfOpen | Phase::Open => None,
    }
}

fn count(
    state: &BreakerState,
    policy: &BreakerPolicy,
    attempted: Attempted,
    now: UnixMillis,
) -> Option<BreakerState> {
    match attempted.signal {
        BreakerSignal::Neutral => None,
        BreakerSignal::Success if state.consecutive_failures == 0 => None,
        BreakerSignal::Success => Some(BreakerState {
            consecutive_failures: 0,
            ..state.clone()
        }),
        BreakerSignal::Failure => {
            let failures = state
                .consecutive_failures
                .saturating_add(attempted.count.max(1));
            if failures < policy.failure_threshold() {
                return Some(BreakerState {
                    consecutive_failures: failures,
                    ..state.clone()
                });
            }
            Some(open(state, failures, policy, now))
        }
    }
}

fn open(
    state: &BreakerState,
    failures: u32,
    policy: &BreakerPolicy,
    now: UnixMillis,
) -> BreakerState {
    BreakerState {
        phase: Phase::Open,
        consecutive_failures: failures,
        opened_at: now,
        open_until: now + policy.cooldown(),
        generation: state.generation + 1,
        probe: None,
        reason: format!("{failures} consecutive failures"),
        failed_probes: 0,
        ..state.clone()
    }
}

/// The probe came back: an answer closes, anything else re-opens for longer. A receiver that
/// asked for quiet gets at least that.
fn conclude(
    state: &BreakerState,
    policy: &BreakerPolicy,
    attempted: Attempted,
    now: UnixMillis,
) -> BreakerState {
    if attempted.signal == BreakerSignal::Success {
        return BreakerState {
            phase: Phase::Closed,
            consecutive_failures: 0,
            generation: state.generation + 1,
            probe: None,
            reason: "the probe was answered".to_owned(),
            failed_probes: 0,
            ..state.clone()
        };
    }
    let failed_probes = state.failed_probes.saturating_add(1);
    let cooled = now + policy.cooldown_after(failed_probes);
    BreakerState {
        phase: Phase::Open,
        open_until: attempted
            .hold_until
            .map_or(cooled, |asked| cooled.max(asked)),
        generation: state.generation + 1,
        probe: None,
        reason: format!("{failed_probes} failed probes"),
        failed_probes,
        ..state.clone()
    }
}

/// An operator opens it until `until`; after that it probes like any other.
#[must_use]
pub fn open_by_hand(state: &BreakerState, until: UnixMillis, now: UnixMillis) -> BreakerState {
    BreakerState {
        phase: Phase::Open,
        opened_at: if state.phase == Phase::Closed {
            now
        } else {
            state.opened_at
        },
        open_until: until,
        generation: state.generation + 1,
        probe: None,
        reason: "opened by hand".to_owned(),
        ..state.clone()
    }
}

/// An operator closes it, and lifts a hold.
#[must_use]
pub fn close_by_hand(state: &BreakerState) -> BreakerState {
    BreakerState {
        generation: state.generation + 1,
        target_epoch: state.target_epoch,
        reason: "closed by hand".to_owned(),
        ..BreakerState::default()
    }
}
