//! What applications put into EVENTS, by HTTP through ingest or straight by NATS: raw bytes
//! with headers, or an Event in protobuf.

use super::{DecodeError, optional_text};
use crate::consume::Incoming;
use crate::names::Names;
use crate::outbox::EVENT_PROTOBUF;
use async_nats::HeaderMap;
use bytes::Bytes;
use posthorn_delivery::event::{MAX_DELIVER_AHEAD, TEST_TYPE};
use posthorn_delivery::{Event, EventId, EventType, Tenant, UnixMillis};
use posthorn_proto::v1;
use prost::Message;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// So long, in milliseconds, may an event have been under way to the stream, clocks that differ
/// included.
const LONGEST_WAY: i64 = 600_000;
/// The trace context of version 00 is 55 bytes long; later ones may add to it.
const MAX_TRACEPARENT: usize = 512;

/// Why a message is not an event. Each text names the rule and shows nothing of the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntakeError {
    /// The subject's tenant token.
    #[error("the subject's tenant is not valid")]
    Tenant,
    /// The subject's type tokens.
    #[error("the subject's event type is not valid")]
    EventType,
    /// Declared as an Event and not one.
    #[error("the payload is not a posthorn.v1.Event")]
    Protobuf(#[source] DecodeError),
    /// An Event that belongs elsewhere.
    #[error("the event's tenant and type are not the subject's")]
    OtherSubject,
    /// A `Deliver-At` that is no time, or too far ahead.
    #[error("deliver-at is an RFC 3339 time at most 30 days ahead")]
    DeliverAt,
    /// An ordinary event that names the one endpoint it is for.
    #[error("only a test send is for one endpoint")]
    OnlyEndpoint,
    /// A header that could not be passed on.
    #[error("a content-type or ce-* header is not valid")]
    Header,
}

/// A message of EVENTS as its parts.
pub struct Intake<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// Its headers.
    pub headers: Option<&'a HeaderMap>,
    /// Its bytes.
    pub payload: Bytes,
    /// Where it is stored.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: UnixMillis,
    /// When EVENTS was created, milliseconds.
    pub stream_created: i64,
}

impl<'a> Intake<'a> {
    /// Of a message taken from EVENTS.
    #[must_use]
    pub fn of(message: &'a Incoming, stream_created: i64) -> Intake<'a> {
        Intake {
            subject: message.subject(),
            headers: message.headers(),
            payload: message.payload(),
            sequence: message.sequence(),
            stored_at: message.stored_at(),
            stream_created,
        }
    }

    /// A header's value, whatever its case: NATS compares names exactly, publishers do not.
    fn header(&self, name: &str) -> Option<&'a str> {
        let headers = self.headers?;
        if let Some(value) = headers.get(name) {
            return Some(value.as_str());
        }
        let found = headers
            .iter()
            .find(|(key, _)| AsRef::<str>::as_ref(*key).eq_ignore_ascii_case(name));
        found
            .and_then(|(_, values)| values.first())
            .map(async_nats::HeaderValue::as_str)
    }
}

/// Reads an event.
///
/// # Errors
/// [`IntakeError`] says which rule is broken; the message is then a dead letter.
pub fn read_event(names: &Names, intake: &Intake<'_>) -> Result<Event, IntakeError> {
    let (tenant, event_type) = names
        .parse_event(intake.subject)
        .ok_or(IntakeError::EventType)?;
    let tenant = Tenant::parse_any(tenant).map_err(|_| IntakeError::Tenant)?;
    let event_type = EventType::parse(event_type).map_err(|_| IntakeError::EventType)?;
    let event = if intake.header("Content-Type").is_some_and(is_event) {
        from_protobuf(intake, &tenant, &event_type)?
    } else {
        from_raw(intake, tenant, event_type)?
    };
    check_deliver_at(&event)?;
    check_only_endpoint(&event)?;
    check_headers(&event)?;
    Ok(event)
}

/// Media types are the same in any case, and whatever parameters a library adds to them.
fn is_event(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(EVENT_PROTOBUF)
}

fn from_raw(
    intake: &Intake<'_>,
    tenant: Tenant,
    event_type: EventType,
) -> Result<Event, IntakeError> {
    let deliver_at = intake.header("Deliver-At").map(parse_time).transpose()?;
    Ok(Event {
        id: derived_id(intake, &tenant),
        payload: intake.payload.clone(),
        content_type: intake
            .header("Content-Type")
            .unwrap_or("application/json")
            .to_owned(),
        headers: cloud_event_headers(intake),
        traceparent: traceparent(intake.header("traceparent").unwrap_or_default()),
        accepted_at: intake.stored_at,
        deliver_at,
        only_endpoint: None,
        tenant,
        event_type,
    })
}

