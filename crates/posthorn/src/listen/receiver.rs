//! One request: judged, answered, printed.

use super::args::ListenArgs;
use super::fail::Failures;
use super::judge::{Judge, Verdict, text};
use super::seen::Seen;
use crate::failure::Failure;
use crate::output::{self, Output, printable};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthorn_delivery::UnixMillis;
use posthorn_http_api::time::to_rfc3339;
use posthorn_runtime::shutdown::Shutdown;
use posthorn_signing::{SVIX_ID, WEBHOOK_ID};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest body that is read.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// Ids that are remembered.
const MAX_SEEN: usize = 100_000;
const ATTEMPT: &str = "webhook-attempt";
const EVENT_TYPE: &str = "ce-type";

/// The receiver of this process.
pub(crate) struct Receiver {
    args: ListenArgs,
    output: Output,
    judge: Judge,
    failures: Failures,
    seen: Mutex<Seen>,
    closed: Arc<AtomicBool>,
    shutdown: Shutdown,
}

/// What came of a request.
struct Outcome {
    status: StatusCode,
    verdict: Verdict,
    duplicate: bool,
}

impl Receiver {
    /// A receiver as it is told to be.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a secret that cannot be read.
    pub fn new(args: ListenArgs, output: Output, shutdown: Shutdown) -> Result<Receiver, Failure> {
        Ok(Receiver {
            judge: Judge::new(&args.secret, &args.public_key)?,
            failures: Failures::new(args.fail),
            seen: Mutex::new(Seen::new(MAX_SEEN)),
            closed: Arc::new(AtomicBool::new(false)),
            args,
            output,
            shutdown,
        })
    }

    /// Whether the output was closed, which ends the receiver.
    pub fn closed(&self) -> Arc<AtomicBool> {
        self.closed.clone()
    }

    /// The one handler, on every path.
    pub fn router(self) -> Router {
        Router::new().fallback(receive).with_state(Arc::new(self))
    }

    fn decide(&self, headers: &HeaderMap, body: &[u8], now: UnixMillis) -> Outcome {
        let verdict = self.judge.judge(headers, body, now.as_secs());
        let id = text(headers, WEBHOOK_ID).or(text(headers, SVIX_ID));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let duplicate = id.is_some_and(|id| seen.contains(id));
        let status = match (verdict, self.failures.take()) {
            (_, Some(status)) => StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
            (Verdict::Bad(_), None) => StatusCode::UNAUTHORIZED,
            (Verdict::Unsigned, None) if self.judge.has_keys() => StatusCode::UNAUTHORIZED,
            (_, None) => StatusCode::OK,
        };
        // Taken is only what was answered well: the rest comes again and is no duplicate.
        if let (true, Some(id)) = (status.is_success(), id) {
            seen.take(id);
        }
        Outcome {
            status,
            verdict,
            duplicate,
        }
    }

    fn respond(&self, outcome: &Outcome) -> Response {
        let wait = self
            .args
            .retry_after
            .filter(|_| !outcome.status.is_success());
        match wait {
            Some(seconds) => {
                let wait = [(header::RETRY_AFTER, seconds.to_string())];
                (outcome.status, wait).into_response()
            }
            None => outcome.status.into_response(),
        }
    }

    /// Answers a request; the text is what is to be printed about it.
    async fn answer(&self, request: Request<Body>) -> (Response, Option<String>) {
        if !self.args.answers(request.uri().path()) {
            return (StatusCode::NOT_FOUND.into_response(), None);
        }
        if request.method() != Method::POST {
            return (StatusCode::METHOD_NOT_ALLOWED.into_response(), None);
        }
        let (head, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
            return (StatusCode::PAYLOAD_TOO_LARGE.into_response(), None);
        };
        tokio::time::sleep(self.args.delay).await;
        let now = posthorn_wiring::now();
        let outcome = self.decide(&head.headers, &body, now);
        let report = report(&head.headers, &body, &outcome, now);
        let text = match self.output {
            Output::Json => report.to_string(),
            Output::Table => line(&report, self.args.show_body),
        };
        (self.respond(&outcome), Some(text))
    }
}

async fn receive(State(receiver): State<Arc<Receiver>>, request: Request<Body>) -> Response {
    let (response, text) = receiver.answer(request).await;
    if let Some(text) = text
        && output::line(&text).is_err()
    {
        receiver.closed.store(true, Ordering::Relaxed);
        receiver.shutdown.trigger();
    }
    response
}

