//! What was tried with an endpoint.

use super::calls::PageParams;
use super::newest::newest_before;
use super::store;
use crate::app::App;
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthorn_delivery::{Attempt, AttemptResult, Disposition, UnixMillis};
use posthorn_http_api::time::{as_rfc3339, as_rfc3339_option};
use posthorn_http_api::{Identity, List, Paging, Problem, Query};
use serde::Serialize;
use utoipa::ToSchema;

/// One attempt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptView {
    /// When it began.
    #[serde(serialize_with = "as_rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    at: UnixMillis,
    /// Which one of its delivery, from 1.
    number: u32,
    /// The HTTP status that came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Why none came back, for example `timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// The rule that kept the request from being made, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// How long it took, milliseconds.
    latency_ms: u32,
    /// The event, which receivers know as `webhook-id`.
    event_id: String,
    /// Its type.
    #[serde(rename = "type")]
    event_type: String,
    /// What was decided: `complete`, `retry`, `dead` or `skipped`.
    disposition: &'static str,
    /// Why it was given up, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The earliest time of the next attempt, where there is one.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<UnixMillis>,
    /// The first 4 KiB of the response, where they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
    /// The same in base64, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
}

impl AttemptView {
    fn of(attempt: &Attempt) -> AttemptView {
        let (status, error) = match attempt.result {
            AttemptResult::Status(code) => (Some(code), None),
            AttemptResult::Error(failure) => (None, Some(failure.as_str())),
        };
        let (disposition, reason, next_attempt_at) = match attempt.disposition {
            Disposition::Complete => ("complete", None, None),
            Disposition::Retry { not_before, .. } => ("retry", None, Some(not_before)),
            Disposition::Dead(reason) => ("dead", Some(reason.as_str()), None),
            Disposition::Skipped => ("skipped", None, None),
        };
        let (response_body, response_body_base64) = body(&attempt.response_body);
        AttemptView {
            at: attempt.at,
            number: attempt.number,
            status,
            error,
            detail: Some(attempt.detail.clone()).filter(|text| !text.is_empty()),
            latency_ms: attempt.latency_ms,
            event_id: attempt.event_id.to_string(),
            event_type: attempt.event_type.to_string(),
            disposition,
            reason,
            next_attempt_at,
            response_body,
            response_body_base64,
        }
    }
}

/// As text where it is one. A text that was cut within a character still is, up to there.
pub(super) fn body(bytes: &[u8]) -> (Option<String>, Option<String>) {
    if bytes.is_empty() {
        return (None, None);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            let whole = &bytes[..error.valid_up_to()];
            (Some(String::from_utf8_lossy(whole).into_owned()), None)
        }
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// List what was tried with an endpoint, newest first.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/endpoints/{id}/attempts",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
        PageParams,
    ),
    responses(
        (status = 200, body = List<AttemptView>, description = "A page of the endpoint's attempts, the newest first"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn attempts(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
    Query(page): Query<PageParams>,
) -> Result<Json<List<AttemptView>>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let paging = Paging::try_new(page.limit, page.cursor.as_deref())?;
    let before = paging.after_number()?;
    store::load(&app, &tenant, &id).await?;
    let filter = app
        .broker
        .names()
        .attempts_of_endpoint(tenant.as_str(), id.as_str());
    let total = app.attempts.count(&filter).await?;
    let found = newest_before(&app.attempts, &filter, before, paging.limit()).await?;
    let oldest = found.items.last().map(|logged| logged.sequence.to_string());
    let next = oldest.filter(|_| found.more);
    let items = found
        .items
        .iter()
        .map(|logged| AttemptView::of(&logged.value));
    Ok(Json(List::new(
        items.collect(),
        next.as_deref(),
        Some(total),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sig_07_a_body_is_shown_without_a_replaced_character() {
        assert_eq!(body(b""), (None, None));
        assert_eq!(body(b"ok"), (Some("ok".to_owned()), None));
        assert_eq!(body("a\u{1f600}".as_bytes()).0.unwrap(), "a\u{1f600}");
        assert_eq!(
            body(&"a\u{1f600}".as_bytes()[..3]),
            (Some("a".to_owned()), None)
        );
        assert_eq!(body(b"\x00\xff"), (None, Some("AP8=".to_owned())));
        assert_eq!(body(b"caf\xe9!"), (None, Some("Y2Fm6SE=".to_owned())));
    }
}
