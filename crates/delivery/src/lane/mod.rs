//! Lanes: the ordered queue of an endpoint whose deliveries may not flow freely now.
//!
//! A lane opens when a delivery may not be sent, closes when it is empty, and has one owner at
//! a time, which lets go what the state of the endpoint permits. Everything that decides about
//! it is here; a scheduler carries it out.

mod fifo;
mod flight;
mod limits;
mod pace;
mod stand;
mod state;

pub use fifo::{Head, Order, fold};
pub use flight::Flight;
pub use limits::{keeps_lane, most_in_flight};
pub use pace::Pace;
pub use stand::{Stand, stand};
pub use state::{LaneReason, LaneState};

use crate::delivery::Delivery;
use crate::ids::EndpointId;
use std::fmt;

/// Which of an endpoint's two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// What was published.
    Live,
    /// What is sent again for an operator: it never stands before live traffic.
    Replay,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId {
    /// Whose deliveries.
    pub endpoint: EndpointId,
    /// Live or replayed ones.
    pub kind: LaneKind,
}

impl LaneId {
    /// The lane of what was published to `endpoint`.
    #[must_use]
    pub fn live(endpoint: &EndpointId) -> LaneId {
        LaneId {
            endpoint: endpoint.clone(),
            kind: LaneKind::Live,
        }
    }

    /// The lane of what is sent to `endpoint` again.
    #[must_use]
    pub fn replay(endpoint: &EndpointId) -> LaneId {
        LaneId {
            endpoint: endpoint.clone(),
            kind: LaneKind::Replay,
        }
    }

    /// The lane that `delivery` waits in when it has to.
    #[must_use]
    pub fn of(delivery: &Delivery) -> LaneId {
        match delivery.replay {
            None => LaneId::live(&delivery.endpoint_id),
            Some(_) => LaneId::replay(&delivery.endpoint_id),
        }
    }

    /// Its key in the bucket, and the last tokens of its subjects.
    #[must_use]
    pub fn key(&self) -> String {
        self.to_string()
    }

    /// Reads a key.
    #[must_use]
    pub fn parse(key: &str) -> Option<LaneId> {
        let (endpoint, kind) = match key.split_once('.') {
            None => (key, LaneKind::Live),
            Some((endpoint, "replay")) => (endpoint, LaneKind::Replay),
            Some(_) => return None,
        };
        Some(LaneId {
            endpoint: EndpointId::parse(endpoint).ok()?,
            kind,
        })
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LaneKind::Live => write!(f, "{}", self.endpoint),
            LaneKind::Replay => write!(f, "{}.replay", self.endpoint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_nothing_else_is() {
        let endpoint = EndpointId::from_bits(7);
        for lane in [LaneId::live(&endpoint), LaneId::replay(&endpoint)] {
            assert_eq!(LaneId::parse(&lane.key()), Some(lane));
        }
        for bad in ["", "ep_1", "ep_1.replay", &format!("{endpoint}.other")] {
            assert_eq!(LaneId::parse(bad), None, "{bad:?}");
        }
    }
}
