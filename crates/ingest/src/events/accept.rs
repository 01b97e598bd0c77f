//! From what was asked to what the broker has acknowledged.
//!
//! The order of the writes is what keeps an event from being lost: the event first, the mark of
//! its key after the acknowledgement. A mark that was written first would answer the repeat of a
//! failed publish as a duplicate of nothing.

use crate::app::App;
use posthorn_broker::codec::IdempotencyMark;
use posthorn_broker::{BrokerError, Patience, Stored};
use posthorn_delivery::ids::hash128;
use posthorn_delivery::{EndpointId, Event, EventId, EventType, Tenant, UnixMillis};
use posthorn_http_api::Problem;
use posthorn_runtime::metrics::names;
use posthorn_runtime::trace::Traceparent;
use rand::{Rng, RngExt};

/// An event that is to be accepted; every part has been checked.
pub(crate) struct Submission {
    pub tenant: Tenant,
    pub event_type: EventType,
    /// The caller's own name of it: the same key is the same event.
    pub key: Option<String>,
    pub content_type: String,
    /// CloudEvents attributes.
    pub headers: Vec<(String, String)>,
    /// The caller's place in its trace.
    pub parent: Option<Traceparent>,
    pub deliver_at: Option<UnixMillis>,
    pub only_endpoint: Option<EndpointId>,
    pub payload: bytes::Bytes,
}

/// An event that the broker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedEvent {
    pub id: EventId,
    pub duplicate: bool,
}

impl Submission {
    /// A hash of what the key must always come with.
    pub(crate) fn fingerprint(&self) -> u128 {
        let parts = [
            self.event_type.as_str().as_bytes(),
            self.content_type.as_bytes(),
            &self.payload,
        ];
        hash128("idempotent-request", &parts)
    }

    fn event(self, now: UnixMillis, rng: &mut impl Rng) -> Event {
        let id = match &self.key {
            Some(key) => EventId::from_key(&self.tenant, key),
            None => EventId::from_bits(uuid_v7(now, rng)),
        };
        let trace = match &self.parent {
            Some(parent) => parent.child(rng),
            None => Traceparent::generate(rng),
        };
        Event {
            id,
            tenant: self.tenant,
            event_type: self.event_type,
            payload: self.payload,
            content_type: self.content_type,
            headers: self.headers,
            traceparent: Some(trace.to_string()),
            accepted_at: now,
            deliver_at: self.deliver_at,
            only_endpoint: self.only_endpoint,
        }
    }
}

/// The bits of a uuid of version 7: ids sort by the time of their making.
pub(crate) fn uuid_v7(now: UnixMillis, rng: &mut impl Rng) -> u128 {
    let random: [u8; 10] = rng.random();
    let millis = u64::try_from(now.0).unwrap_or(0);
    let uuid = uuid::Builder::from_unix_timestamp_millis(millis, &random);
    uuid.into_uuid().as_u128()
}

/// Stores an event, unless its key was used before.
///
/// # Errors
/// 422 where the key was used for something else; 503 where the broker does not acknowledge it
/// within `patience`, and then the same request may be repeated.
pub(crate) async fn accept(
    app: &App,
    submission: Submission,
    patience: Patience,
) -> Result<AcceptedEvent, Problem> {
    let fingerprint = submission.fingerprint();
    let keyed = submission.key.is_some();
    let event = submission.event(posthorn_wiring::now(), &mut posthorn_runtime::rng::rng());
    if keyed && let Some(known) = marked(app, &event.id, fingerprint).await? {
        return Ok(known);
    }
    let dedupe = app.dedupe.of(&event.tenant, &event.id);
    let published = app.broker.publish_event(&event, &dedupe, patience).await;
    let stored = published.map_err(Problem::from)?;
    // Without a key the id is new, so the only duplicate is an earlier try of this very call.
    let duplicate = keyed && stored.duplicate;
    if !duplicate {
        metrics::counter!(names::EVENTS_ACCEPTED_TOTAL).increment(1);
    }
    if keyed {
        remember(app, &event.id, fingerprint, stored).await?;
    }
    Ok(AcceptedEvent {
        id: event.id,
        duplicate,
    })
}

