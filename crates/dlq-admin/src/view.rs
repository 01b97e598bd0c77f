//! How letters and attempts are shown. Nothing here holds a secret, a URL or a header value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn_broker::Logged;
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    Attempt, AttemptSummary, DeadLetter, Disposition, EndpointId, LetterState, UnixMillis,
};
use posthorn_http_api::List;
use posthorn_http_api::time::to_rfc3339;
use serde::Serialize;
use utoipa::ToSchema;

/// Bytes as text where they are UTF-8, else in base64: `(text, base64)`.
pub(crate) fn text_or_base64(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// A time that a message may leave unset.
pub(crate) fn time_if_set(at: UnixMillis) -> Option<String> {
    (!at.is_unset()).then(|| to_rfc3339(at))
}

fn status_of(result: AttemptResult) -> Option<u16> {
    match result {
        AttemptResult::Status(code) => Some(code),
        AttemptResult::Error(_) => None,
    }
}

fn error_of(result: AttemptResult) -> Option<&'static str> {
    match result {
        AttemptResult::Status(_) => None,
        AttemptResult::Error(failure) => Some(failure.as_str()),
    }
}

/// One page of a search, which may end before the page is full.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Searched<T> {
    /// The items.
    items: Vec<T>,
    /// Where the next page begins; `null` when this is the last.
    next_cursor: Option<String>,
    /// How many items this page has.
    count: usize,
    /// How many there are in all, where an index has it.
    total: Option<u64>,
    /// False where the search met its bound before the page was full: what is missing from it is
    /// found with `next_cursor`.
    complete: bool,
}

impl<T> Searched<T> {
    /// A page; the next one begins below `next`.
    pub(crate) fn new(
        items: Vec<T>,
        next: Option<u64>,
        total: Option<u64>,
        complete: bool,
    ) -> Searched<T> {
        let next = next.map(|below| below.to_string());
        let list = List::new(items, next.as_deref(), total);
        Searched {
            items: list.items,
            next_cursor: list.next_cursor,
            count: list.count,
            total: list.total,
            complete,
        }
    }
}

/// A dead letter in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LetterItem {
    /// `dl_…`: the same however often its delivery dies.
    id: String,
    tenant: String,
    /// `evt_…`; empty when what was published could not be read.
    event_id: String,
    /// `ep_…`; `null` when it never came to an endpoint.
    endpoint: Option<String>,
    /// The event's type.
    #[serde(rename = "type")]
    event_type: String,
    /// Why it died, one of the stable reasons.
    reason: &'static str,
    /// Why, in words; may be empty.
    detail: String,
    /// `dead`, `replaying` or `delivered`.
    state: &'static str,
    state_since: String,
    /// How often it has been replayed.
    replays: u32,
    /// The request or job that replayed it last.
    replay_id: Option<String>,
    /// When the event was accepted.
    accepted_at: Option<String>,
    /// When it died last.
    died_at: String,
    /// How many attempts are remembered.
    attempt_count: usize,
    /// The HTTP status of the last one, where there was an answer.
    last_status: Option<u16>,
    /// The failure of the last one, where there was no answer.
    last_error: Option<&'static str>,
    /// The first 256 bytes of the last answer, as text; may be empty.
    last_answer: String,
}

impl From<&DeadLetter> for LetterItem {
    fn from(letter: &DeadLetter) -> LetterItem {
        let last = letter.history.last().map(|attempt| attempt.result);
        LetterItem {
            id: letter.id.to_string(),
            tenant: letter.tenant.clone(),
            event_id: letter.event_id.clone(),
            endpoint: letter.endpoint_id.as_ref().map(EndpointId::to_string),
            event_type: letter.event_type.clone(),
            reason: letter.reason.as_str(),
            detail: letter.detail.clone(),
            state: letter.state.as_str(),
            state_since: to_rfc3339(letter.state_since),
            replays: letter.replays,
            replay_id: Some(letter.replay_id.clone()).filter(|id| !id.is_empty()),
            accepted_at: time_if_set(letter.accepted_at),
            died_at: to_rfc3339(letter.died_at),
            attempt_count: letter.history.len(),
            last_status: last.and_then(status_of),
            last_error: last.and_then(error_of),
            last_answer: letter.answer.clone(),
        }
    }
}

/// A dead letter with its payload and its attempts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LetterDetail {
    #[serde(flatten)]
    letter: LetterItem,
    content_type: String,
    /// The payload where it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// The payload where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Over all its lives, oldest first, at most 64.
    attempts: Vec<LetterAttempt>,
}

impl LetterDetail {
    /// A letter with what the log says of its attempts, in the order of its history; `None`
    /// for one that the log has dropped.
    pub(crate) fn new(letter: &DeadLetter, records: &[Option<Logged<Attempt>>]) -> LetterDetail {
        let (payload, payload_base64) = text_or_base64(&letter.payload);
        let records = records.iter().map(Option::as_ref);
        let records = records.chain(std::iter::repeat(None));
        let attempts = letter.history.iter().zip(records);
        LetterDetail {
            letter: LetterItem::from(letter),
            content_type: letter.content_type.clone(),
            payload,
            payload_base64,
            attempts: attempts
                .map(|(summary, record)| LetterAttempt::new(summary, record))
                .collect(),
        }
    }
}

