//! Small values of the buckets.

use super::{DecodeError, Wire, check, field};
use bytes::Bytes;
use posthorn_delivery::EventId;

/// What an idempotency key stands for, kept for 24 hours after its event was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyMark {
    /// The event.
    pub event_id: EventId,
    /// A hash of what was published under the key: another body under the same key is a
    /// mistake of the caller that must not pass silently.
    pub fingerprint: u128,
}

impl Wire for IdempotencyMark {
    fn to_wire(&self) -> Bytes {
        format!("{} {:032x}", self.event_id, self.fingerprint).into()
    }

    fn from_wire(bytes: Bytes) -> Result<IdempotencyMark, DecodeError> {
        let text =
            std::str::from_utf8(&bytes).map_err(|_| DecodeError::Malformed("IdempotencyMark"))?;
        let (event, fingerprint) = text
            .split_once(' ')
            .ok_or(field("IdempotencyMark", "fingerprint"))?;
        Ok(IdempotencyMark {
            event_id: check!("IdempotencyMark", "event_id", EventId::parse(event)),
            fingerprint: check!(
                "IdempotencyMark",
                "fingerprint",
                u128::from_str_radix(fingerprint, 16)
            ),
        })
    }
}

/// A dispatcher's sign of life. Its age says whether the dispatcher lives; the value is for
/// people who look into the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherBeat {
    /// Requests that it may have in flight.
    pub concurrency: u32,
}

impl Wire for DispatcherBeat {
    fn to_wire(&self) -> Bytes {
        self.concurrency.to_string().into()
    }

    fn from_wire(bytes: Bytes) -> Result<DispatcherBeat, DecodeError> {
        let text =
            std::str::from_utf8(&bytes).map_err(|_| DecodeError::Malformed("DispatcherBeat"))?;
        Ok(DispatcherBeat {
            concurrency: check!("DispatcherBeat", "concurrency", text.parse()),
        })
    }
}
