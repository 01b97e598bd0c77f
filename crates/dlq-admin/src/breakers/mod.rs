//! Circuit breakers over HTTP: looking at them, and opening or closing one by hand.

mod view;

use crate::app::{App, tenant_of};
use crate::store::{Store, caught_up};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::breaker::{close_by_hand, open_by_hand};
use posthorn_delivery::{BreakerState, Endpoint, EndpointId, LaneId, Tenant, UnixMillis};
use posthorn_http_api::body::{MAX_JSON, parse_object};
use posthorn_http_api::time::parse_duration;
use posthorn_http_api::{Act, Action, Identity, List, Paging, Problem, Query, read_body};
use posthorn_notices::Notice;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

pub use view::{BreakerView, ProbeView};

/// How long a breaker is opened where nothing is said.
const DEFAULT_OPEN: Duration = Duration::from_secs(15 * 60);
/// The shortest and longest time that one may be opened for: a second, 30 days.
const OPEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30 * 86_400));
/// How often a change is tried against dispatchers that write at the same time.
const TRIES: u32 = 20;
/// Lanes that are counted at a time.
const CONCURRENCY: usize = 32;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BreakersQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Breakers of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The breakers that are not plainly closed, and endpoints that asked to be left alone, in the
/// order of their endpoints' ids.
#[utoipa::path(
    get,
    path = "/v1/breakers",
    tag = "breakers",
    operation_id = "list_breakers",
    params(BreakersQuery),
    responses(
        (status = 200, description = "A page", body = List<BreakerView>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_breakers(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<BreakersQuery>,
) -> Result<Json<List<BreakerView>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let asked = query.tenant.as_deref().map(Tenant::parse_any).transpose();
    let asked = asked.map_err(|e| Problem::bad_request("query", "tenant", e.to_string()))?;
    let tenant = tenant_of(&caller, asked.as_ref())?;
    app.store.endpoints_now().await?;
    caught_up(app.store.breakers()).await?;
    let now = posthorn_wiring::now();
    let mut views: Vec<BreakerView> = app
        .store
        .all_endpoints()
        .iter()
        .filter(|endpoint| (tenant.as_ref()).is_none_or(|t| *t == endpoint.value.tenant))
        .filter_map(|endpoint| notable(&app, &endpoint.value, now))
        .collect();
    views.sort_by(|a, b| a.endpoint.cmp(&b.endpoint));
    let total = u64::try_from(views.len()).ok();
    views.retain(|view| {
        paging
            .after()
            .is_none_or(|after| view.endpoint.as_str() > after)
    });
    let more = views.len() > paging.limit();
    views.truncate(paging.limit());
    let next = views
        .last()
        .map(|last| last.endpoint.clone())
        .filter(|_| more);
    let views = futures_util::stream::iter(views)
        .map(|view| with_backlog(&app.store, view))
        .buffered(CONCURRENCY);
    let views = views.try_collect().await?;
    Ok(Json(List::new(views, next.as_deref(), total)))
}

async fn with_backlog(store: &Store, mut view: BreakerView) -> Result<BreakerView, BrokerError> {
    let Ok(endpoint) = EndpointId::parse(&view.endpoint) else {
        return Ok(view);
    };
    let lane = LaneId::live(&endpoint);
    view.backlog = store.lanes().store().depth(&lane).await?;
    Ok(view)
}

fn notable(app: &App, endpoint: &Endpoint, now: UnixMillis) -> Option<BreakerView> {
    let known = app.store.breakers().get(endpoint.id.as_str())?;
    let state = known.value.for_target(endpoint.target_epoch);
    let notable = !state.is_quiet() || state.hold_until > now;
    notable.then(|| BreakerView::new(endpoint, &state, now))
}

/// The breaker of an endpoint; one that was never needed is closed.
#[utoipa::path(
    get,
    path = "/v1/breakers/{endpoint}",
    tag = "breakers",
    operation_id = "show_breaker",
    params(("endpoint" = String, Path, description = "`ep_…`")),
    responses(
        (status = 200, description = "The breaker", body = BreakerView),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_breaker(
    State(app): State<App>,
    caller: Identity,
    Path(endpoint): Path<String>,
) -> Result<Json<BreakerView>, Problem> {
    let endpoint = endpoint_of(&app, &caller, &endpoint).await?;
    let (state, _) = read(&app.store, &endpoint.value).await?;
    let view = BreakerView::new(&endpoint.value, &state, posthorn_wiring::now());
    Ok(Json(with_backlog(&app.store, view).await?))
}

/// For how long.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenFor {
    /// A duration from `1s` to `30d`; `15m` where nothing is said.
    #[serde(rename = "for")]
    #[schema(default = "15m")]
    duration: Option<String>,
}

/// Opens a breaker by hand: nothing is sent to the endpoint for that time; then one delivery
/// probes, as after any cooldown. The body may be left out.
#[utoipa::path(
    post,
    path = "/v1/breakers/{endpoint}/open",
    tag = "breakers",
    operation_id = "open_breaker",
    params(("endpoint" = String, Path, description = "`ep_…`")),
    request_body = OpenFor,
    responses(
        (status = 200, description = "The breaker, open", body = BreakerView),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The endpoint has no breaker (`breaker: null`)", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The time is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn open_breaker(
    State(app): State<App>,
    caller: Identity,
    Path(endpoint): Path<String>,
    body: Body,
) -> Result<Json<BreakerView>, Problem> {
    let endpoint = endpoint_of(&app, &caller, &endpoint).await?;
    let bytes = read_body(body, MAX_JSON).await?;
    let asked = match bytes.is_empty() {
        true => OpenFor::default(),
        false => parse_object(&bytes)?,
    };
    let duration = open_for(&asked)?;
    if endpoint.value.breaker.is_none() {
        let detail = "the endpoint's breaker is off; pause the endpoint instead";
        return Err(Problem::conflict("breaker-off", detail));
    }
    let change = move |state: &BreakerState, now| open_by_hand(state, now + duration, now);
    let act = act_on(Action::BreakerOpen, &endpoint.value);
    let view = by_hand(&app, (&caller, act), endpoint.clone(), change).await?;
    let id = &endpoint.value.id;
    tracing::info!(caller = caller.name(), endpoint = %id, "breaker opened by hand");
    Ok(Json(view))
}

/// Closes a breaker by hand, and lifts a hold. What waits in the endpoint's lane is let go from
/// now on: few at first, and more while they are answered well.
#[utoipa::path(
    post,
    path = "/v1/breakers/{endpoint}/close",
    tag = "breakers",
    operation_id = "close_breaker",
    params(("endpoint" = String, Path, description = "`ep_…`")),
    responses(
        (status = 200, description = "The breaker, closed", body = BreakerView),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn close_breaker(
    State(app): State<App>,
    caller: Identity,
    Path(endpoint): Path<String>,
) -> Result<Json<BreakerView>, Problem> {
    let endpoint = endpoint_of(&app, &caller, &endpoint).await?;
    let change = |state: &BreakerState, _| close_by_hand(state);
    let act = act_on(Action::BreakerClose, &endpoint.value);
    let view = by_hand(&app, (&caller, act), endpoint.clone(), change).await?;
    let id = &endpoint.value.id;
    tracing::info!(caller = caller.name(), endpoint = %id, "breaker closed by hand");
    Ok(Json(view))
}

async fn endpoint_of(
    app: &App,
    caller: &Identity,
    id: &str,
) -> Result<Arc<Versioned<Endpoint>>, Problem> {
    tenant_of(caller, None)?;
    let missing = || Problem::not_found("endpoint");
    let id = EndpointId::parse(id).map_err(|_| missing())?;
    app.store.endpoints_now().await?;
    let found = app.store.endpoint(&id);
    let seen = found.filter(|endpoint| caller.sees(endpoint.value.tenant.as_str()));
    seen.ok_or_else(missing)
}

/// The state as it counts for the endpoint's target, and the revision to write over.
async fn read(store: &Store, endpoint: &Endpoint) -> Result<(BreakerState, u64), BrokerError> {
    let bucket = store.breakers().bucket();
    let found = bucket.get(endpoint.id.as_str()).await?;
    let revision = found.as_ref().map_or(0, |found| found.revision);
    let state = found.map_or_else(BreakerState::default, |found| found.value);
    Ok((state.for_target(endpoint.target_epoch), revision))
}

/// Changes a breaker and wakes the endpoint's lanes, whose owners may sleep until the end of
/// the state before. When only the waking fails, the same call may be made again.
async fn by_hand(
    app: &App,
    (caller, act): (&Identity, Act),
    endpoint: Arc<Versioned<Endpoint>>,
    change: impl Fn(&BreakerState, UnixMillis) -> BreakerState + Send + Sync + 'static,
) -> Result<BreakerView, Problem> {
    let store = app.store.clone();
    app.act(caller, act, async move {
        let view = write(&store, &endpoint.value, change).await?;
        store.wake(&endpoint.value.id).await?;
        Ok(with_backlog(&store, view).await?)
    })
    .await
}

fn act_on(action: Action, endpoint: &Endpoint) -> Act {
    Act::new(action, Some(&endpoint.tenant), endpoint.id.as_str())
}

async fn write(
    store: &Store,
    endpoint: &Endpoint,
    change: impl Fn(&BreakerState, UnixMillis) -> BreakerState,
) -> Result<BreakerView, BrokerError> {
    let bucket = store.breakers().bucket();
    for _ in 0..TRIES {
        let (state, revision) = read(store, endpoint).await?;
        let now = posthorn_wiring::now();
        let next = change(&state, now);
        match bucket.swap(endpoint.id.as_str(), &next, revision).await {
            Ok(_) => {
                if let Some(moved) = Notice::of_breaker(endpoint, &state, &next) {
                    posthorn_notices::tell(store.broker(), &moved).await;
                }
                return Ok(BreakerView::new(endpoint, &next, now));
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Err(BrokerError::Conflict)
}

fn open_for(asked: &OpenFor) -> Result<Duration, Problem> {
    let Some(text) = &asked.duration else {
        return Ok(DEFAULT_OPEN);
    };
    let invalid = |detail: String| Problem::unprocessable("invalid", "for", detail);
    let duration = parse_duration(text).map_err(|error| invalid(error.to_string()))?;
    if duration < OPEN.0 || duration > OPEN.1 {
        return Err(invalid("it is from 1s to 30d".to_owned()));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_bounded_and_has_a_default() {
        let open = |text: Option<&str>| {
            open_for(&OpenFor {
                duration: text.map(str::to_owned),
            })
        };
        assert_eq!(open(None), Ok(DEFAULT_OPEN));
        assert_eq!(open(Some("2h")), Ok(Duration::from_secs(7_200)));
        for bad in ["0s", "31d", "15", "soon"] {
            assert_eq!(open(Some(bad)).unwrap_err().field(), Some("for"), "{bad}");
        }
    }
}
