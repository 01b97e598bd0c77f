//! One request, bounded in time and bytes whatever the receiver does.

use crate::context::Context;
use crate::exchange;
use crate::failure::Failed;
use crate::prepared::Prepared;
use crate::request;
use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use metrics::{gauge, histogram};
use posthorn_delivery::attempt::MAX_RESPONSE_BODY;
use posthorn_delivery::retry::RetryAfter;
use posthorn_delivery::{Delivery, Endpoint, Exchange, Failure, Outcome, UnixMillis};
use std::time::Duration;
use tokio::time::Instant;

/// Read on beyond what is kept, so that the connection can be used again, up to this.
const MAX_DRAIN: usize = 64 * 1024;
/// The status has decided; the body may not hold the attempt up for longer.
const BODY_TIME: Duration = Duration::from_secs(2);

/// What an attempt brought.
pub(crate) struct Answer {
    pub at: UnixMillis,
    pub latency: Duration,
    pub outcome: Outcome,
    pub body: Bytes,
    /// What a letter says beside its reason. Empty where the outcome says it all.
    pub detail: String,
    /// Of a test send that was made.
    pub exchange: Option<Box<Exchange>>,
}

impl Answer {
    /// The answer to an attempt for which no request was made.
    pub fn without_request(failed: impl Into<Failed>, at: UnixMillis) -> Answer {
        Answer::failed(failed.into(), at, Duration::ZERO)
    }

    fn failed(failed: Failed, at: UnixMillis, latency: Duration) -> Answer {
        Answer {
            at,
            latency,
            outcome: Outcome::Failed(failed.failure),
            body: Bytes::new(),
            detail: failed.detail,
            exchange: None,
        }
    }
}

/// Sends `delivery` once.
pub(crate) async fn send(
    context: &Context,
    delivery: &Delivery,
    endpoint: &Endpoint,
    prepared: &Prepared,
) -> Answer {
    let at = posthorn_wiring::now();
    let Some(headers) = request::headers(delivery, prepared, at) else {
        return Answer::without_request(Failure::Unsignable, at);
    };
    let mut seen = delivery.test.then(|| exchange::begun(&headers));
    let _counted = InFlight::enter();
    let begun = Instant::now();
    let exchange = context
        .client
        .post(prepared, headers, delivery.payload.clone());
    // One deadline over name, connection, request and answer: a receiver that drips a byte
    // now and then resets every smaller timeout.
    let response = tokio::time::timeout(endpoint.timeout, exchange)
        .await
        .unwrap_or(Err(Failure::Timeout.into()));
    let latency = begun.elapsed();
    histogram!("posthorn_attempt_duration_seconds").record(latency.as_secs_f64());
    match response {
        Ok(response) => {
            let outcome = outcome_of(&response);
            if let Some(seen) = &mut seen {
                seen.response_headers = exchange::answered(response.headers());
            }
            let body = read_body(
                response,
                endpoint.timeout.saturating_sub(latency).min(BODY_TIME),
            )
            .await;
            Answer {
                at,
                latency,
                outcome,
                body,
                detail: String::new(),
                exchange: exchange::ended(seen, begun.elapsed()),
            }
        }
        Err(failed) => Answer {
            exchange: exchange::ended(seen, latency),
            ..Answer::failed(failed, at, latency)
        },
    }
}

fn outcome_of(response: &Response<Incoming>) -> Outcome {
    let values = response
        .headers()
        .get_all(RETRY_AFTER)
        .iter()
        .map(http::HeaderValue::as_bytes);
    Outcome::Status {
        code: response.status().as_u16(),
        retry_after: RetryAfter::parse(values),
    }
}

/// The beginning of the body. Best effort: the outcome stands, however the body ends.
async fn read_body(mut response: Response<Incoming>, limit: Duration) -> Bytes {
    let mut kept = BytesMut::new();
    let mut read = 0;
    let reading = async {
        while let Some(Ok(frame)) = response.frame().await {
            let Ok(chunk) = frame.into_data() else { break };
            let room = MAX_RESPONSE_BODY - kept.len();
            kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
            read += chunk.len();
            if read > MAX_DRAIN {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(limit, reading).await;
    kept.freeze()
}

struct InFlight;

impl InFlight {
    fn enter() -> InFlight {
        gauge!("posthorn_in_flight").increment(1.0);
        InFlight
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        gauge!("posthorn_in_flight").decrement(1.0);
    }
}
