//! Endpoints as an operator looks at them: which are in trouble, and why.
//!
//! They are configured at the public API, which has their URLs; here they are shown with their
//! breaker, their lanes and what the last quarter of an hour was like.

mod view;

use crate::app::App;
use crate::overview::recent::Tally;
use crate::store::{Store, caught_up};
use axum::Json;
use axum::extract::{Path, State};
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{Endpoint, EndpointId, LaneId, Tenant};
use posthorn_http_api::{Identity, List, Paging, Problem, Query, Scope};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

pub use view::{EndpointHealth, LaneSummary, RecentView};

/// Lanes that are counted at a time.
const CONCURRENCY: usize = 32;

/// Which endpoints, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EndpointsQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Only those that are failing, held or disabled.
    trouble: Option<bool>,
    /// Endpoints of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Endpoints with their health, breaker and lanes, by tenant, the oldest first.
///
/// A key needs one of the scopes `operate` and `endpoints`. What was seen of the attempts is of
/// the last quarter of an hour, in the copy that is asked.
#[utoipa::path(
    get,
    path = "/v1/endpoints",
    tag = "endpoints",
    operation_id = "list_endpoint_health",
    params(EndpointsQuery),
    responses(
        (status = 200, description = "A page", body = List<EndpointHealth>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_endpoints(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<EndpointsQuery>,
) -> Result<Json<List<EndpointHealth>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let asked = query.tenant.as_deref().map(Tenant::parse_any).transpose();
    let asked = asked.map_err(|e| Problem::bad_request("query", "tenant", e.to_string()))?;
    let tenant = whose(&caller, asked.as_ref())?;
    up_to_date(&app.store).await?;
    let recent = app.recently.read(|recent| recent.by_endpoint());
    let mut found = app.store.all_endpoints();
    found.retain(|endpoint| (tenant.as_ref()).is_none_or(|t| *t == endpoint.value.tenant));
    found.sort_by_key(|endpoint| key(&endpoint.value));
    let mut views: Vec<EndpointHealth> = found
        .iter()
        .map(|endpoint| health(&app.store, &endpoint.value, recent.get(&endpoint.value.id)))
        .filter(|view| query.trouble != Some(true) || view.is_in_trouble())
        .collect();
    let total = u64::try_from(views.len()).ok();
    views.retain(|view| paging.after().is_none_or(|after| *view.key() > *after));
    let more = views.len() > paging.limit();
    views.truncate(paging.limit());
    let next = views.last().map(EndpointHealth::key).filter(|_| more);
    let views = futures_util::stream::iter(views)
        .map(|view| with_depths(&app.store, view))
        .buffered(CONCURRENCY);
    let views = views.try_collect().await?;
    Ok(Json(List::new(views, next.as_deref(), total)))
}

/// One endpoint with its health, breaker and lanes. A key needs one of the scopes `operate` and
/// `endpoints`.
#[utoipa::path(
    get,
    path = "/v1/endpoints/{endpoint}",
    tag = "endpoints",
    operation_id = "show_endpoint_health",
    params(("endpoint" = String, Path, description = "`ep_…`")),
    responses(
        (status = 200, description = "The endpoint", body = EndpointHealth),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_endpoint(
    State(app): State<App>,
    caller: Identity,
    Path(endpoint): Path<String>,
) -> Result<Json<EndpointHealth>, Problem> {
    whose(&caller, None)?;
    let missing = || Problem::not_found("endpoint");
    let id = EndpointId::parse(&endpoint).map_err(|_| missing())?;
    up_to_date(&app.store).await?;
    let found = app.store.endpoint(&id);
    let seen = found.filter(|endpoint| caller.sees(endpoint.value.tenant.as_str()));
    let endpoint: Arc<Versioned<Endpoint>> = seen.ok_or_else(missing)?;
    let recent = app.recently.read(|recent| recent.by_endpoint());
    let view = health(&app.store, &endpoint.value, recent.get(&id));
    Ok(Json(with_depths(&app.store, view).await?))
}

/// The one tenant that the answer is about; `None` is all.
fn whose(caller: &Identity, asked: Option<&Tenant>) -> Result<Option<Tenant>, Problem> {
    let scope = match caller.require(Scope::Endpoints) {
        Ok(()) => Scope::Endpoints,
        Err(_) => Scope::Operate,
    };
    match asked {
        Some(tenant) => caller.allow(scope, tenant)?,
        None => caller.require(scope)?,
    }
    Ok(asked.or(caller.tenant()).cloned())
}

async fn up_to_date(store: &Store) -> Result<(), BrokerError> {
    store.endpoints_now().await?;
    caught_up(store.breakers()).await?;
    caught_up(store.lanes().watched()).await
}

fn key(endpoint: &Endpoint) -> String {
    format!("{}.{}", endpoint.tenant, endpoint.id)
}

fn health(store: &Store, endpoint: &Endpoint, recent: Option<&Tally>) -> EndpointHealth {
    let state = store.breakers().get(endpoint.id.as_str());
    let state = state.map(|state| state.value.for_target(endpoint.target_epoch));
    let live = store.lanes().get(&LaneId::live(&endpoint.id));
    let replay = store.lanes().get(&LaneId::replay(&endpoint.id));
    let (live, replay) = (live.as_ref(), replay.as_ref());
    EndpointHealth::new(
        endpoint,
        &state.unwrap_or_default(),
        (live.map(|lane| &lane.value), replay.map(|lane| &lane.value)),
        recent,
        posthorn_wiring::now(),
    )
}

async fn with_depths(
    store: &Store,
    mut view: EndpointHealth,
) -> Result<EndpointHealth, BrokerError> {
    for (lane, summary) in view.lanes_mut() {
        summary.depth = store.lanes().store().depth(&lane).await?;
        if summary.depth > 0 {
            summary.set_oldest(store.head_of(&lane).await?);
        }
    }
    Ok(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dlq_05_either_scope_lets_in_and_another_tenant_does_not_exist() {
        let acme = Tenant::parse("acme").unwrap();
        let globex = Tenant::parse("globex").unwrap();
        let of = |scope| Identity::new("k", &[scope], Some(acme.clone()));
        for scope in [Scope::Operate, Scope::Endpoints] {
            assert_eq!(whose(&of(scope), None), Ok(Some(acme.clone())));
            let other = whose(&of(scope), Some(&globex)).unwrap_err();
            assert_eq!(other.status().as_u16(), 404);
        }
        let refused = whose(&of(Scope::Publish), None).unwrap_err();
        assert_eq!(refused.status().as_u16(), 403);
        assert_eq!(whose(&Identity::admin(), None), Ok(None));
    }
}
