//! The breaker in a few bytes. What it does is decided by the product's own functions: they
//! are called with the state spelled out, and their answer is packed again.

use posthorn_delivery::UnixMillis;
use posthorn_delivery::breaker::{BreakerState, Phase, Probe};
use std::time::Duration;

/// The present. Time is what is left until something, so the present never moves.
pub const NOW: UnixMillis = UnixMillis(1_000_000);
/// Every wait is as long as this, so that all there is to know is whether it is over.
pub const TICK: Duration = Duration::from_millis(10);

/// A breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Breaker {
    /// 0 closed, 1 open, 2 half open.
    pub phase: u8,
    /// By rank among the generations that anybody knows of.
    pub generation: u8,
    /// Ticks until a probe may be claimed, while open, or until the lease ends, while half open.
    pub wait: u8,
    /// The probe's event and hop; `None` also when that delivery is no more.
    pub probe: Option<(u8, u8)>,
}

/// A breaker is closed, open or half open.
const PHASES: [Phase; 3] = [Phase::Closed, Phase::Open, Phase::HalfOpen];

/// The text by which a breaker knows a delivery.
#[must_use]
pub fn message_id(event: u8, hop: u8) -> String {
    format!("{event}/{hop}")
}

/// A probe that is no more. It holds its lease all the same.
const GONE: &str = "gone";

fn parse_id(id: &str) -> Option<(u8, u8)> {
    let (event, hop) = id.split_once('/')?;
    Some((event.parse().ok()?, hop.parse().ok()?))
}

/// When `ticks` are over.
#[must_use]
pub fn after(ticks: u8) -> UnixMillis {
    NOW + TICK * u32::from(ticks)
}

/// How many ticks there are until `at`.
#[must_use]
pub fn ticks_until(at: UnixMillis) -> u8 {
    let left = NOW.until(at).as_millis().div_ceil(TICK.as_millis());
    u8::try_from(left).unwrap_or(u8::MAX)
}

impl Breaker {
    /// Spelled out.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        let phase = PHASES[usize::from(self.phase)];
        let probe = (phase == Phase::HalfOpen).then(|| Probe {
            delivery: self
                .probe
                .map_or_else(|| GONE.to_owned(), |(event, hop)| message_id(event, hop)),
            lease_until: after(self.wait),
        });
        BreakerState {
            phase,
            generation: u64::from(self.generation),
            open_until: after(self.wait),
            probe,
            ..BreakerState::default()
        }
    }

    /// Packed. The count of failures and of failed probes is left out: one failure opens, and
    /// all cooldowns are alike.
    #[must_use]
    pub fn of(state: &BreakerState) -> Breaker {
        let probe = state.probe.as_ref();
        let (phase, wait) = match state.phase {
            Phase::Closed => (0, 0),
            Phase::Open => (1, ticks_until(state.open_until)),
            Phase::HalfOpen => (2, probe.map_or(0, |probe| ticks_until(probe.lease_until))),
        };
        Breaker {
            phase,
            generation: u8::try_from(state.generation).unwrap_or(u8::MAX),
            wait,
            probe: probe.and_then(|probe| parse_id(&probe.delivery)),
        }
    }
}
