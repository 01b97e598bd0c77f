//! Events.

use super::{
    DecodeError, Wire, check, decode, encode, headers_in, headers_out, optional_text,
    optional_time, time_out,
};
use bytes::Bytes;
use posthorn_delivery::{EndpointId, Event, EventId, EventType, Tenant, UnixMillis};
use posthorn_proto::v1;

impl Wire for Event {
    fn to_wire(&self) -> Bytes {
        encode(&out(self))
    }

    fn from_wire(bytes: Bytes) -> Result<Event, DecodeError> {
        from_message(decode::<v1::Event>(bytes, "Event")?)
    }
}

pub(super) fn out(event: &Event) -> v1::Event {
    v1::Event {
        id: event.id.to_string(),
        tenant: event.tenant.to_string(),
        r#type: event.event_type.to_string(),
        payload: event.payload.clone(),
        content_type: event.content_type.clone(),
        accepted_at_ms: event.accepted_at.0,
        traceparent: event.traceparent.clone().unwrap_or_default(),
        headers: headers_out(&event.headers),
        deliver_at_ms: time_out(event.deliver_at),
        only_endpoint: event
            .only_endpoint
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}

pub(super) fn from_message(message: v1::Event) -> Result<Event, DecodeError> {
    let only_endpoint = optional_text(message.only_endpoint)
        .map(|id| EndpointId::parse(&id))
        .transpose();
    Ok(Event {
        id: check!("Event", "id", EventId::parse(&message.id)),
        tenant: check!("Event", "tenant", Tenant::parse_any(&message.tenant)),
        event_type: check!("Event", "type", EventType::parse(&message.r#type)),
        payload: message.payload,
        content_type: message.content_type,
        headers: headers_in(message.headers),
        traceparent: optional_text(message.traceparent),
        accepted_at: UnixMillis(message.accepted_at_ms),
        deliver_at: optional_time(message.deliver_at_ms),
        only_endpoint: check!("Event", "only_endpoint", only_endpoint),
    })
}
