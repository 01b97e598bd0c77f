//! Every route. Each is registered together with its description, so none is without.

use crate::app::App;
use crate::endpoints::{
    __path_attempts, __path_create, __path_delete, __path_list, __path_patch, __path_pause,
    __path_recover, __path_reseal, __path_resume, __path_rotate, __path_show, __path_show_secret,
    __path_test, attempts, create, delete, list, patch, pause, recover, reseal, resume, rotate,
    show, show_secret, test,
};
use crate::events::{__path_publish, __path_publish_batch, publish, publish_batch};
use crate::openapi::{__path_openapi, document, openapi};
use axum::Extension;
use axum::Router;
use posthorn_http_api::openapi::describe_refusals;
use std::sync::Arc;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The API. It is to be served by [`posthorn_http_api::serve`], which adds what every request
/// meets.
pub fn router(app: App) -> Router {
    let (router, mut description) = described().split_for_parts();
    describe_refusals(&mut description);
    router
        .layer(Extension(Arc::new(description)))
        .with_state(app)
}

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(document())
        .routes(routes!(publish))
        .routes(routes!(publish_batch))
        .routes(routes!(create, list))
        .routes(routes!(show, patch, delete))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(test))
        .routes(routes!(recover))
        .routes(routes!(rotate))
        .routes(routes!(show_secret))
        .routes(routes!(reseal))
        .routes(routes!(attempts))
        .routes(routes!(openapi))
}

/// What the API says about itself.
#[must_use]
pub fn description() -> OpenApi {
    let mut description = described().into_openapi();
    describe_refusals(&mut description);
    description
}
