//! The routes, and the document that describes them: one list makes both.

use crate::app::App;
use crate::{
    api_keys, attempts, audit, breakers, deliveries, endpoints, jobs, lanes, letters, overview,
    page, retention,
};
use axum::{Json, Router};
use posthorn_http_api::openapi::describe_refusals;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{OpenApi, SecurityRequirement};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Posthorn: operating",
        description = "The overview, endpoints' health, dead letters, replays, attempts, circuit \
                       breakers, lanes, API keys and the log of what was done.",
    ),
    modifiers(&BearerKey),
    tags(
        (name = "overview", description = "What flows, waits and was given up"),
        (name = "endpoints", description = "Who is in trouble, and why"),
        (name = "dead letters", description = "Deliveries given up"),
        (name = "replays", description = "Sending many of them again"),
        (name = "attempts", description = "What happened"),
        (name = "breakers", description = "Endpoints that are cut off"),
        (name = "lanes", description = "Endpoints whose deliveries wait in order"),
        (name = "API keys", description = "Who may call; for the admin key only"),
        (name = "audit", description = "Who did what"),
        (name = "retention", description = "What is kept, and what was dropped"),
        (name = "page", description = "What the operator's page at / needs besides"),
    )
)]
struct Document;

struct BearerKey;

impl Modify for BearerKey {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
        document.security = Some(vec![SecurityRequirement::new("key", [""; 0])]);
    }
}

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(overview::show_overview))
        .routes(routes!(endpoints::list_endpoints))
        .routes(routes!(endpoints::show_endpoint))
        .routes(routes!(letters::list::list_letters))
        .routes(routes!(letters::list::count_letters))
        .routes(routes!(
            letters::show::show_letter,
            letters::delete::delete_letter
        ))
        .routes(routes!(letters::replay::replay_letter))
        .routes(routes!(letters::delete::purge_letters))
        .routes(routes!(jobs::api::create_job, jobs::api::list_jobs))
        .routes(routes!(jobs::api::show_job))
        .routes(routes!(jobs::api::pause_job))
        .routes(routes!(jobs::api::resume_job))
        .routes(routes!(jobs::api::cancel_job))
        .routes(routes!(deliveries::list_deliveries))
        .routes(routes!(attempts::list_attempts))
        .routes(routes!(breakers::list_breakers))
        .routes(routes!(breakers::show_breaker))
        .routes(routes!(breakers::open_breaker))
        .routes(routes!(breakers::close_breaker))
        .routes(routes!(lanes::list::list_lanes))
        .routes(routes!(
            api_keys::calls::create_key,
            api_keys::calls::list_keys
        ))
        .routes(routes!(
            api_keys::calls::show_key,
            api_keys::calls::revoke_key
        ))
        .routes(routes!(audit::list_audit))
        .routes(routes!(retention::api::show_retention))
        .routes(routes!(
            page::session::show_session,
            page::session::sign_in,
            page::session::sign_out
        ))
        .routes(routes!(page::ingest::list_endpoints))
        .routes(routes!(page::ingest::show_endpoint))
        .routes(routes!(page::ingest::act_on_endpoint))
        .routes(routes!(openapi_document))
}

/// This document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    tag = "document",
    operation_id = "openapi",
    security(()),
    responses((status = 200, description = "OpenAPI", body = serde_json::Value))
)]
async fn openapi_document() -> Json<OpenApi> {
    Json(document())
}

/// What `/v1/openapi.json` answers.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = described().into_openapi();
    describe_refusals(&mut document);
    document
}

/// Every route; `posthorn_http_api::dress` puts the rest around it.
pub fn router(app: App) -> Router {
    let (router, _) = described().split_for_parts();
    router.merge(page::router()).with_state(app)
}
