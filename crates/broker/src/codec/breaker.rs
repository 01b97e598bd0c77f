//! Breaker states.

use super::{DecodeError, Wire, decode, encode};
use bytes::Bytes;
use posthorn_delivery::breaker::{Phase, Probe};
use posthorn_delivery::{BreakerState, UnixMillis};
use posthorn_proto::v1;

/// Keeps the encoding of a quiet breaker from being empty.
const FORMAT: u32 = 1;

impl Wire for BreakerState {
    fn to_wire(&self) -> Bytes {
        let probe = self.probe.as_ref().map(|probe| v1::Probe {
            delivery: probe.delivery.clone(),
            lease_until_ms: probe.lease_until.0,
        });
        encode(&v1::BreakerState {
            phase: phase_out(self.phase).into(),
            consecutive_failures: self.consecutive_failures,
            opened_at_ms: self.opened_at.0,
            open_until_ms: self.open_until.0,
            generation: self.generation,
            probe,
            reason: self.reason.clone(),
            failed_probes: self.failed_probes,
            hold_until_ms: self.hold_until.0,
            target_epoch: self.target_epoch,
            format: FORMAT,
        })
    }

    fn from_wire(bytes: Bytes) -> Result<BreakerState, DecodeError> {
        let message = decode::<v1::BreakerState>(bytes, "BreakerState")?;
        let phase = phase_in(message.phase());
        let probe = message.probe.map(|probe| Probe {
            delivery: probe.delivery,
            lease_until: UnixMillis(probe.lease_until_ms),
        });
        Ok(BreakerState {
            phase,
            consecutive_failures: message.consecutive_failures,
            opened_at: UnixMillis(message.opened_at_ms),
            open_until: UnixMillis(message.open_until_ms),
            generation: message.generation,
            probe,
            reason: message.reason,
            failed_probes: message.failed_probes,
            hold_until: UnixMillis(message.hold_until_ms),
            target_epoch: message.target_epoch,
        })
    }
}

fn phase_out(phase: Phase) -> v1::BreakerPhase {
    match phase {
        Phase::Closed => v1::BreakerPhase::Closed,
        Phase::Open => v1::BreakerPhase::Open,
        Phase::HalfOpen => v1::BreakerPhase::HalfOpen,
    }
}

fn phase_in(phase: v1::BreakerPhase) -> Phase {
    match phase {
        v1::BreakerPhase::Closed => Phase::Closed,
        v1::BreakerPhase::Open => Phase::Open,
        v1::BreakerPhase::HalfOpen => Phase::HalfOpen,
    }
}
