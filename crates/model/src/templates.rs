//! The product's values that the model fills in: an endpoint, a delivery, a record.

use crate::breaker::{NOW, TICK, after};
use crate::parcel::Parcel;
use crate::settings::Settings;
use crate::story::{Story, bit};
use bytes::Bytes;
use posthorn_delivery::attempt::{Attempt, AttemptResult, Disposition};
use posthorn_delivery::delivery::ReleaseMark;
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::lane::{Head, fold};
use posthorn_delivery::{
    BreakerPolicy, BreakerSignal, Delivery, Endpoint, EndpointId, EventId, EventType, Ordering,
    Pattern, RetryPolicy, Tenant, UnixMillis,
};
use std::time::Duration;

/// Whose endpoint it is.
#[must_use]
pub fn tenant() -> Tenant {
    Tenant::parse("acme").expect("it is a tenant's name")
}

/// The endpoint.
#[must_use]
pub fn endpoint(settings: &Settings) -> Endpoint {
    let policy = BreakerPolicy::try_new(1, TICK, TICK).expect("it is within the bounds");
    Endpoint {
        id: EndpointId::from_bits(1),
        tenant: tenant(),
        url: Hidden::new("https://receiver.test/".to_owned()),
        event_types: vec![Pattern::all()],
        description: String::new(),
        headers: Vec::new(),
        signatures: Vec::new(),
        secrets: Vec::new(),
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: Duration::ZERO,
        ordering: match settings.ordered {
            true => Ordering::Fifo,
            false => Ordering::None,
        },
        rate_limit: None,
        max_backlog: 1_000,
        retry: RetryPolicy::default(),
        timeout: TICK,
        max_in_flight: 1,
        breaker: settings.breaker.then_some(policy),
        target_epoch: 0,
        created_at: NOW,
        updated_at: NOW,
    }
}

/// A delivery and a record, and what can be asked with them.
#[derive(Clone, Debug)]
pub struct Templates {
    delivery: Delivery,
    record: Attempt,
}

impl Templates {
    /// Makes them.
    #[must_use]
    pub fn new() -> Templates {
        let (endpoint_id, event_id) = (EndpointId::from_bits(1), EventId::from_bits(1));
        let event_type = EventType::parse("a.b").expect("it is an event type");
        let delivery = Delivery {
            tenant: tenant(),
            event_id: event_id.clone(),
            event_type: event_type.clone(),
            endpoint_id: endpoint_id.clone(),
            payload: Bytes::new(),
            content_type: String::new(),
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
            expires_at: UnixMillis(i64::MAX),
            held: Duration::ZERO,
            pauses_known: None,
            replay: None,
            test: false,
            history: Vec::new(),
        };
        let record = Attempt {
            tenant: tenant(),
            event_id,
            event_type,
            endpoint_id,
            number: 1,
            hop: 0,
            replay_generation: 0,
            at: NOW,
            latency_ms: 0,
            result: AttemptResult::Status(500),
            response_body: Bytes::new(),
            disposition: Disposition::Complete,
            breaker_generation: 0,
            probe: false,
            breaker_signal: BreakerSignal::Neutral,
            hold_until: None,
            disable_endpoint: false,
            in_order: true,
            detail: String::new(),
            exchange: None,
        };
        Templates { delivery, record }
    }

    /// Where the head of an ordered lane stands: the attempt that is next, or that it is done.
    #[must_use]
    pub fn fold(&self, parked: Parcel, story: &Story) -> Option<Parcel> {
        let delivery = Delivery {
            hop: u32::from(parked.hop),
            attempt: u32::from(parked.attempt),
            ..self.delivery.clone()
        };
        match fold(delivery, &self.records(story)) {
            Head::Done => None,
            Head::Next(next) => Some(Parcel {
                event: parked.event,
                hop: u8::try_from(next.hop).unwrap_or(u8::MAX),
                attempt: u8::try_from(next.attempt).unwrap_or(u8::MAX),
                epoch: 0,
                in_order: true,
                due: crate::breaker::ticks_until(next.not_before),
            }),
        }
    }

    fn records(&self, story: &Story) -> Vec<(u64, Attempt)> {
        let written = (0..16).filter(|hop| (story.again | story.ended) & bit(*hop) != 0);
        written
            .map(|hop| {
                let latest = hop + 1 == story.last.hop_and_one;
                let wait = if latest { story.due } else { 0 };
                let disposition = match story.ended & bit(hop) {
                    0 => Disposition::Retry {
                        not_before: after(wait),
                        same_attempt: false,
                    },
                    _ => Disposition::Complete,
                };
                let record = Attempt {
                    hop: u32::from(hop),
                    disposition,
                    ..self.record.clone()
                };
                (u64::from(hop) + 1, record)
            })
            .collect()
    }
}

impl Default for Templates {
    fn default() -> Templates {
        Templates::new()
    }
}
