//! `POST /v1/secrets/reseal`: endpoints that are stored under an old key, or in plain, are stored
//! under the newest one.
//!
//! Page by page, so that no request takes long: each endpoint is changed by compare-and-swap, and
//! what is done is done. Whoever is interrupted begins again, and passes by what is sealed with
//! the newest key already.

use super::calls::PageParams;
use super::store::{self, Resealed};
use crate::app::App;
use axum::Json;
use axum::extract::State;
use posthorn_http_api::{Act, Action, Identity, List, Paging, Problem, Query};
use serde::Serialize;
use utoipa::ToSchema;

/// What became of a page of endpoints.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Reseal)]
pub(crate) struct ResealView {
    /// The id of the key that they are sealed with now; null where there are no keys, and they
    /// are stored as they are.
    #[schema(example = "k2")]
    key: Option<String>,
    /// Endpoints of this page that were sealed anew.
    resealed: u64,
    /// Endpoints before the next page that were sealed with that key already.
    current: u64,
    /// Endpoints of this page that cannot be opened: their key is not known here. They stay.
    unreadable: u64,
    /// Where the next page begins; null where all is done.
    next_cursor: Option<String>,
}

/// Store endpoints' secrets under the newest key. Go on at `next_cursor` until it is null.
///
/// `limit` bounds the endpoints that are sealed anew or cannot be opened; any number that are
/// sealed with the newest key are passed by. Nothing changes for deliveries.
#[utoipa::path(
    post,
    path = "/v1/secrets/reseal",
    tag = "Secrets",
    params(PageParams),
    responses(
        (status = 200, body = ResealView, description = "What became of a page of endpoints"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "It is not the admin key"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Others change an endpoint at the same time"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn reseal(
    State(app): State<App>,
    caller: Identity,
    Query(page): Query<PageParams>,
) -> Result<Json<ResealView>, Problem> {
    caller.require_admin()?;
    let paging = Paging::try_new(page.limit, page.cursor.as_deref())?;
    let act = Act::new(Action::SecretReseal, None, "endpoints");
    let work = page_after(&app, paging.after().unwrap_or_default(), paging.limit());
    let mut view = app.audit.act(&caller, act, work).await?;
    view.key = app.vault.sealing_key().map(ToString::to_string);
    tracing::info!(
        caller = caller.name(),
        resealed = view.resealed,
        current = view.current,
        unreadable = view.unreadable,
        "endpoints' secrets are stored under the newest key"
    );
    Ok(Json(view))
}

async fn page_after(app: &App, after: &str, limit: usize) -> Result<ResealView, Problem> {
    let rest = store::after(app, after).await?;
    let mut view = ResealView::default();
    let (mut looked_at, mut last) = (0, None);
    for (key, known) in &rest {
        if app.vault.holds(&known.value) {
            view.current += 1;
        } else if looked_at == limit {
            view.next_cursor = last.and_then(cursor);
            return Ok(view);
        } else {
            looked_at += 1;
            match store::reseal(app, key).await? {
                Resealed::Changed => view.resealed += 1,
                Resealed::Current => view.current += 1,
                Resealed::Unreadable => view.unreadable += 1,
                Resealed::Gone => {}
            }
        }
        last = Some(key.as_str());
    }
    Ok(view)
}

/// Where the page behind `last` begins, as every other list says it.
fn cursor(last: &str) -> Option<String> {
    List::<()>::new(Vec::new(), Some(last), None).next_cursor
}
