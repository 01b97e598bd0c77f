//! The event that tells of something: its payload is what Standard Webhooks recommend.

use crate::notice::{Letters, Notice, Of};
use posthorn_delivery::ids::SYSTEM_TENANT;
use posthorn_delivery::{Event, EventType, Tenant, UnixMillis};
use serde_json::{Map, Value, json};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const RFC3339: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

impl Notice {
    /// The event that is published at `now`.
    ///
    /// # Panics
    /// Never: the names are valid.
    #[must_use]
    pub fn event(&self, now: UnixMillis) -> Event {
        let payload = json!({
            "type": self.event_type(),
            "timestamp": rfc3339(self.at().unwrap_or(now)),
            "data": self.data(),
        });
        Event {
            id: self.id(now),
            tenant: Tenant::parse_any(SYSTEM_TENANT).expect("the reserved tenant is one"),
            event_type: EventType::parse(self.event_type()).expect("its types are types"),
            payload: payload.to_string().into(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            traceparent: None,
            accepted_at: now,
            deliver_at: None,
            only_endpoint: None,
        }
    }

    /// When it happened, where it says so itself.
    fn at(&self) -> Option<UnixMillis> {
        match self {
            Notice::DeadLetter(letters) => Some(letters.last_at),
            Notice::BreakerOpened { opened_at, .. } => Some(*opened_at),
            Notice::EndpointDisabled { since, .. } => Some(*since),
            Notice::BreakerClosed { .. }
            | Notice::EndpointFailing { .. }
            | Notice::DlqGrowing { .. }
            | Notice::DueLate { .. } => None,
        }
    }

    fn data(&self) -> Value {
        match self {
            Notice::DeadLetter(letters) => of_letters(letters),
            Notice::BreakerOpened {
                of,
                opened_at,
                open_until,
                reason,
            } => about(
                of,
                json!({"opened_at": rfc3339(*opened_at), "open_until": rfc3339(*open_until),
                    "reason": reason}),
            ),
            Notice::BreakerClosed {
                of,
                opened_at,
                reason,
                ..
            } => about(
                of,
                json!({"opened_at": opened_at.map(rfc3339), "reason": reason}),
            ),
            Notice::EndpointDisabled { of, reason, since } => about(
                of,
                json!({"reason": reason.as_str(), "disabled_since": rfc3339(*since)}),
            ),
            Notice::EndpointFailing { of, since } => {
                about(of, json!({"failing_since": rfc3339(*since)}))
            }
            Notice::DlqGrowing {
                letters,
                more,
                within,
            } => json!({"dead_letters": letters, "more": more, "within_seconds": seconds(*within)}),
            Notice::DueLate { oldest } => json!({"oldest_due_seconds": seconds(*oldest)}),
        }
    }
}

fn about(of: &Of, more: Value) -> Value {
    let mut data = Map::new();
    data.insert("tenant".to_owned(), of.tenant.as_str().into());
    data.insert("endpoint_id".to_owned(), of.endpoint.as_str().into());
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Value::Object(data)
}

fn of_letters(letters: &Letters) -> Value {
    let reasons: Map<String, Value> = letters
        .reasons
        .iter()
        .map(|(reason, count)| (reason.as_str().to_owned(), (*count).into()))
        .collect();
    let one = letters.letter.as_ref();
    let only = match letters.reasons.as_slice() {
        [(reason, _)] => Some(reason.as_str()),
        _ => None,
    };
    json!({
        "tenant": letters.tenant.as_ref().map(Tenant::as_str),
        "endpoint_id": letters.endpoint.as_ref().map(posthorn_delivery::EndpointId::as_str),
        "count": letters.count,
        "reason": only,
        "reasons": reasons,
        "first_at": rfc3339(letters.first_at),
        "last_at": rfc3339(letters.last_at),
        "letter_id": one.map(|one| one.id.as_str()),
        "event_id": one.map(|one| one.event_id.as_str()).filter(|text| !text.is_empty()),
        "event_type": one.map(|one| one.event_type.as_str()).filter(|text| !text.is_empty()),
        "attempts": one.map(|one| one.attempts),
    })
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

fn rfc3339(at: UnixMillis) -> String {
    let nanos = i128::from(at.0) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|at| at.format(&RFC3339).ok())
        .unwrap_or_else(|| "1970-01-01T00:00:00.000Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::One;
    use posthorn_delivery::{DisabledReason, EndpointId, LetterId, MessageId, Reason};

    const AT: UnixMillis = UnixMillis(1_800_000_000_123);

    fn of() -> Of {
        Of {
            tenant: Tenant::parse("acme").unwrap(),
            endpoint: EndpointId::from_bits(1),
        }
    }

    fn payload(notice: &Notice) -> Value {
        serde_json::from_slice(&notice.event(AT).payload).unwrap()
    }

    fn letters() -> Letters {
        Letters {
            tenant: Some(of().tenant),
            endpoint: Some(of().endpoint),
            count: 1,
            reasons: vec![(Reason::Exhausted, 1)],
            first_at: AT,
            last_at: AT,
            letter: Some(One {
                id: LetterId::of_unreadable("events", 1, 1),
                event_id: "evt_1".to_owned(),
                event_type: "invoice.paid".to_owned(),
                attempts: 3,
            }),
            key: MessageId::of("letter", &[b"1"]),
        }
    }

    #[test]
    fn an_event_says_what_it_is_about() {
        let disabled = Notice::EndpointDisabled {
            of: of(),
            reason: DisabledReason::Gone,
            since: AT,
        };
        let event = disabled.event(AT);
        assert!(event.tenant.is_system());
        assert_eq!(event.event_type.as_str(), "posthorn.endpoint.disabled");
        let shown = payload(&disabled);
        assert_eq!(shown["type"], "posthorn.endpoint.disabled");
        assert_eq!(shown["timestamp"], "2027-01-15T08:00:00.123Z");
        assert_eq!(shown["data"]["tenant"], "acme");
        assert_eq!(
            shown["data"]["endpoint_id"],
            EndpointId::from_bits(1).as_str()
        );
        assert_eq!(shown["data"]["reason"], "gone");
    }

    #[test]
    fn a_letter_is_told_with_its_ids_and_many_with_their_count() {
        let one = payload(&Notice::DeadLetter(letters()));
        assert_eq!(one["data"]["reason"], "exhausted");
        assert_eq!(one["data"]["count"], 1);
        assert_eq!(one["data"]["attempts"], 3);
        assert_eq!(one["data"]["event_type"], "invoice.paid");
        let many = payload(&Notice::DeadLetter(Letters {
            count: 12,
            reasons: vec![(Reason::Exhausted, 7), (Reason::Expired, 5)],
            letter: None,
            ..letters()
        }));
        assert_eq!(many["data"]["count"], 12);
        assert_eq!(many["data"]["reason"], Value::Null);
        assert_eq!(many["data"]["reasons"]["expired"], 5);
        assert_eq!(many["data"]["letter_id"], Value::Null);
    }
}
