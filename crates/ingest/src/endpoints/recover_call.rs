//! Sending an endpoint what it has missed.
//!
//! This service knows neither letters nor lanes, and reads no archive: it writes down what is
//! asked for, as a job in the bucket that the operator's service works on, which then shows it
//! and lets it be paused and cancelled. A dry run is such a job too, so that what is counted is
//! what would be sent; its count is waited for, and the job taken away.

use super::store;
use crate::app::App;
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use posthorn_broker::{BrokerError, StreamName};
use posthorn_delivery::replay::job_id;
use posthorn_delivery::{EndpointId, Event, Recovery, ReplayJob, ReplayState, Tenant, UnixMillis};
use posthorn_http_api::job::{DEFAULT_RATE, RATES};
use posthorn_http_api::time::{parse_rfc3339, to_rfc3339};
use posthorn_http_api::{Action, Identity, JobView, Problem};
use posthorn_runtime::rng::rng;
use posthorn_wiring::now;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use utoipa::ToSchema;

/// How long the count of a dry run is waited for, and how often it is asked for.
const COUNTING: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(100);

/// What an endpoint is to get.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRecovery {
    /// Events accepted at this time (RFC 3339) or later.
    since: String,
    /// Events accepted before this time (RFC 3339); left out is until now.
    until: Option<String>,
    /// Also events that have been delivered to the endpoint.
    #[serde(default)]
    include_delivered: bool,
    /// Deliveries a second, 1 to 10,000.
    #[serde(default = "default_rate")]
    #[schema(default = 50, minimum = 1, maximum = 10000)]
    rate_per_second: u32,
    /// Only count.
    #[serde(default)]
    dry_run: bool,
}

fn default_rate() -> u32 {
    DEFAULT_RATE
}

/// A recovery that was accepted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct RecoveryStarted {
    #[serde(flatten)]
    job: JobView,
    /// When the oldest event that is still kept was accepted: what came before it cannot be
    /// sent again. `null` where none is kept.
    oldest_retained: Option<String>,
}

/// What a recovery would send.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct RecoveryCount {
    /// Events that the endpoint is owed.
    matched: u64,
    /// Events that have been delivered to it, and are left out.
    delivered: u64,
    /// Events whose delivery is under way, and are left out.
    under_way: u64,
    /// Always true.
    dry_run: bool,
    /// When the oldest event that is still kept was accepted: what came before it cannot be
    /// sent again. `null` where none is kept.
    oldest_retained: Option<String>,
}