fn report(headers: &HeaderMap, body: &[u8], outcome: &Outcome, now: UnixMillis) -> Value {
    let id = text(headers, WEBHOOK_ID).or(text(headers, SVIX_ID));
    json!({
        "at": to_rfc3339(now),
        "status": outcome.status.as_u16(),
        "id": id,
        "attempt": text(headers, ATTEMPT),
        "type": text(headers, EVENT_TYPE),
        "signature": outcome.verdict.words(),
        "duplicate": outcome.duplicate,
        "bytes": body.len(),
        "body": String::from_utf8_lossy(body),
    })
}

fn line(report: &Value, show_body: bool) -> String {
    let word = |key: &str| match &report[key] {
        Value::String(text) => printable(text),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut line = format!(
        "{} {} {} attempt={} {} bytes={}",
        word("at"),
        word("status"),
        word("id"),
        word("attempt"),
        word("signature"),
        word("bytes"),
    );
    if !report["type"].is_null() {
        line = format!("{line} type={}", word("type"));
    }
    if report["duplicate"] == true {
        line.push_str(" duplicate");
    }
    if show_body {
        line = format!("{line}\n{}", word("body"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        listen: ListenArgs,
    }

    fn post(path: &str, headers: &[(&str, &str)], body: &'static [u8]) -> Request<Body> {
        let mut request = Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::from(Bytes::from_static(body))).unwrap()
    }

    fn receiver(args: &[&str]) -> Receiver {
        let args = Only::try_parse_from([&["x"], args].concat()).unwrap();
        Receiver::new(args.listen, Output::Json, Shutdown::new()).unwrap()
    }

    async fn status(receiver: &Receiver, request: Request<Body>) -> u16 {
        receiver.answer(request).await.0.status().as_u16()
    }

    #[tokio::test]
    async fn it_fails_as_told_and_then_takes() {
        let receiver = receiver(&["--fail", "503:2", "--retry-after", "7"]);
        let first = receiver.answer(post("/", &[], b"{}")).await.0;
        assert_eq!(first.status().as_u16(), 503);
        assert_eq!(first.headers()[header::RETRY_AFTER], "7");
        assert_eq!(status(&receiver, post("/", &[], b"{}")).await, 503);
        let third = receiver.answer(post("/", &[], b"{}")).await.0;
        assert_eq!(third.status().as_u16(), 200);
        assert!(third.headers().get(header::RETRY_AFTER).is_none());
    }

    #[tokio::test]
    async fn with_a_secret_nothing_unsigned_or_wrongly_signed_is_taken() {
        let receiver = receiver(&["--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
        assert_eq!(status(&receiver, post("/", &[], b"{}")).await, 401);
        let now = (posthorn_wiring::now().as_secs()).to_string();
        let headers = [
            ("webhook-id", "evt_1"),
            ("webhook-timestamp", now.as_str()),
            ("webhook-signature", "v1,AAAA"),
        ];
        assert_eq!(status(&receiver, post("/", &headers, b"{}")).await, 401);
    }

    #[tokio::test]
    async fn only_posts_to_the_path_are_taken() {
        let receiver = receiver(&["--path", "/hooks"]);
        assert_eq!(status(&receiver, post("/", &[], b"{}")).await, 404);
        let get = Request::get("/hooks").body(Body::empty()).unwrap();
        assert_eq!(status(&receiver, get).await, 405);
        assert_eq!(status(&receiver, post("/hooks", &[], b"{}")).await, 200);
    }

    #[test]
    fn an_id_that_was_answered_badly_is_no_duplicate() {
        let receiver = receiver(&["--fail", "500:1"]);
        let headers: HeaderMap = [(
            axum::http::HeaderName::from_static(WEBHOOK_ID),
            axum::http::HeaderValue::from_static("evt_1"),
        )]
        .into_iter()
        .collect();
        let came = || receiver.decide(&headers, b"", UnixMillis(0));
        assert!(!came().duplicate);
        assert!(!came().duplicate);
        let third = came();
        assert!(third.duplicate && third.status.is_success());
    }

    #[test]
    fn a_line_is_one_line_whatever_came() {
        let headers: HeaderMap = [(
            axum::http::HeaderName::from_static(WEBHOOK_ID),
            axum::http::HeaderValue::from_bytes(b"evt\x09x").unwrap(),
        )]
        .into_iter()
        .collect();
        let outcome = Outcome {
            status: StatusCode::OK,
            verdict: Verdict::Verified,
            duplicate: true,
        };
        let report = report(&headers, b"a\nb", &outcome, UnixMillis(0));
        let wanted = "1970-01-01T00:00:00.000Z 200 evt\\u{9}x attempt=- verified bytes=3 duplicate";
        assert_eq!(line(&report, false), wanted);
        assert_eq!(line(&report, true), format!("{wanted}\na\\u{{a}}b"));
    }
}
