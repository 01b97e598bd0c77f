//! What a receiver gets.

use crate::prepared::Prepared;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use posthorn_delivery::{Delivery, UnixMillis};
use posthorn_runtime::rng;
use posthorn_runtime::trace::{self, Traceparent};
use posthorn_signing::{Keys, SignedMessage, sign};

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("Posthorn/", env!("CARGO_PKG_VERSION")));
const ATTEMPT: HeaderName = HeaderName::from_static("webhook-attempt");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The headers of an attempt at `now`, signed with every key that is live then: the time and
/// the signatures are new on each attempt, the id never is. `None` when they cannot be made.
pub(crate) fn headers(
    delivery: &Delivery,
    prepared: &Prepared,
    now: UnixMillis,
) -> Option<HeaderMap> {
    let mut headers = prepared.headers.clone();
    for (name, value) in &delivery.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, HeaderValue::from_str(value).ok()?);
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_str(&delivery.content_type).ok()?,
    );
    headers.insert(USER_AGENT, AGENT);
    headers.insert(ATTEMPT, HeaderValue::from(delivery.attempt));
    headers.insert(
        IDEMPOTENCY_KEY,
        HeaderValue::from_str(delivery.event_id.as_str()).ok()?,
    );
    headers.insert(
        TRACEPARENT,
        HeaderValue::from_str(&traceparent(delivery).to_string()).ok()?,
    );
    let (secrets, pairs) = (prepared.secrets(now), prepared.pairs(now));
    let keys = Keys {
        secrets: &secrets,
        pairs: &pairs,
    };
    let message =
        SignedMessage::try_new(delivery.event_id.as_str(), now.as_secs(), &delivery.payload)
            .ok()?;
    for (name, value) in sign(&prepared.schemes, &keys, &message).ok()? {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(&value).ok()?,
        );
    }
    Some(headers)
}

/// This attempt's place in the publisher's trace.
fn traceparent(delivery: &Delivery) -> Traceparent {
    if let Some(here) = trace::of(&tracing::Span::current()) {
        return here;
    }
    let parent = delivery.traceparent.as_deref().and_then(Traceparent::parse);
    parent.map_or_else(
        || Traceparent::generate(&mut rng::rng()),
        |parent| parent.child(&mut rng::rng()),
    )
}
