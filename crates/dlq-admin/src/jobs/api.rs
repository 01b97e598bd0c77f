//! Replay jobs over HTTP.

use super::law::{Action, Ended, act};
use super::step::JobDesk;
use super::view::{DryRun, NewJob};
use crate::app::{App, bad_filter, filter_of, require_some, tenant_of};
use crate::filter::LetterFilter;
use crate::lanes::wake::wake_job;
use crate::store::caught_up;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::replay::job_id;
use posthorn_delivery::{ReplayJob, ReplayState, Tenant, UnixMillis};
use posthorn_http_api::job::RATES;
use posthorn_http_api::{Act, Identity, JobView, List, Paging, Problem, Query, audit};
use rand::RngExt;
use serde::Deserialize;
use utoipa::IntoParams;

/// How often an action is tried against a worker that reports at the same time.
const TRIES: u32 = 20;

/// Starts a job that replays every dead letter that matches now, once each, at a rate; with
/// `dry_run` only counts them. Letters that die later are not part of it.
#[utoipa::path(
    post,
    path = "/v1/replays",
    tag = "replays",
    operation_id = "create_replay",
    request_body = NewJob,
    responses(
        (status = 202, description = "The job", body = JobView),
        (status = 200, description = "The count of a dry run", body = DryRun),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "An empty filter, or a field is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn create_job(
    State(app): State<App>,
    caller: Identity,
    posthorn_http_api::Json(asked): posthorn_http_api::Json<NewJob>,
) -> Result<Response, Problem> {
    require_some(&asked.filter)?;
    let filter = filter_of(&caller, asked.filter, bad_filter)?;
    if !RATES.contains(&asked.rate_per_second) {
        let detail = format!("it is from {} to {}", RATES.start(), RATES.end());
        return Err(Problem::unprocessable("invalid", "rate_per_second", detail));
    }
    let (matched, upper) = app.store.count_dead(&filter).await?;
    if asked.dry_run {
        let dry_run = true;
        return Ok(Json(DryRun { matched, dry_run }).into_response());
    }
    let now = posthorn_wiring::now();
    let job = ReplayJob {
        upper,
        matched,
        ..new_job(&filter, asked.rate_per_second, now)
    };
    let act = act_on(audit::Action::ReplayCreate, &job);
    let (store, new) = (app.store.clone(), job.clone());
    app.act(&caller, act, async move { Ok(store.save(&new, 0).await?) })
        .await?;
    let (caller, rate) = (caller.name(), job.rate_per_second);
    tracing::info!(caller, job = job.id, matched, rate, "replay job created");
    Ok((StatusCode::ACCEPTED, Json(JobView::from(&job))).into_response())
}

