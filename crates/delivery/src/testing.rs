//! A delivery and an endpoint for tests to change.

use crate::breaker::BreakerPolicy;
use crate::delivery::{Delivery, ReleaseMark};
use crate::endpoint::{Endpoint, Hidden};
use crate::ids::{EndpointId, EventId, EventType, Tenant};
use crate::matching::Pattern;
use crate::retry::RetryPolicy;
use crate::time::UnixMillis;
use std::time::Duration;

pub const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

pub fn delivery() -> Delivery {
    Delivery {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(1),
        event_type: EventType::parse("invoice.paid").unwrap(),
        endpoint_id: EndpointId::from_bits(2),
        payload: bytes::Bytes::from_static(b"{}"),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        accepted_at: NOW,
        event_seq: 1,
        config_revision: 1,
        attempt: 1,
        hop: 0,
        stale_retries: 0,
        release: ReleaseMark::default(),
        not_before: NOW,
        expires_at: NOW + Duration::from_secs(3 * 86_400),
        held: Duration::ZERO,
        pauses_known: None,
        replay: None,
        test: false,
        history: Vec::new(),
    }
}

pub fn endpoint() -> Endpoint {
    Endpoint {
        id: EndpointId::from_bits(2),
        tenant: Tenant::parse("acme").unwrap(),
        url: Hidden::new("https://example.com/hooks".to_owned()),
        event_types: vec![Pattern::all()],
        description: String::new(),
        headers: Vec::new(),
        signatures: vec!["v1".to_owned()],
        secrets: Vec::new(),
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: Duration::ZERO,
        ordering: crate::endpoint::Ordering::None,
        rate_limit: None,
        max_backlog: 1_000_000,
        retry: RetryPolicy::default(),
        timeout: Duration::from_secs(15),
        max_in_flight: 32,
        breaker: Some(BreakerPolicy::default()),
        target_epoch: 0,
        created_at: NOW,
        updated_at: NOW,
    }
}
