//! Dead letters.

use super::delivery::{history_in, history_out};
use super::{
    DecodeError, Wire, check, decode, encode, field, headers_in, headers_out, optional_text,
};
use bytes::Bytes;
use posthorn_delivery::{DeadLetter, EndpointId, LetterId, LetterState, Reason, UnixMillis};
use posthorn_proto::v1;

impl Wire for DeadLetter {
    fn to_wire(&self) -> Bytes {
        encode(&v1::DeadLetter {
            id: self.id.to_string(),
            tenant: self.tenant.clone(),
            event_id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            endpoint_id: self
                .endpoint_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            reason: self.reason.as_str().to_owned(),
            detail: self.detail.clone(),
            died_at_ms: self.died_at.0,
            accepted_at_ms: self.accepted_at.0,
            payload: self.payload.clone(),
            content_type: self.content_type.clone(),
            headers: headers_out(&self.headers),
            traceparent: self.traceparent.clone().unwrap_or_default(),
            history: history_out(&self.history),
            state: state_out(self.state).into(),
            replay_generation: self.replay_generation,
            state_since_ms: self.state_since.0,
            replays: self.replays,
            event_seq: self.event_seq,
            replay_id: self.replay_id.clone(),
            entry: self.entry,
            answer: self.answer.clone(),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<DeadLetter, DecodeError> {
        let message = decode::<v1::DeadLetter>(bytes, "DeadLetter")?;
        let state = state_in(message.state());
        let endpoint = optional_text(message.endpoint_id)
            .map(|id| EndpointId::parse(&id))
            .transpose();
        Ok(DeadLetter {
            id: check!("DeadLetter", "id", LetterId::parse(&message.id)),
            tenant: message.tenant,
            event_id: message.event_id,
            event_type: message.event_type,
            endpoint_id: check!("DeadLetter", "endpoint_id", endpoint),
            reason: Reason::parse(&message.reason).ok_or(field("DeadLetter", "reason"))?,
            detail: message.detail,
            died_at: UnixMillis(message.died_at_ms),
            accepted_at: UnixMillis(message.accepted_at_ms),
            payload: message.payload,
            content_type: message.content_type,
            headers: headers_in(message.headers),
            traceparent: optional_text(message.traceparent),
            history: history_in(message.history)?,
            state,
            state_since: UnixMillis(message.state_since_ms),
            replay_generation: message.replay_generation,
            replays: message.replays,
            event_seq: message.event_seq,
            replay_id: message.replay_id,
            entry: message.entry,
            answer: message.answer,
        })
    }
}

fn state_out(state: LetterState) -> v1::LetterState {
    match state {
        LetterState::Dead => v1::LetterState::Dead,
        LetterState::Replaying => v1::LetterState::Replaying,
        LetterState::Delivered => v1::LetterState::Delivered,
    }
}

fn state_in(state: v1::LetterState) -> LetterState {
    match state {
        v1::LetterState::Dead => LetterState::Dead,
        v1::LetterState::Replaying => LetterState::Replaying,
        v1::LetterState::Delivered => LetterState::Delivered,
    }
}
