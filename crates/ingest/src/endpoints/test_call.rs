//! Trying an endpoint: one request now, and everything that was said.
//!
//! The test goes the way of every event, so it tries the way as well: the dispatchers' network,
//! their resolver, the rules and the proxy of theirs. Ingest makes no request itself; it waits
//! for the record of the attempt.

use super::store;
use super::test_view::TestView;
use crate::app::App;
use crate::events::{Submission, accept, traceparent};
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use posthorn_broker::Patience;
use posthorn_delivery::event::TEST_TYPE;
use posthorn_delivery::{Attempt, Disposition, Endpoint, EndpointId, EventId, EventType};
use posthorn_http_api::time::{parse_duration, to_rfc3339};
use posthorn_http_api::{Action, Identity, Problem, Query};
use posthorn_wiring::now;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::IntoParams;

/// Beside the endpoint's own timeout, for the way there and back.
const WAY: Duration = Duration::from_secs(5);
/// The longest that may be asked to be waited for.
const LONGEST: Duration = Duration::from_secs(120);
/// Bounds of the pause between two looks for the record.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// Records read in one look.
const READ: usize = 100;

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TestParams {
    /// How long the answer is waited for, from `0s` to `2m`; the endpoint's `timeout` and 5 s
    /// where nothing is said.
    #[param(example = "20s")]
    wait: Option<String>,
}

/// Send an endpoint a test event, `posthorn.test`, and see what it answers.
///
/// One request, at once, whatever the endpoint subscribed to, and also while it is paused,
/// disabled, cut off by its breaker or asked for quiet. It is not repeated, moves no breaker,
/// disables nothing and leaves no dead letter. The answer is the request as it was made, with
/// credentials masked and signatures cut short, and the response or what kept it from coming.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints/{id}/test",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
        TestParams,
    ),
    responses(
        (status = 200, body = TestView, description = "The request was made, or a rule forbids it: `outcome` says which, and how it went"),
        (status = 202, body = TestView, description = "Not answered within the time waited for: `outcome` is `pending`. Its attempt will be among the endpoint's"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn test(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
    Query(params): Query<TestParams>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<TestView>), Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let wait = params.wait.as_deref().map(wait_of).transpose()?;
    let endpoint = store::load(&app, &tenant, &id).await?.value;
    let wait = wait.unwrap_or(endpoint.timeout + WAY);
    // Looked at before, so that the record cannot lie before it.
    let (_, last) = app.attempts.bounds().await?;
    let payload = payload(&id);
    let submission = Submission {
        tenant: tenant.clone(),
        event_type: EventType::parse(TEST_TYPE).map_err(|_| Problem::internal())?,
        key: None,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        parent: traceparent(&headers),
        deliver_at: None,
        only_endpoint: Some(id.clone()),
        payload: payload.clone(),
    };
    let work = accept(&app, submission, Patience::CALLER);
    let place = (&tenant, &id);
    let event = app.act(&caller, Action::EndpointTest, place, work).await?;
    let record = record(&app, &endpoint, &event.id, last, wait).await;
    let status = match record {
        Some(_) => StatusCode::OK,
        None => StatusCode::ACCEPTED,
    };
    let view = TestView::new(&app.vault, &endpoint, (&event.id, &payload), record);
    Ok((status, Json(view)))
}

fn payload(id: &EndpointId) -> Bytes {
    let payload = json!({
        "type": TEST_TYPE,
        "timestamp": to_rfc3339(now()),
        "data": {"endpoint_id": id.as_str()},
    });
    payload.to_string().into()
}

fn wait_of(text: &str) -> Result<Duration, Problem> {
    let bad = |rule: String| Problem::bad_request("query", "wait", rule);
    let wait = parse_duration(text).map_err(|error| bad(error.to_string()))?;
    if wait > LONGEST {
        return Err(bad("it is from 0s to 2m".to_owned()));
    }
    Ok(wait)
}

/// The record of the attempt, of those after sequence `last`; `None` where there is none in
/// time. The test has been sent by now: a look that fails is made again, and none is an error.
async fn record(
    app: &App,
    endpoint: &Endpoint,
    event: &EventId,
    last: u64,
    wait: Duration,
) -> Option<Attempt> {
    let names = app.broker.names();
    let filter = names.attempt(&endpoint.tenant, &endpoint.id, event);
    let until = Instant::now() + wait;
    let mut from = last.saturating_add(1);
    let mut pause = PAUSE.0;
    loop {
        if let Ok(page) = app.attempts.read(&filter, from, READ).await {
            from = page.items.last().map_or(from, |item| item.sequence + 1);
            let mut records = page.items.into_iter().map(|item| item.value);
            if let Some(found) = records.find(|record| is_its_end(record, event)) {
                return Some(found);
            }
        }
        if Instant::now() + pause >= until {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// A connection that had gone stale is a record too, and is tried again.
fn is_its_end(record: &Attempt, event: &EventId) -> bool {
    record.event_id == *event && !matches!(record.disposition, Disposition::Retry { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_bounded() {
        assert_eq!(wait_of("0s"), Ok(Duration::ZERO));
        assert_eq!(wait_of("2m"), Ok(LONGEST));
        for bad in ["3m", "1", "soon", "-1s"] {
            assert_eq!(wait_of(bad).unwrap_err().field(), Some("wait"), "{bad}");
        }
    }
}