fn new_job(filter: &LetterFilter, rate_per_second: u32, now: UnixMillis) -> ReplayJob {
    ReplayJob {
        id: job_id(now, posthorn_runtime::rng::rng().random()),
        filter: filter.to_json(),
        rate_per_second,
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
        tenant: filter.tenant().map(Tenant::to_string).unwrap_or_default(),
        recovery: None,
    }
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Jobs of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Jobs, of dead letters and of recoveries, newest first.
#[utoipa::path(
    get,
    path = "/v1/replays",
    tag = "replays",
    operation_id = "list_replays",
    params(JobsQuery),
    responses(
        (status = 200, description = "A page", body = List<JobView>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_jobs(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<JobsQuery>,
) -> Result<Json<List<JobView>>, Problem> {
    tenant_of(&caller, None)?;
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    caught_up(app.store.jobs()).await?;
    let mut jobs = app.store.jobs().all();
    jobs.retain(|(_, job)| sees(&caller, &job.value));
    let total = u64::try_from(jobs.len()).ok();
    jobs.retain(|(id, _)| paging.after().is_none_or(|after| id.as_str() < after));
    jobs.reverse();
    let more = jobs.len() > paging.limit();
    jobs.truncate(paging.limit());
    let next = jobs.last().map(|(id, _)| id.clone()).filter(|_| more);
    let items = jobs.iter().map(|(_, job)| JobView::from(&job.value));
    Ok(Json(List::new(items.collect(), next.as_deref(), total)))
}

/// A replay job.
#[utoipa::path(
    get,
    path = "/v1/replays/{id}",
    tag = "replays",
    operation_id = "show_replay",
    params(("id" = String, Path, description = "`rpl_…`")),
    responses(
        (status = 200, description = "The job", body = JobView),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_job(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<Json<JobView>, Problem> {
    let job = job_of(&app, &caller, &id).await?;
    Ok(Json(JobView::from(&job.value)))
}

macro_rules! action {
    ($(#[$doc:meta])* $name:ident, $action:expr, $path:literal, $operation:literal) => {
        $(#[$doc])*
        #[utoipa::path(
            post,
            path = $path,
            tag = "replays",
            operation_id = $operation,
            params(("id" = String, Path, description = "`rpl_…`")),
            responses(
                (status = 200, description = "The job", body = JobView),
                (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
                (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
                (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
                (status = 409, description = "It has ended", body = Problem, content_type = "application/problem+json"),
                (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
            )
        )]
        pub async fn $name(
            State(app): State<App>,
            caller: Identity,
            Path(id): Path<String>,
        ) -> Result<Json<JobView>, Problem> {
            take_action(&app, &caller, &id, $action).await
        }
    };
}

action!(
    /// Stops a job for now, within a second.
    pause_job, Action::Pause, "/v1/replays/{id}/pause", "pause_replay"
);
action!(
    /// Lets a paused job go on where it stopped.
    resume_job, Action::Resume, "/v1/replays/{id}/resume", "resume_replay"
);
action!(
    /// Stops a job for good, within a second; what was not sent stays a dead letter. What was
    /// handed in before counts as replayed and is delivered all the same: a second's worth at
    /// most, unless its endpoint was held.
    cancel_job, Action::Cancel, "/v1/replays/{id}/cancel", "cancel_replay"
);

async fn take_action(
    app: &App,
    caller: &Identity,
    id: &str,
    action: Action,
) -> Result<Json<JobView>, Problem> {
    let asked = match action {
        Action::Pause => audit::Action::ReplayPause,
        Action::Resume => audit::Action::ReplayResume,
        Action::Cancel => audit::Action::ReplayCancel,
    };
    let act = act_on(asked, &job_of(app, caller, id).await?.value);
    let job = app
        .audit
        .act(caller, act, carry_out(app, caller, id, action));
    Ok(Json(JobView::from(&job.await?)))
}

/// What is done to a job, for the audit log.
fn act_on(action: audit::Action, job: &ReplayJob) -> Act {
    let tenant = Tenant::parse_any(&job.tenant).ok();
    Act::new(action, tenant.as_ref(), job.id.as_str())
}

async fn carry_out(
    app: &App,
    caller: &Identity,
    id: &str,
    action: Action,
) -> Result<ReplayJob, Problem> {
    let job = change(app, caller, id, action).await?;
    if action != Action::Pause {
        wake(app, &job).await?;
    }
    Ok(job)
}

async fn change(
    app: &App,
    caller: &Identity,
    id: &str,
    action: Action,
) -> Result<ReplayJob, Problem> {
    for _ in 0..TRIES {
        let job = job_of(app, caller, id).await?;
        let next = act(&job.value, action, posthorn_wiring::now()).map_err(ended)?;
        if next == job.value {
            return Ok(next);
        }
        match app.store.save(&next, job.revision).await {
            Ok(_) => {
                let (caller, state) = (caller.name(), next.state.as_str());
                tracing::info!(caller, job = id, state, "replay job changed");
                return Ok(next);
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(BrokerError::Conflict.into())
}

/// The lanes of the job may sleep over what has just been changed. When this fails, the same
/// call may be made again.
async fn wake(app: &App, job: &ReplayJob) -> Result<(), Problem> {
    let Ok(filter) = LetterFilter::from_json(&job.filter) else {
        return Ok(());
    };
    let store = app.store.clone();
    app.complete(async move { Ok(wake_job(&store, &filter).await?) })
        .await
}

fn ended(error: Ended) -> Problem {
    Problem::conflict("job-ended", error.to_string())
}

async fn job_of(app: &App, caller: &Identity, id: &str) -> Result<Versioned<ReplayJob>, Problem> {
    tenant_of(caller, None)?;
    let missing = || Problem::not_found("replay job");
    if !is_job_id(id) {
        return Err(missing());
    }
    let found = app.store.load(id).await?;
    let seen = found.filter(|job| sees(caller, &job.value));
    seen.ok_or_else(missing)
}

/// A job over all tenants is seen by callers of all tenants only.
fn sees(caller: &Identity, job: &ReplayJob) -> bool {
    caller.sees(&job.tenant)
}

/// What goes into a key of the bucket is checked, like everything that comes from outside.
fn is_job_id(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let hex = text.strip_prefix("rpl_");
    hex.is_some_and(|hex| hex.len() == 32 && hex.bytes().all(digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use posthorn_http_api::Scope;

    #[test]
    fn what_is_no_id_of_a_job_is_never_looked_up() {
        assert!(is_job_id(&job_id(UnixMillis(1_700_000_000_000), u128::MAX)));
        for bad in ["rpl_", "rpl_*", "", "rpl_0000000000000000000000000000000G"] {
            assert!(!is_job_id(bad), "{bad}");
        }
    }

    #[test]
    fn dlq_05_a_job_of_another_tenant_or_of_all_is_not_seen() {
        let globex = Tenant::parse("globex").unwrap();
        let caller = Identity::new("k", &[Scope::Operate], Some(globex));
        assert!(!sees(&caller, &job(1)));
        let of_all = ReplayJob {
            tenant: String::new(),
            ..job(1)
        };
        assert!(!sees(&caller, &of_all));
        assert!(sees(&Identity::admin(), &of_all));
    }
}
