//! What the services send each other. The first byte says which kind of message.

use bytes::Bytes;
use posthorn_broker::codec::{ApiKey, AuditEntry, DispatcherBeat, IdempotencyMark, Parked};
use posthorn_broker::{Waiting, Wire};
use posthorn_delivery::{
    Attempt, BreakerState, DeadLetter, Delivery, Endpoint, Event, LaneState, ReplayJob,
};
use std::fmt::Debug;

/// What can be read is written and read again as the same value.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    let bytes = Bytes::copy_from_slice(bytes);
    match kind % 13 {
        0 => survives::<Delivery>(bytes),
        1 => survives::<Waiting>(bytes),
        2 => survives::<LaneState>(bytes),
        3 => survives::<Parked>(bytes),
        4 => survives::<Event>(bytes),
        5 => survives::<Endpoint>(bytes),
        6 => survives::<Attempt>(bytes),
        7 => survives::<DeadLetter>(bytes),
        8 => survives::<BreakerState>(bytes),
        9 => survives::<ReplayJob>(bytes),
        10 => survives::<ApiKey>(bytes),
        11 => survives::<AuditEntry>(bytes),
        _ => {
            survives::<IdempotencyMark>(bytes.clone());
            survives::<DispatcherBeat>(bytes);
        }
    }
}

fn survives<T: Wire + Debug + PartialEq>(bytes: Bytes) {
    if let Ok(value) = T::from_wire(bytes) {
        let again = T::from_wire(value.to_wire());
        assert_eq!(
            again.as_ref(),
            Ok(&value),
            "another value when it is read again"
        );
    }
}
