//! The list of active lanes.

use super::view::{Known, LaneView};
use crate::app::{App, tenant_of};
use crate::store::{Store, caught_up};
use axum::Json;
use axum::extract::State;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{Endpoint, EndpointId, LaneId, LaneReason, LaneState, Tenant};
use posthorn_http_api::{Identity, List, Paging, Problem, Query};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use utoipa::IntoParams;

/// Heads of lanes that are read at a time.
const CONCURRENCY: usize = 32;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LanesQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Active for this reason.
    reason: Option<String>,
    /// Lanes of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The active lanes, in the order of their endpoints' ids, live before replay. An endpoint that
/// has none flows freely.
#[utoipa::path(
    get,
    path = "/v1/lanes",
    tag = "lanes",
    operation_id = "list_lanes",
    params(LanesQuery),
    responses(
        (status = 200, description = "A page", body = List<LaneView>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_lanes(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<LanesQuery>,
) -> Result<Json<List<LaneView>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let asked = query.tenant.as_deref().map(Tenant::parse_any).transpose();
    let asked = asked.map_err(|e| Problem::bad_request("query", "tenant", e.to_string()))?;
    let reason = query.reason.as_deref().map(reason).transpose()?;
    let tenant = tenant_of(&caller, asked.as_ref())?;
    app.store.endpoints_now().await?;
    caught_up(app.store.lanes().watched()).await?;
    let endpoints = by_id(&app.store);
    let mut lanes = known(&app.store, &endpoints).await?;
    lanes.retain(|_, lane| tenant.is_none() || tenant == lane.tenant);
    lanes.retain(|_, lane| reason.is_none_or(|reason| reason == lane.reason()));
    let total = u64::try_from(lanes.len()).ok();
    lanes.retain(|key, _| paging.after().is_none_or(|after| key.as_str() > after));
    let more = lanes.len() > paging.limit();
    let page: Vec<(String, Known)> = lanes.into_iter().take(paging.limit()).collect();
    let next = page.last().map(|(key, _)| key.clone()).filter(|_| more);
    let views = futures_util::stream::iter(page)
        .map(|(_, lane)| show(&app.store, &endpoints, lane))
        .buffered(CONCURRENCY);
    let views = views.try_collect().await?;
    Ok(Json(List::new(views, next.as_deref(), total)))
}

type Endpoints = HashMap<EndpointId, Arc<Versioned<Endpoint>>>;

fn by_id(store: &Store) -> Endpoints {
    let all = store.all_endpoints().into_iter();
    all.map(|endpoint| (endpoint.value.id.clone(), endpoint))
        .collect()
}

/// Every lane that has a key or holds something, by key.
async fn known(
    store: &Store,
    endpoints: &Endpoints,
) -> Result<BTreeMap<String, Known>, BrokerError> {
    let lanes = store.lanes();
    let mut depths: HashMap<LaneId, u64> = lanes.store().lanes().await?.into_iter().collect();
    let mut found = BTreeMap::new();
    for (key, state) in lanes.watched().all() {
        if let Some(lane) = LaneId::parse(&key) {
            let depth = depths.remove(&lane).unwrap_or(0);
            found.insert(key, with_key(lane, state.value.clone(), depth));
        }
    }
    for (lane, depth) in depths {
        let endpoint = endpoints.get(&lane.endpoint);
        let tenant = endpoint.map(|endpoint| endpoint.value.tenant.clone());
        let state = None;
        let key = lane.key();
        found.insert(
            key,
            Known {
                lane,
                tenant,
                state,
                depth,
            },
        );
    }
    Ok(found)
}

fn with_key(lane: LaneId, state: LaneState, depth: u64) -> Known {
    Known {
        lane,
        tenant: Some(state.tenant.clone()),
        state: Some(state),
        depth,
    }
}

async fn show(store: &Store, endpoints: &Endpoints, lane: Known) -> Result<LaneView, BrokerError> {
    let oldest = match lane.depth {
        0 => None,
        _ => store.head_of(&lane.lane).await?,
    };
    let endpoint = endpoints.get(&lane.lane.endpoint);
    Ok(lane.view(endpoint.map(|endpoint| &endpoint.value), oldest))
}

fn reason(text: &str) -> Result<LaneReason, Problem> {
    LaneReason::parse(text).ok_or_else(|| {
        let names = LaneReason::ALL.map(LaneReason::as_str).join(", ");
        Problem::bad_request("query", "reason", format!("it is one of {names}"))
    })
}