/// Send an endpoint again, or for the first time, what matches its event types since a time, from
/// the events that are kept.
///
/// What has been delivered to it is left out unless `include_delivered`, and what is under way to
/// it always. What is a dead letter is replayed as one. The rest goes out with a fresh budget of
/// attempts, under the same `webhook-id`, behind live traffic. The answer is a job, which the
/// operator's interface shows under `/v1/replays/{id}` with its progress, pauses, resumes and
/// cancels. Of two recoveries of one endpoint the later waits for the earlier.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints/{id}/recover",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    request_body = NewRecovery,
    responses(
        (status = 202, body = RecoveryStarted, description = "The job; of a dry run whose count takes long as well"),
        (status = 200, body = RecoveryCount, description = "The count of a dry run"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "A field breaks its rule"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn recover(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
    posthorn_http_api::Json(asked): posthorn_http_api::Json<NewRecovery>,
) -> Result<Response, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let now = now();
    let recovery = read(&asked, &id, now)?;
    store::load(&app, &tenant, &id).await?;
    let archive = app.broker.log::<Event>(StreamName::Archive).await?;
    let (_, upper) = archive.bounds().await?;
    let oldest_retained = app.broker.oldest(StreamName::Archive).await?;
    let oldest_retained = oldest_retained.map(to_rfc3339);
    let job = ReplayJob {
        upper,
        ..new_job(&tenant, recovery, asked.rate_per_second, now)
    };
    let create = async { Ok(app.replays.create(&job.id, &job).await?) };
    if asked.dry_run {
        create.await?;
        if let Some(count) = counted(&app, &job, oldest_retained.clone()).await? {
            return Ok(Json(count).into_response());
        }
    } else {
        let place = (&tenant, &id);
        app.act(&caller, Action::EndpointRecover, place, create)
            .await?;
    }
    tracing::info!(caller = caller.name(), job = job.id, endpoint = %id, "recovery asked for");
    let started = RecoveryStarted {
        job: JobView::from(&job),
        oldest_retained,
    };
    Ok((StatusCode::ACCEPTED, Json(started)).into_response())
}

/// Reads what is asked for.
///
/// # Errors
/// 422 that names the field and its rule.
fn read(asked: &NewRecovery, id: &EndpointId, now: UnixMillis) -> Result<Recovery, Problem> {
    let invalid = |field: &str, rule: String| Problem::unprocessable("invalid", field, rule);
    let time = |field: &str, text: &str| {
        parse_rfc3339(text).map_err(|rule| invalid(field, rule.to_string()))
    };
    let since = time("since", &asked.since)?;
    if since > now {
        return Err(invalid("since", "it lies ahead".to_owned()));
    }
    let until = asked.until.as_deref().map(|text| time("until", text));
    let until = until.transpose()?;
    if until.is_some_and(|until| until <= since) {
        return Err(invalid("until", "it must be later than since".to_owned()));
    }
    if !RATES.contains(&asked.rate_per_second) {
        let rule = format!("it is from {} to {}", RATES.start(), RATES.end());
        return Err(invalid("rate_per_second", rule));
    }
    Ok(Recovery {
        endpoint: id.clone(),
        since,
        until,
        include_delivered: asked.include_delivered,
        dry_run: asked.dry_run,
        counted: None,
    })
}

fn new_job(tenant: &Tenant, recovery: Recovery, rate: u32, now: UnixMillis) -> ReplayJob {
    let filter = json!({ "tenant": tenant.as_str(), "endpoint": recovery.endpoint.as_str() });
    ReplayJob {
        id: job_id(now, rng().random()),
        filter: filter.to_string(),
        rate_per_second: rate,
        created_at: now,
        upper: 0,
        cursor: 0,
        matched: 0,
        replayed: 0,
        skipped: 0,
        state: ReplayState::Running,
        updated_at: now,
        owner: String::new(),
        lease_until: now,
        tenant: tenant.to_string(),
        recovery: Some(recovery),
    }
}

/// The count of a dry run, whose job is taken away with it; `None` when it takes long.
///
/// # Errors
/// 503 when the broker does not answer.
async fn counted(
    app: &App,
    job: &ReplayJob,
    oldest_retained: Option<String>,
) -> Result<Option<RecoveryCount>, Problem> {
    let waiting = async {
        loop {
            let found = app.replays.get(&job.id).await?;
            let done = found.map(|found| found.value).filter(ReplayJob::is_counted);
            if let Some(done) = done {
                return Ok::<_, BrokerError>(done);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let Ok(done) = tokio::time::timeout(COUNTING, waiting).await else {
        return Ok(None);
    };
    let done = done?;
    let found = done.recovery.and_then(|recovery| recovery.counted);
    let found = found.unwrap_or_default();
    if let Err(error) = app.replays.purge(&job.id).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(job = job.id, error, "the job of a dry run stays");
    }
    Ok(Some(RecoveryCount {
        matched: done.matched,
        delivered: found.delivered,
        under_way: found.under_way,
        dry_run: true,
        oldest_retained,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn asked(text: &str) -> Result<Recovery, Problem> {
        let asked = serde_json::from_str(text).unwrap();
        read(&asked, &EndpointId::from_bits(7), NOW)
    }

    #[test]
    fn a_time_is_enough() {
        let read = asked(r#"{"since":"2023-11-14T00:00:00Z"}"#).unwrap();
        assert_eq!(read.since, UnixMillis(1_699_920_000_000));
        assert_eq!((read.until, read.counted), (None, None));
        assert!(!read.include_delivered && !read.dry_run);
    }

    #[test]
    fn each_bad_field_is_named() {
        for (text, field) in [
            (r#"{"since":"yesterday"}"#, "since"),
            (r#"{"since":"2023-11-15T00:00:00Z"}"#, "since"),
            (
                r#"{"since":"2023-11-14T00:00:00Z","until":"2023-11-14T00:00:00Z"}"#,
                "until",
            ),
            (r#"{"since":"2023-11-14T00:00:00Z","until":""}"#, "until"),
            (
                r#"{"since":"2023-11-14T00:00:00Z","rate_per_second":0}"#,
                "rate_per_second",
            ),
            (
                r#"{"since":"2023-11-14T00:00:00Z","rate_per_second":10001}"#,
                "rate_per_second",
            ),
        ] {
            let problem = asked(text).unwrap_err();
            assert_eq!(problem.status(), StatusCode::UNPROCESSABLE_ENTITY, "{text}");
            assert_eq!(problem.field(), Some(field), "{text}");
        }
    }
}
