//! What a test send shows of its request and of the answer.

use crate::send::Answer;
use http::{HeaderMap, HeaderValue};
use posthorn_delivery::Exchange;
use posthorn_delivery::exchange::{MAX_HEADERS, request_header, response_header};
use std::time::Duration;

/// Of a request that is about to be made. What the endpoint's owner has set is marked sensitive
/// where it is prepared.
pub(crate) fn begun(headers: &HeaderMap) -> Box<Exchange> {
    let shown = |(name, value): (&http::HeaderName, &HeaderValue)| {
        request_header(name.as_str(), value.as_bytes(), value.is_sensitive())
    };
    Box::new(Exchange {
        request_headers: headers.iter().map(shown).collect(),
        ..Exchange::default()
    })
}

/// The headers of an answer.
pub(crate) fn answered(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().take(MAX_HEADERS);
    shown
        .map(|(name, value)| response_header(name.as_str(), value.as_bytes()))
        .collect()
}

/// What took `total` from its beginning to its end.
pub(crate) fn ended(exchange: Option<Box<Exchange>>, total: Duration) -> Option<Box<Exchange>> {
    let total_ms = u32::try_from(total.as_millis()).unwrap_or(u32::MAX);
    exchange.map(|exchange| {
        Box::new(Exchange {
            total_ms,
            ..*exchange
        })
    })
}

/// Of a test send, whether a request was made or not.
pub(crate) fn of(answer: &Answer) -> Box<Exchange> {
    let made = answer.exchange.clone().unwrap_or_default();
    Box::new(Exchange {
        detail: answer.detail.clone(),
        ..*made
    })
}
