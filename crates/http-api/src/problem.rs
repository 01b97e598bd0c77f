//! Errors as `application/problem+json` (RFC 9457).
//!
//! A client decides by `type` and `status`; the words are for people. No problem shows what
//! happened inside: what is our fault is logged here and answered with a sentence that says so.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use utoipa::ToSchema;

/// What every `type` begins with.
pub const TYPE_PREFIX: &str = "urn:posthorn:problem:";

/// A field that breaks its rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The JSON path, header or query parameter.
    pub field: String,
    /// The rule.
    pub detail: String,
}

impl FieldError {
    /// `field` breaks the rule that `detail` states.
    #[must_use]
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError {
            field: field.into(),
            detail: detail.into(),
        }
    }
}

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Stable: `urn:posthorn:problem:` and a word.
    #[serde(rename = "type")]
    kind: String,
    /// What kind of problem it is, in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong here.
    detail: String,
    /// What it is wrong with, where that is one thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Every field that breaks its rule, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// Seconds, sent as a header.
    #[serde(skip)]
    retry_after: Option<u16>,
}

impl Problem {
    /// A problem with a status and a stable word of its own.
    #[must_use]
    pub fn new(status: StatusCode, slug: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("{TYPE_PREFIX}{slug}"),
            title: title(status),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            errors: Vec::new(),
            retry_after: None,
        }
    }

    /// 400: `field` cannot be read.
    #[must_use]
    pub fn bad_request(slug: &str, field: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, slug, detail).about(field)
    }

    /// 401: no key, or none that is known.
    #[must_use]
    pub fn unauthorized() -> Problem {
        let detail = "an API key is needed, as Authorization: Bearer <key>";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// 403: the caller is known and may not do this.
    #[must_use]
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: `what` does not exist, or is not the caller's, which is not told apart.
    #[must_use]
    pub fn not_found(what: &str) -> Problem {
        let detail = format!("there is no such {what}");
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 409: somebody else wrote first, or the state does not permit it.
    #[must_use]
    pub fn conflict(slug: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, slug, detail)
    }

    /// 413: a body over `limit` bytes.
    #[must_use]
    pub fn too_large(limit: usize) -> Problem {
        let detail = format!("the body is larger than {limit} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// 422: `field` can be read and is not permitted.
    #[must_use]
    pub fn unprocessable(
        slug: &str,
        field: impl Into<String>,
        detail: impl Into<String>,
    ) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, slug, detail).about(field)
    }

    /// 422: every field that breaks its rule.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Problem {
        let field = errors.first().map(|error| error.field.clone());
        let detail = match errors.as_slice() {
            [one] => one.detail.clone(),
            many => format!("{} fields are not valid", many.len()),
        };
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem {
            field,
            errors,
            ..Problem::new(status, "invalid", detail)
        }
    }

    /// 429: try again after `wait`.
    #[must_use]
    pub fn too_many(wait: Duration) -> Problem {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Problem::new(status, "too-many-requests", "too many requests").after(wait)
    }

    /// 503: try again after `wait`.
    #[must_use]
    pub fn unavailable(slug: &str, detail: impl Into<String>, wait: Duration) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, slug, detail).after(wait)
    }

    /// 500: says nothing of what happened; whoever makes one logs that.
    #[must_use]
    pub fn internal() -> Problem {
        let detail = "something failed here; the request may be repeated";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The same problem about another field.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }

    fn after(mut self, wait: Duration) -> Problem {
        // Rounded up: a client that comes a moment early is refused again.
        self.retry_after = Some(wait.as_millis().div_ceil(1_000).try_into().unwrap_or(60));
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The whole `type`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What is wrong here.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What it is wrong with.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Every field that breaks its rule.
    #[must_use]
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "The request cannot be read",
        StatusCode::UNAUTHORIZED => "Not authenticated",
        StatusCode::FORBIDDEN => "Not permitted",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::METHOD_NOT_ALLOWED => "Method not allowed",
        StatusCode::REQUEST_TIMEOUT => "The request took too long",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "Too large",
        StatusCode::UNPROCESSABLE_ENTITY => "Not valid",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "Not available now",
        _ => "Internal failure",
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.status)
    }
}

impl std::error::Error for Problem {}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"posthorn\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_what_rfc_9457_says() {
        let problem = Problem::unprocessable("invalid", "retry.base", "too short");
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "urn:posthorn:problem:invalid");
        assert_eq!(json["status"], 422);
        assert_eq!(json["title"], "Not valid");
        assert_eq!(json["field"], "retry.base");
        assert!(json.get("errors").is_none());
        let response = problem.into_response();
        let kind = &response.headers()[header::CONTENT_TYPE];
        assert_eq!(kind, "application/problem+json");
    }

    #[test]
    fn headers_say_how_to_go_on() {
        let wait = Duration::from_millis(1_200);
        let response = Problem::unavailable("full", "full", wait).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let response = Problem::unauthorized().into_response();
        assert!(response.headers().contains_key(header::WWW_AUTHENTICATE));
    }

    #[test]
    fn several_fields_are_all_named() {
        let errors = vec![FieldError::new("url", "a"), FieldError::new("timeout", "b")];
        let problem = Problem::invalid(errors);
        assert_eq!(problem.errors().len(), 2);
        assert_eq!(problem.field(), Some("url"));
        assert_eq!(problem.detail(), "2 fields are not valid");
    }
}
