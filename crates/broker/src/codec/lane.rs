//! Lanes: their state, and what lies in them.

use super::{DecodeError, Wire, check, decode, encode, field};
use bytes::Bytes;
use posthorn_delivery::{Delivery, LaneReason, LaneState, Tenant, UnixMillis};
use posthorn_proto::v1;

impl Wire for LaneState {
    fn to_wire(&self) -> Bytes {
        encode(&v1::LaneState {
            tenant: self.tenant.to_string(),
            reason: self.reason.as_str().to_owned(),
            hold_until_ms: self.hold_until.0,
            since_ms: self.since.0,
            epoch: self.epoch,
            owner: self.owner,
            rate_per_second: self.rate_per_second,
        })
    }

    fn from_wire(bytes: Bytes) -> Result<LaneState, DecodeError> {
        let message = decode::<v1::LaneState>(bytes, "LaneState")?;
        Ok(LaneState {
            tenant: check!("LaneState", "tenant", Tenant::parse_any(&message.tenant)),
            reason: LaneReason::parse(&message.reason).ok_or(field("LaneState", "reason"))?,
            hold_until: UnixMillis(message.hold_until_ms),
            since: UnixMillis(message.since_ms),
            epoch: message.epoch,
            owner: message.owner,
            rate_per_second: message.rate_per_second,
        })
    }
}

/// What lies in a lane. Bytes that are no delivery are a value too: they must be seen, or they
/// would be passed over and purged with what lies around them.
#[derive(Clone, Debug, PartialEq)]
pub enum Parked {
    /// A delivery.
    Delivery(Box<Delivery>),
    /// Bytes that cannot be read, and why.
    Unreadable(Bytes, DecodeError),
}

impl Wire for Parked {
    fn to_wire(&self) -> Bytes {
        match self {
            Parked::Delivery(delivery) => delivery.to_wire(),
            Parked::Unreadable(bytes, _) => bytes.clone(),
        }
    }

    fn from_wire(bytes: Bytes) -> Result<Parked, DecodeError> {
        Ok(match Delivery::from_wire(bytes.clone()) {
            Ok(delivery) => Parked::Delivery(Box::new(delivery)),
            Err(error) => Parked::Unreadable(bytes, error),
        })
    }
}