/// The publisher's own key, or else the place in the stream.
fn derived_id(intake: &Intake<'_>, tenant: &Tenant) -> EventId {
    match intake.header("Nats-Msg-Id") {
        Some(key) => EventId::from_key(tenant, key),
        None => EventId::from_position(i128::from(intake.stream_created), intake.sequence),
    }
}

fn from_protobuf(
    intake: &Intake<'_>,
    tenant: &Tenant,
    event_type: &EventType,
) -> Result<Event, IntakeError> {
    let malformed = |_| IntakeError::Protobuf(DecodeError::Malformed("Event"));
    let mut message = v1::Event::decode(intake.payload.clone()).map_err(malformed)?;
    if message.tenant != tenant.as_str() || message.r#type != event_type.as_str() {
        return Err(IntakeError::OtherSubject);
    }
    if message.id.is_empty() {
        message.id = derived_id(intake, tenant).to_string();
    }
    if message.accepted_at_ms == 0 {
        message.accepted_at_ms = intake.stored_at.0;
    }
    if message.content_type.is_empty() {
        message.content_type = "application/json".to_owned();
    }
    let mut event = super::event::from_message(message).map_err(IntakeError::Protobuf)?;
    // A publisher's clock must not make an event younger than the stream knows it to be, nor by
    // much older: it would expire at once, and ages that nothing had would be in the metrics.
    let earliest = UnixMillis(intake.stored_at.0.saturating_sub(LONGEST_WAY));
    event.accepted_at = event.accepted_at.clamp(earliest, intake.stored_at);
    event.traceparent = traceparent(&event.traceparent.unwrap_or_default());
    event.headers.retain(|(name, _)| is_cloud_event(name));
    Ok(event)
}

/// What is longer than any trace context is none, and is left out: every later hop carries it, and
/// the room that is kept for what they carry is less than a publisher could put here.
fn traceparent(text: &str) -> Option<String> {
    let text = optional_text(text.to_owned());
    text.filter(|text| text.len() <= MAX_TRACEPARENT)
}

fn is_cloud_event(name: &str) -> bool {
    name.get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case("ce-"))
}

fn cloud_event_headers(intake: &Intake<'_>) -> Vec<(String, String)> {
    let headers = intake.headers.into_iter().flat_map(HeaderMap::iter);
    headers
        .map(|(name, values)| (AsRef::<str>::as_ref(name), values))
        .filter(|(name, _)| is_cloud_event(name))
        .filter_map(|(name, values)| {
            Some((
                name.to_ascii_lowercase(),
                values.first()?.as_str().to_owned(),
            ))
        })
        .collect()
}

fn parse_time(text: &str) -> Result<UnixMillis, IntakeError> {
    let at = OffsetDateTime::parse(text.trim(), &Rfc3339).map_err(|_| IntakeError::DeliverAt)?;
    let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000);
    millis.map(UnixMillis).map_err(|_| IntakeError::DeliverAt)
}

fn check_deliver_at(event: &Event) -> Result<(), IntakeError> {
    let latest = event.accepted_at + MAX_DELIVER_AHEAD;
    if event.deliver_at.is_some_and(|at| at > latest) {
        return Err(IntakeError::DeliverAt);
    }
    Ok(())
}

/// A test send passes by its endpoint's lane, breaker and switch. Its type is what permissions
/// can keep publishers from.
fn check_only_endpoint(event: &Event) -> Result<(), IntakeError> {
    if event.only_endpoint.is_some() && event.event_type.as_str() != TEST_TYPE {
        return Err(IntakeError::OnlyEndpoint);
    }
    Ok(())
}

/// What is passed on as an HTTP header must be one: at most 32 of at most 1 KiB, names of
/// letters, digits and '-', values of visible ASCII and spaces.
fn check_headers(event: &Event) -> Result<(), IntakeError> {
    let visible =
        |text: &str| text.len() <= 1_024 && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    let name_ok = |name: &str| {
        name.len() > 3
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let headers_ok = event.headers.len() <= 32
        && event
            .headers
            .iter()
            .all(|(name, value)| name_ok(name) && visible(value));
    if !headers_ok || !visible(&event.content_type) || event.content_type.is_empty() {
        return Err(IntakeError::Header);
    }
    Ok(())
}
