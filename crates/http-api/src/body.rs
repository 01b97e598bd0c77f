//! Reading a request's body: never more than a bound, never longer than a deadline, and JSON
//! with an error that names the field.

use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::error::Error;
use tower_http::timeout::TimeoutError;

/// The largest JSON document of a management call, in bytes.
pub const MAX_JSON: usize = 1024 * 1024;
/// What is read beyond a limit and thrown away, so that a client that is still sending gets
/// to read the refusal instead of a reset connection.
///
/// Many clients write all of a request before they read: to them a refusal at once is a broken
/// pipe. It costs no memory, and the deadline of the body bounds its time.
const MAX_DISCARD: u64 = 64 * 1024 * 1024;

/// Reads a body of at most `limit` bytes, whether or not its length was declared.
///
/// # Errors
/// 413 with the limit, 408 when the deadline of [`crate::dress`] passes, 400 when the client
/// stops in the middle.
pub async fn read_body(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let declared = body.size_hint().lower();
    if declared > most.saturating_add(MAX_DISCARD) {
        return Err(Problem::too_large(limit));
    }
    let mut read = BytesMut::new();
    let mut length = 0_u64;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length = length.saturating_add(data.len() as u64);
        if length > most.saturating_add(MAX_DISCARD) {
            return Err(Problem::too_large(limit));
        }
        if length <= most {
            read.extend_from_slice(&data);
        }
    }
    if length > most {
        return Err(Problem::too_large(limit));
    }
    Ok(read.freeze())
}

fn broken(error: &(dyn Error + 'static)) -> Problem {
    let mut at = Some(error);
    while let Some(here) = at {
        if here.is::<TimeoutError>() {
            let detail = "the body did not arrive in time";
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail);
        }
        at = here.source();
    }
    Problem::new(
        StatusCode::BAD_REQUEST,
        "body",
        "the body could not be read",
    )
}

/// A JSON document as a value of `T`; as an extractor it is at most [`MAX_JSON`] bytes.
#[derive(Clone, Debug)]
pub struct Json<T>(pub T);

impl<S, T> FromRequest<S> for Json<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Json<T>, Problem> {
        require_json(request.headers())?;
        let bytes = read_body(request.into_body(), MAX_JSON).await?;
        parse_object(&bytes).map(Json)
    }
}

/// Refuses a body that says it is something else. One that says nothing is taken for JSON.
///
/// # Errors
/// 400 that names `content-type`.
pub fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(declared) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let text = declared.to_str().unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    let detail = "the body is application/json";
    Err(Problem::bad_request("content-type", "content-type", detail))
}

/// Reads a whole JSON object. An array is refused: it would be read by position, as fields
/// without their names.
///
/// # Errors
/// As [`parse_json`].
pub fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let detail = "the body is an object";
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid",
            detail,
        ));
    }
    parse_json(bytes)
}

/// Reads a whole JSON document.
///
/// # Errors
/// 400 where it is no JSON, 422 where it is not the JSON expected: both name the path.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        json_problem(&path, error.inner())
    })?;
    reader.end().map_err(|error| json_problem("", &error))?;
    Ok(value)
}

fn json_problem(path: &str, error: &serde_json::Error) -> Problem {
    let text = without_value(&error.to_string());
    if !error.is_data() {
        return Problem::new(StatusCode::BAD_REQUEST, "json", format!("no JSON: {text}"));
    }
    let path = if path == "." { "" } else { path };
    let unknown = text
        .strip_prefix("unknown field `")
        .or_else(|| text.strip_prefix("missing field `"));
    let field = match unknown.and_then(|rest| rest.split('`').next()) {
        Some(name) if path.is_empty() || path == name => name.to_owned(),
        Some(name) if path.ends_with(&format!(".{name}")) => path.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path.to_owned(),
    };
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", text);
    if field.is_empty() {
        return problem;
    }
    problem.about(field)
}

/// The library's text shows the string it did not like, which may be a secret.
fn without_value(text: &str) -> String {
    let (Some(start), Some(end)) = (text.find("string \""), text.rfind("\", expected")) else {
        return text.to_owned();
    };
    format!("{}string{}", &text[..start], &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[allow(dead_code, reason = "only its reading is of interest")]
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only its reading is of interest")]
        number: u32,
    }

    fn refused(text: &str) -> Problem {
        parse_json::<Outer>(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_field_is_named_by_its_path() {
        for (text, field, status) in [
            (r#"{"iner":{}}"#, Some("iner"), 422),
            (r#"{"inner":{"nummer":1}}"#, Some("inner.nummer"), 422),
            (r#"{"inner":{}}"#, Some("inner.number"), 422),
            (r#"{"inner":{"number":"x"}}"#, Some("inner.number"), 422),
            ("7", None, 422),
            (r#"{"inner":{"number":1}"#, None, 400),
            (r#"{"inner":null} x"#, None, 400),
            ("", None, 400),
            ("\u{feff}{}", None, 400),
        ] {
            let problem = refused(text);
            assert_eq!(problem.status().as_u16(), status, "{text}");
            assert_eq!(problem.field(), field, "{text}: {problem}");
        }
    }

    #[test]
    fn an_array_is_not_taken_for_an_object_by_position() {
        assert!(parse_json::<Outer>(b"[null]").is_ok());
        for text in ["[null]", " \n[]"] {
            let problem = parse_object::<Outer>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.status().as_u16(), 422, "{text}");
        }
        assert!(parse_object::<Outer>(b" {}").is_ok());
    }

    #[test]
    fn dlq_06_an_error_does_not_repeat_a_value() {
        let problem = refused(r#"{"inner":{"number":"whsec_\"private"}}"#);
        assert!(!problem.detail().contains("private"), "{problem}");
        assert!(problem.detail().contains("expected u32"), "{problem}");
    }

    #[test]
    fn a_deep_document_is_refused_and_not_recursed_into() {
        let deep = "[".repeat(100_000);
        let problem = parse_json::<serde_json::Value>(deep.as_bytes()).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
    }

    #[tokio::test]
    async fn js_15_the_limit_is_exact_for_declared_and_streamed_bodies() {
        for (length, fits) in [(7, true), (8, true), (9, false)] {
            let whole = Body::from(vec![0; length]);
            assert_eq!(read_body(whole, 8).await.is_ok(), fits, "{length}");
            let part = || Ok::<_, std::io::Error>(Bytes::from_static(b"x"));
            let parts = futures_util::stream::iter((0..length).map(move |_| part()));
            let streamed = Body::from_stream(parts);
            assert_eq!(read_body(streamed, 8).await.is_ok(), fits, "{length}");
        }
        let refused = read_body(Body::from(vec![0; 9]), 8).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 413);
        assert!(refused.detail().contains("8 bytes"));
    }
}
