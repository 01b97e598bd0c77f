//! What is shown of a test send.

use super::attempts::body;
use super::view::shown_url;
use posthorn_delivery::{Attempt, AttemptResult, Endpoint, EventId, Failure, UnixMillis};
use posthorn_http_api::time::as_rfc3339_option;
use posthorn_vault::Vault;
use serde::Serialize;
use std::collections::BTreeMap;
use url::Url;
use utoipa::ToSchema;

/// A test send: what went out and what came back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TestSend)]
pub(crate) struct TestView {
    /// The event, which the receiver knows as `webhook-id`.
    id: String,
    /// `delivered`: a 2xx. `rejected`: another status. `failed`: a request and no answer.
    /// `refused`: no request, because a rule forbids it or none can be made. `pending`: nothing
    /// is known yet.
    #[schema(example = "delivered")]
    outcome: &'static str,
    /// What kept an answer from coming, for example `connect`, `timeout` or `egress_denied`.
    error: Option<&'static str>,
    /// The rule that forbids the request, where one does.
    detail: Option<String>,
    /// When the attempt began.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<UnixMillis>,
    /// Until the head of the answer was there, or the failure, milliseconds.
    latency_ms: Option<u32>,
    /// Until the end of what was read of the answer, milliseconds.
    total_ms: Option<u32>,
    /// What went out.
    request: RequestView,
    /// What came back; null where nothing did.
    response: Option<ResponseView>,
}

/// The request of a test send.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TestRequest)]
pub(crate) struct RequestView {
    /// Always `POST`.
    method: &'static str,
    /// The endpoint's URL, its password masked.
    url: String,
    /// The headers as they went out. Values of the endpoint's own headers are `***`, signatures
    /// are cut short. Empty where no request was made.
    headers: BTreeMap<String, String>,
    /// The body, byte for byte.
    body: String,
}

/// The response to a test send.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TestResponse)]
pub(crate) struct ResponseView {
    /// The HTTP status.
    status: u16,
    /// The headers, several of one name joined by a comma; cookies are `***`.
    headers: BTreeMap<String, String>,
    /// The first 4 KiB of the body, where they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The same in base64, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl TestView {
    /// Of a test of `endpoint` by this event; `record` is its attempt, where there is one yet.
    pub(crate) fn new(
        vault: &Vault,
        endpoint: &Endpoint,
        (event, payload): (&EventId, &[u8]),
        record: Option<Attempt>,
    ) -> TestView {
        let request = RequestView {
            method: "POST",
            url: shown_url(vault, endpoint),
            headers: BTreeMap::new(),
            body: String::from_utf8_lossy(payload).into_owned(),
        };
        let view = TestView {
            id: event.to_string(),
            outcome: "pending",
            error: None,
            detail: None,
            at: None,
            latency_ms: None,
            total_ms: None,
            request,
            response: None,
        };
        match record {
            Some(record) => view.answered(record, payload.len()),
            None => view,
        }
    }

    fn answered(mut self, record: Attempt, length: usize) -> TestView {
        let exchange = record
            .exchange
            .map(|exchange| *exchange)
            .unwrap_or_default();
        let made = !exchange.request_headers.is_empty();
        self.outcome = outcome(record.result, made);
        if let AttemptResult::Error(failure) = record.result {
            self.error = Some(failure.as_str());
        }
        self.detail = Some(exchange.detail).filter(|text| !text.is_empty());
        self.at = Some(record.at);
        self.latency_ms = Some(record.latency_ms);
        self.total_ms = Some(exchange.total_ms.max(record.latency_ms));
        if made {
            self.request.headers = joined(exchange.request_headers);
            self.frame(length);
        }
        if let AttemptResult::Status(status) = record.result {
            let (body, body_base64) = body(&record.response_body);
            self.response = Some(ResponseView {
                status,
                headers: joined(exchange.response_headers),
                body,
                body_base64,
            });
        }
        self
    }

    /// What HTTP itself adds to a request.
    fn frame(&mut self, length: usize) {
        let headers = &mut self.request.headers;
        headers.insert("content-length".to_owned(), length.to_string());
        if let Some(host) = host_of(&self.request.url) {
            headers.insert("host".to_owned(), host);
        }
    }
}

fn outcome(result: AttemptResult, made: bool) -> &'static str {
    match result {
        AttemptResult::Status(200..=299) => "delivered",
        AttemptResult::Status(_) => "rejected",
        // Found out when the name was looked up, with the request ready in hand.
        AttemptResult::Error(Failure::EgressDenied) => "refused",
        AttemptResult::Error(_) if made => "failed",
        AttemptResult::Error(_) => "refused",
    }
}

fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

fn joined(headers: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        all.entry(name)
            .and_modify(|known| {
                known.push_str(", ");
                known.push_str(&value);
            })
            .or_insert(value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_name_are_joined_in_their_order() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let all = joined(vec![header("a", "1"), header("b", "2"), header("a", "3")]);
        assert_eq!(all["a"], "1, 3");
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_outcome_tells_an_answer_from_a_failure_and_from_a_rule() {
        let error = AttemptResult::Error;
        for (result, made, expected) in [
            (AttemptResult::Status(204), true, "delivered"),
            (AttemptResult::Status(302), true, "rejected"),
            (error(Failure::Timeout), true, "failed"),
            (error(Failure::EgressDenied), true, "refused"),
            (error(Failure::EgressDenied), false, "refused"),
            (error(Failure::Unsignable), false, "refused"),
        ] {
            assert_eq!(outcome(result, made), expected, "{result:?}");
        }
    }

    #[test]
    fn the_host_is_as_it_is_sent() {
        assert_eq!(host_of("https://u:***@h.example/x").unwrap(), "h.example");
        assert_eq!(host_of("http://h.example:8080/").unwrap(), "h.example:8080");
        assert_eq!(host_of("***"), None);
    }
}
