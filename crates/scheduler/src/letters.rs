//! Dead letters of what never became a delivery.

use crate::context::Context;
use bytes::Bytes;
use posthorn_broker::{Broker, BrokerError, Incoming, Unreadable};
use posthorn_delivery::{DeadLetter, Event, LetterId, LetterState, MessageId, Reason, UnixMillis};

/// The message that a letter is about.
pub(crate) struct Body<'a> {
    subject: &'a str,
    payload: Bytes,
    sequence: u64,
    stored_at: UnixMillis,
}

impl<'a> Body<'a> {
    pub fn new(subject: &'a str, payload: Bytes, sequence: u64, stored_at: UnixMillis) -> Body<'a> {
        Body {
            subject,
            payload,
            sequence,
            stored_at,
        }
    }
}

impl<'a> From<&'a Incoming> for Body<'a> {
    fn from(message: &'a Incoming) -> Body<'a> {
        Body {
            subject: message.subject(),
            payload: message.payload(),
            sequence: message.sequence(),
            stored_at: message.stored_at(),
        }
    }
}

impl<'a> From<&'a Unreadable> for Body<'a> {
    fn from(message: &'a Unreadable) -> Body<'a> {
        Body {
            subject: &message.subject,
            payload: message.payload.clone(),
            sequence: message.sequence,
            stored_at: message.stored_at,
        }
    }
}

/// Writes the letter of a message that cannot be handled. What does not fit into a letter is
/// left out and said so; the bytes are still in the archive.
pub(crate) async fn bury(
    context: &Context,
    message: Body<'_>,
    event: Option<&Event>,
    reason: Reason,
    detail: &str,
) -> Result<(), BrokerError> {
    let broker = &context.broker;
    let letter = letter(broker, message, event, reason, detail);
    let id = MessageId::of("unreadable", &[letter.id.as_str().as_bytes()]);
    tracing::warn!(letter = %letter.id, reason = reason.as_str(), detail, "dead-lettered");
    metrics::counter!("posthorn_dead_letters_total", "reason" => reason.as_str()).increment(1);
    let stored = match broker.publish_letter(&letter, id.as_str(), None).await {
        Err(BrokerError::TooLarge) => {
            let size = letter.payload.len();
            let without = DeadLetter {
                payload: bytes::Bytes::new(),
                detail: format!("{detail}; the payload of {size} bytes does not fit into a letter"),
                ..letter.clone()
            };
            broker.publish_letter(&without, id.as_str(), None).await?
        }
        other => other?,
    };
    let repeated = stored.duplicate;
    context.notices.letter(&letter, &id, repeated).await;
    Ok(())
}

fn letter(
    broker: &Broker,
    message: Body<'_>,
    event: Option<&Event>,
    reason: Reason,
    detail: &str,
) -> DeadLetter {
    let (tenant, event_type) = broker
        .names()
        .parse_event(message.subject)
        .unwrap_or(("", ""));
    let created = i128::from(broker.events_created());
    // Sequences of different streams must not meet in one letter.
    let stream = message.subject.split('.').nth(1).unwrap_or("events");
    let now = posthorn_wiring::now();
    DeadLetter {
        id: LetterId::of_unreadable(stream, created, message.sequence),
        tenant: tenant.to_owned(),
        event_id: event.map(|event| event.id.to_string()).unwrap_or_default(),
        event_type: event_type.to_owned(),
        endpoint_id: None,
        reason,
        detail: detail.to_owned(),
        died_at: now,
        accepted_at: message.stored_at,
        payload: event.map_or(message.payload, |event| event.payload.clone()),
        content_type: event
            .map(|event| event.content_type.clone())
            .unwrap_or_default(),
        headers: Vec::new(),
        traceparent: None,
        history: Vec::new(),
        state: LetterState::Dead,
        state_since: now,
        replay_generation: 0,
        replays: 0,
        event_seq: message.sequence,
        replay_id: String::new(),
        entry: 0,
        answer: String::new(),
    }
}