/// One attempt of a dead letter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LetterAttempt {
    at: String,
    /// From 1; a replay begins at 1 again.
    number: u32,
    /// The HTTP status, where there was an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// The failure, where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// The rule that kept the request from being made, where one did and the log still has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    latency_ms: u32,
    /// The first 4 KiB of the response where they are UTF-8; `null` when there was none or
    /// the log has dropped it.
    response_body: Option<String>,
    /// The same where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
}

impl LetterAttempt {
    fn new(summary: &AttemptSummary, record: Option<&Logged<Attempt>>) -> LetterAttempt {
        let (text, base64) = record.map_or((None, None), |record| {
            text_or_base64(&record.value.response_body)
        });
        LetterAttempt {
            at: to_rfc3339(summary.at),
            number: summary.number,
            status: status_of(summary.result),
            error: error_of(summary.result),
            detail: record
                .map(|record| record.value.detail.clone())
                .filter(|text| !text.is_empty()),
            latency_ms: summary.latency_ms,
            response_body: text,
            response_body_base64: base64,
        }
    }
}

/// The record of an attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AttemptRecord {
    tenant: String,
    event_id: String,
    /// `ep_…`.
    endpoint: String,
    /// The event's type.
    #[serde(rename = "type")]
    event_type: String,
    /// Whether it belongs to a replay.
    replay: bool,
    /// `complete`, `retry`, `dead` or `skipped`: what was decided.
    disposition: &'static str,
    /// Why it was given up, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The earliest time of the next attempt, where there is to be one.
    next_attempt_at: Option<String>,
    #[serde(flatten)]
    attempt: LetterAttempt,
}

impl From<&Logged<Attempt>> for AttemptRecord {
    fn from(record: &Logged<Attempt>) -> AttemptRecord {
        let attempt = &record.value;
        let reason = match attempt.disposition {
            Disposition::Dead(reason) => Some(reason.as_str()),
            _ => None,
        };
        AttemptRecord {
            tenant: attempt.tenant.to_string(),
            event_id: attempt.event_id.to_string(),
            endpoint: attempt.endpoint_id.to_string(),
            event_type: attempt.event_type.to_string(),
            replay: attempt.replay_generation != 0,
            disposition: disposition(&attempt.disposition),
            reason,
            next_attempt_at: next_attempt(attempt).map(to_rfc3339),
            attempt: LetterAttempt::new(&attempt.summary(record.sequence), Some(record)),
        }
    }
}

fn disposition(disposition: &Disposition) -> &'static str {
    match disposition {
        Disposition::Complete => "complete",
        Disposition::Retry { .. } => "retry",
        Disposition::Dead(_) => "dead",
        Disposition::Skipped => "skipped",
    }
}

/// The earliest time of the attempt after this one.
pub(crate) fn next_attempt(attempt: &Attempt) -> Option<UnixMillis> {
    match attempt.disposition {
        Disposition::Retry { not_before, .. } => Some(not_before),
        _ => None,
    }
}

/// Where a delivery stands: its letter's word where there is one, else its last attempt's.
pub(crate) fn delivery_state(last: &Attempt, letter: Option<&DeadLetter>) -> &'static str {
    match (letter.map(|letter| letter.state), &last.disposition) {
        (Some(LetterState::Replaying), _) => "replaying",
        (Some(LetterState::Delivered), _) => "delivered",
        (Some(LetterState::Dead), _) | (None, Disposition::Dead(_)) => "dead",
        (None, Disposition::Complete) => "delivered",
        (None, Disposition::Retry { .. }) => "retrying",
        (None, Disposition::Skipped) => "skipped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::letter;
    use bytes::Bytes;

    #[test]
    fn sig_07_a_payload_that_is_no_text_is_base64() {
        let mut binary = letter("acme", 1, 5);
        binary.payload = Bytes::from_static(&[0xff, 0x00]);
        let shown = serde_json::to_value(LetterDetail::new(&binary, &[])).unwrap();
        assert_eq!(shown["payload_base64"], "/wA=");
        assert!(shown.get("payload").is_none());
        assert_eq!(shown["id"], binary.id.as_str());
    }

    #[test]
    fn an_attempt_whose_record_is_gone_is_still_shown() {
        let shown = LetterDetail::new(&letter("acme", 1, 5), &[None]);
        let shown = serde_json::to_value(shown).unwrap();
        assert_eq!(shown["attempts"][0]["status"], 500);
        assert!(shown["attempts"][0]["response_body"].is_null());
        assert!(shown["attempts"][0].get("error").is_none());
    }

    #[test]
    fn dlq_06_headers_of_an_event_are_not_shown() {
        let mut with_header = letter("acme", 1, 5);
        with_header.headers = vec![("ce-subject".to_owned(), "token-123".to_owned())];
        let shown = serde_json::to_string(&LetterDetail::new(&with_header, &[])).unwrap();
        assert!(!shown.contains("token-123"));
    }
}