/// What the key of this id was used for, if it was.
async fn marked(
    app: &App,
    id: &EventId,
    fingerprint: u128,
) -> Result<Option<AcceptedEvent>, Problem> {
    let Some(mark) = app.marks.get(id.as_str()).await? else {
        return Ok(None);
    };
    if mark.value.fingerprint != fingerprint {
        return Err(key_reused());
    }
    Ok(Some(AcceptedEvent {
        id: mark.value.event_id,
        duplicate: true,
    }))
}

/// Writes the mark of an event that is stored. Whatever goes wrong with that, the event is
/// accepted: only the finding that another body came first is an error.
async fn remember(
    app: &App,
    id: &EventId,
    fingerprint: u128,
    stored: Stored,
) -> Result<(), Problem> {
    // The stream had it: the mark, if it is there already, is of the one that came first.
    let came_second = stored.duplicate && !stored.ambiguous;
    if came_second {
        match marked(app, id, fingerprint).await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            Err(problem) if problem.status().as_u16() == 422 => return Err(problem),
            Err(_) => return Ok(()),
        }
    }
    let mark = IdempotencyMark {
        event_id: id.clone(),
        fingerprint,
    };
    match app.marks.create(id.as_str(), &mark).await {
        Ok(_) | Err(BrokerError::Conflict) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(event = %id, error, "the idempotency key could not be kept");
        }
    }
    Ok(())
}

/// 422: one key, two bodies.
pub(crate) fn key_reused() -> Problem {
    let detail = "this key was used for another type, content type or body";
    Problem::unprocessable("idempotency-key-reused", "idempotency-key", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn submission(key: Option<&str>, body: &str) -> Submission {
        Submission {
            tenant: Tenant::parse("acme").unwrap(),
            event_type: EventType::parse("invoice.paid").unwrap(),
            key: key.map(str::to_owned),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            parent: None,
            deliver_at: None,
            only_endpoint: None,
            payload: body.to_owned().into(),
        }
    }

    fn event(submission: Submission) -> Event {
        submission.event(
            UnixMillis(1_900_000_000_000),
            &mut posthorn_runtime::rng::rng(),
        )
    }

    #[test]
    fn js_12_a_key_is_the_id_and_without_one_each_is_new() {
        let keyed = |key| event(submission(Some(key), "{}")).id;
        assert_eq!(keyed("a"), keyed("a"));
        assert_ne!(keyed("a"), keyed("b"));
        let fresh = || event(submission(None, "{}")).id;
        assert_ne!(fresh(), fresh());
    }

    #[test]
    fn the_fingerprint_is_of_type_content_type_and_body() {
        let one = submission(Some("k"), "{}");
        assert_eq!(one.fingerprint(), submission(None, "{}").fingerprint());
        assert_ne!(
            one.fingerprint(),
            submission(Some("k"), "{ }").fingerprint()
        );
        let mut other = submission(Some("k"), "{}");
        other.content_type = "text/plain".to_owned();
        assert_ne!(one.fingerprint(), other.fingerprint());
        let mut other = submission(Some("k"), "{}");
        other.event_type = EventType::parse("invoice.sent").unwrap();
        assert_ne!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn a_callers_trace_goes_on_and_a_new_one_begins_without() {
        let parent = Traceparent::generate(&mut posthorn_runtime::rng::rng());
        let mut traced = submission(None, "{}");
        traced.parent = Some(parent);
        let carried = Traceparent::parse(&event(traced).traceparent.unwrap()).unwrap();
        assert_eq!(carried.trace_id(), parent.trace_id());
        assert_ne!(carried.span_id(), parent.span_id());
        assert!(event(submission(None, "{}")).traceparent.is_some());
    }

    proptest! {
        #[test]
        fn ids_are_uuids_of_version_7_that_sort_by_time(a in 0_i64..1 << 47, b in 0_i64..1 << 47) {
            let mut rng = posthorn_runtime::rng::rng();
            let id = |at, rng: &mut _| uuid::Uuid::from_u128(uuid_v7(UnixMillis(at), rng));
            let (first, second) = (id(a, &mut rng), id(b, &mut rng));
            prop_assert_eq!(first.get_version_num(), 7);
            if a < b {
                prop_assert!(first < second);
            }
        }
    }
}
