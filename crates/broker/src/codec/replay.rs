//! Replay jobs.

use super::{DecodeError, Wire, check, decode, encode, optional_time, time_out};
use bytes::Bytes;
use posthorn_delivery::{Counted, EndpointId, Recovery, ReplayJob, ReplayState, UnixMillis};
use posthorn_proto::v1;

impl Wire for ReplayJob {
    fn to_wire(&self) -> Bytes {
        encode(&v1::ReplayJob {
            id: self.id.clone(),
            filter_json: self.filter.clone(),
            rate_per_second: self.rate_per_second,
            created_at_ms: self.created_at.0,
            upper_seq: self.upper,
            cursor_seq: self.cursor,
            replayed: self.replayed,
            skipped: self.skipped,
            matched: self.matched,
            state: state_out(self.state).into(),
            updated_at_ms: self.updated_at.0,
            owner: self.owner.clone(),
            lease_until_ms: self.lease_until.0,
            tenant: self.tenant.clone(),
            recovery: self.recovery.as_ref().map(recovery_out),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<ReplayJob, DecodeError> {
        let message = decode::<v1::ReplayJob>(bytes, "ReplayJob")?;
        let state = state_in(message.state());
        Ok(ReplayJob {
            id: message.id,
            filter: message.filter_json,
            rate_per_second: message.rate_per_second.max(1),
            created_at: UnixMillis(message.created_at_ms),
            upper: message.upper_seq,
            cursor: message.cursor_seq,
            matched: message.matched,
            replayed: message.replayed,
            skipped: message.skipped,
            state,
            updated_at: UnixMillis(message.updated_at_ms),
            owner: message.owner,
            lease_until: UnixMillis(message.lease_until_ms),
            tenant: message.tenant,
            recovery: message.recovery.as_ref().map(recovery_in).transpose()?,
        })
    }
}

fn recovery_out(recovery: &Recovery) -> v1::Recovery {
    v1::Recovery {
        endpoint_id: recovery.endpoint.to_string(),
        since_ms: recovery.since.0,
        until_ms: time_out(recovery.until),
        include_delivered: recovery.include_delivered,
        dry_run: recovery.dry_run,
        counted: recovery.counted.map(|counted| v1::Counted {
            delivered: counted.delivered,
            under_way: counted.under_way,
        }),
    }
}

fn recovery_in(message: &v1::Recovery) -> Result<Recovery, DecodeError> {
    let endpoint = EndpointId::parse(&message.endpoint_id);
    Ok(Recovery {
        endpoint: check!("Recovery", "endpoint_id", endpoint),
        since: UnixMillis(message.since_ms),
        until: optional_time(message.until_ms),
        include_delivered: message.include_delivered,
        dry_run: message.dry_run,
        counted: message.counted.as_ref().map(|counted| Counted {
            delivered: counted.delivered,
            under_way: counted.under_way,
        }),
    })
}

fn state_out(state: ReplayState) -> v1::ReplayState {
    match state {
        ReplayState::Running => v1::ReplayState::Running,
        ReplayState::Paused => v1::ReplayState::Paused,
        ReplayState::Cancelled => v1::ReplayState::Cancelled,
        ReplayState::Completed => v1::ReplayState::Completed,
    }
}

fn state_in(state: v1::ReplayState) -> ReplayState {
    match state {
        v1::ReplayState::Running => ReplayState::Running,
        v1::ReplayState::Paused => ReplayState::Paused,
        v1::ReplayState::Cancelled => ReplayState::Cancelled,
        v1::ReplayState::Completed => ReplayState::Completed,
    }
}
