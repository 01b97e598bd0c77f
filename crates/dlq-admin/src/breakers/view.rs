//! How a breaker is shown.

use crate::view::time_if_set;
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{BreakerState, Endpoint, UnixMillis};
use posthorn_http_api::time::to_rfc3339;
use serde::Serialize;
use utoipa::ToSchema;

/// The state of one endpoint's breaker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BreakerView {
    tenant: String,
    /// `ep_…`.
    pub(super) endpoint: String,
    /// `closed`, `open` or `half_open`.
    state: &'static str,
    /// Why, in words; may be empty.
    reason: String,
    /// Failures since the last success, while closed.
    consecutive_failures: u32,
    /// When it left `closed`.
    opened_at: Option<String>,
    /// Until when nothing is sent, while open.
    open_until: Option<String>,
    /// When a delivery may be let through as a probe: at the end of the cooldown, or when the
    /// lease of a probe that was not heard of ends.
    next_probe_at: Option<String>,
    /// The probe that is under way, while half open.
    probe: Option<ProbeView>,
    /// Until when the receiver asked to be left alone (`Retry-After`).
    hold_until: Option<String>,
    /// Deliveries that wait in the endpoint's lane; what is sent again is not counted.
    pub(super) backlog: u64,
    /// Raised by every transition.
    generation: u64,
}

/// A probe that is under way.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProbeView {
    /// The message id of the delivery that probes.
    delivery: String,
    /// When the slot is free again if nothing is heard of it.
    lease_until: String,
}

impl BreakerView {
    /// Without the backlog, which is asked for where a view is shown.
    pub(crate) fn new(endpoint: &Endpoint, state: &BreakerState, now: UnixMillis) -> BreakerView {
        let lease = state.probe.as_ref().map(|probe| probe.lease_until);
        let left_closed = state.phase != Phase::Closed;
        BreakerView {
            tenant: endpoint.tenant.to_string(),
            endpoint: endpoint.id.to_string(),
            state: state.phase.as_str(),
            reason: state.reason.clone(),
            consecutive_failures: state.consecutive_failures,
            opened_at: time_if_set(state.opened_at).filter(|_| left_closed),
            open_until: (state.phase == Phase::Open).then(|| to_rfc3339(state.open_until)),
            next_probe_at: match state.phase {
                Phase::Closed => None,
                Phase::Open => Some(to_rfc3339(state.open_until)),
                Phase::HalfOpen => lease.map(to_rfc3339),
            },
            probe: state.probe.as_ref().map(|probe| ProbeView {
                delivery: probe.delivery.clone(),
                lease_until: to_rfc3339(probe.lease_until),
            }),
            hold_until: (state.hold_until > now).then(|| to_rfc3339(state.hold_until)),
            backlog: 0,
            generation: state.generation,
        }
    }
}
