//! Entries of the register of dead letters.

use super::delivery::{result_in, result_out};
use super::{DecodeError, Wire, check, decode, encode, field, optional_text};
use bytes::Bytes;
use posthorn_delivery::{AttemptResult, EndpointId, LetterEntry, LetterId, Reason, UnixMillis};
use posthorn_proto::v1;

impl Wire for LetterEntry {
    fn to_wire(&self) -> Bytes {
        let (status, error) = self.last.map(result_out).unwrap_or_default();
        let endpoint = self.endpoint_id.as_ref().map(ToString::to_string);
        encode(&v1::LetterEntry {
            letter_id: self.letter.to_string(),
            tenant: self.tenant.clone(),
            event_type: self.event_type.clone(),
            endpoint_id: endpoint.unwrap_or_default(),
            reason: self.reason.as_str().to_owned(),
            detail: self.detail.clone(),
            died_at_ms: self.died_at.0,
            status,
            error,
            answer: self.answer.clone(),
            payload_bytes: self.payload_bytes,
        })
    }

    fn from_wire(bytes: Bytes) -> Result<LetterEntry, DecodeError> {
        let message = decode::<v1::LetterEntry>(bytes, "LetterEntry")?;
        let endpoint = optional_text(message.endpoint_id)
            .map(|id| EndpointId::parse(&id))
            .transpose();
        Ok(LetterEntry {
            letter: check!(
                "LetterEntry",
                "letter_id",
                LetterId::parse(&message.letter_id)
            ),
            endpoint_id: check!("LetterEntry", "endpoint_id", endpoint),
            reason: Reason::parse(&message.reason).ok_or(field("LetterEntry", "reason"))?,
            last: last(message.status, &message.error)?,
            tenant: message.tenant,
            event_type: message.event_type,
            detail: message.detail,
            died_at: UnixMillis(message.died_at_ms),
            answer: message.answer,
            payload_bytes: message.payload_bytes,
        })
    }
}

/// Neither a status nor an error: there was no attempt.
fn last(status: u32, error: &str) -> Result<Option<AttemptResult>, DecodeError> {
    if status == 0 && error.is_empty() {
        return Ok(None);
    }
    result_in(status, error).map(Some)
}
