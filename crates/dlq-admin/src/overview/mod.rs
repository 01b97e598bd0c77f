//! The installation at one glance: what flows, what waits, what has been given up.
//!
//! The numbers are those of the streams themselves and of what this service sees of the log of
//! attempts. No other service is asked: one that hangs would not say so.

pub mod recent;
pub mod sample;
mod view;

use crate::app::{App, tenant_of};
use crate::store::caught_up;
use axum::Json;
use axum::extract::State;
use posthorn_delivery::Tenant;
use posthorn_delivery::breaker::Phase;
use posthorn_http_api::{Identity, Problem, Query};
use recent::Recent;
use serde::Deserialize;
use std::sync::{Arc, Mutex};
use utoipa::IntoParams;

pub use view::{EndpointCounts, LaneCounts, Overview, PointView, Streams};

/// What is remembered of the last quarter of an hour; clones are the same.
#[derive(Clone, Default)]
pub struct Recently {
    shared: Arc<Mutex<Recent>>,
}

impl Recently {
    /// Changes it.
    pub fn change<T>(&self, work: impl FnOnce(&mut Recent) -> T) -> T {
        let mut recent = self.shared.lock().expect("nothing here panics");
        work(&mut recent)
    }

    /// Looks at it.
    pub fn read<T>(&self, look: impl FnOnce(&Recent) -> T) -> T {
        self.change(|recent| look(recent))
    }
}

/// Whose overview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OverviewQuery {
    /// Of this tenant only.
    tenant: Option<String>,
}

/// What flows, waits and was given up: now, and in the last quarter of an hour.
///
/// The time series are those of the copy that is asked, from its start on; attempts of the time
/// before are read from the log, 2,048 at most. Where more than 100 attempts are made in a
/// second, the shares and latencies are those of a sample. What the streams hold is known for
/// all tenants together only: for one tenant `streams` and `accepted` are null.
#[utoipa::path(
    get,
    path = "/v1/overview",
    tag = "overview",
    operation_id = "overview",
    params(OverviewQuery),
    responses(
        (status = 200, description = "The overview", body = Overview),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_overview(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<OverviewQuery>,
) -> Result<Json<Overview>, Problem> {
    let asked = query.tenant.as_deref().map(Tenant::parse_any).transpose();
    let asked = asked.map_err(|e| Problem::bad_request("query", "tenant", e.to_string()))?;
    let tenant = tenant_of(&caller, asked.as_ref())?;
    app.store.endpoints_now().await?;
    caught_up(app.store.breakers()).await?;
    caught_up(app.store.lanes().watched()).await?;
    let (points, now) = app
        .recently
        .read(|recent| (recent.points(tenant.as_ref()), recent.now()));
    Ok(Json(Overview::new(
        tenant.as_ref(),
        &points,
        now,
        endpoints(&app, tenant.as_ref()),
        lanes(&app, tenant.as_ref()),
    )))
}

fn endpoints(app: &App, tenant: Option<&Tenant>) -> EndpointCounts {
    let mut counts = EndpointCounts::default();
    let all = app.store.all_endpoints();
    let of_it = |owner: &Tenant| tenant.is_none_or(|tenant| tenant == owner);
    for endpoint in all.iter().filter(|endpoint| of_it(&endpoint.value.tenant)) {
        let endpoint = &endpoint.value;
        counts.total += 1;
        counts.disabled += u64::from(endpoint.disabled.is_some());
        let state = app.store.breakers().get(endpoint.id.as_str());
        let state = state.map(|state| state.value.for_target(endpoint.target_epoch));
        let open = state.is_some_and(|state| state.phase != Phase::Closed);
        counts.breakers_open += u64::from(open);
    }
    counts
}

fn lanes(app: &App, tenant: Option<&Tenant>) -> LaneCounts {
    let mut counts = LaneCounts::default();
    for (_, lane) in app.store.lanes().watched().all() {
        if tenant.is_some_and(|tenant| *tenant != lane.value.tenant) {
            continue;
        }
        counts.active += 1;
        let reason = lane.value.reason.as_str();
        *counts.by_reason.entry(reason).or_default() += 1;
    }
    counts
}
