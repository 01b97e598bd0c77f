//! The list of dead letters, and how many there are.

use super::search::{self, Found};
use crate::app::{App, bad_parameter, filter_of};
use crate::filter::{FilterBody, LetterFilter};
use crate::view::{LetterItem, Searched};
use axum::Json;
use axum::extract::State;
use posthorn_http_api::{Identity, Paging, Problem, Query};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which letters, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LettersQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Of this endpoint.
    endpoint: Option<String>,
    /// Of this event type; NATS wildcards are understood.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// Dead of this reason.
    reason: Option<String>,
    /// Answered with this HTTP status by the last attempt.
    status: Option<u16>,
    /// That say this, in capitals or not: in the detail, in the name of the last attempt's
    /// failure, or in the first 256 bytes of the last answer. 2 to 100 characters.
    text: Option<String>,
    /// `dead` or `replaying`; both where nothing is said.
    state: Option<String>,
    /// Dead at this time (RFC 3339) or later.
    since: Option<String>,
    /// Dead before this time (RFC 3339).
    until: Option<String>,
    /// Letters of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Dead letters, newest death first.
///
/// Letters whose replay was delivered have left the list. A letter that is being replayed keeps
/// its place.
///
/// Tenant, endpoint, reason and time are found at once, however many letters there are, and
/// `total` says how many match where nothing else than tenant, endpoint and reason is asked for.
/// For type, status, text and state a page looks at 50,000 letters, for two seconds and at 64 MiB
/// of payload at most. Where that ends before the page is full, `complete` is false, and the
/// search goes on with `next_cursor`: with a filter that matches next to nothing the page may
/// have no items.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    tag = "dead letters",
    operation_id = "list_dead_letters",
    params(LettersQuery),
    responses(
        (status = 200, description = "A page", body = Searched<LetterItem>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_letters(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<LettersQuery>,
) -> Result<Json<Searched<LetterItem>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let filter = filter_of(&caller, query.into(), bad_parameter)?;
    let below = paging.after_number()?;
    let found = search::page(&app.store, &filter, below, paging.limit());
    let (found, total) = tokio::try_join!(found, total(&app, &filter))?;
    let Found {
        letters,
        next,
        complete,
        void,
    } = found;
    tidy(&app, void);
    let items = letters.iter().map(LetterItem::from).collect();
    Ok(Json(Searched::new(items, next, total, complete)))
}

async fn total(
    app: &App,
    filter: &LetterFilter,
) -> Result<Option<u64>, posthorn_broker::BrokerError> {
    match filter.is_counted() {
        true => search::count(&app.store, filter)
            .await
            .map(|c| Some(c.count)),
        false => Ok(None),
    }
}

/// Strikes entries that are no letter's any more, after the answer.
fn tidy(app: &App, void: Vec<u64>) {
    if void.is_empty() {
        return;
    }
    let broker = app.store.broker().clone();
    drop(app.shutdown.spawn(async move {
        for entry in void {
            if let Err(error) = broker.strike(entry).await {
                tracing::debug!(%error, "the register could not be tidied");
                return;
            }
        }
    }));
}

/// How many letters match a filter.
#[derive(Debug, Serialize, ToSchema)]
pub struct LetterCount {
    /// Letters that match, dead and replaying; where `complete` is false, those found so far.
    count: u64,
    /// Whether all were looked at. A count looks at two million letters, for eight seconds.
    complete: bool,
}

/// How many dead letters match.
#[utoipa::path(
    get,
    path = "/v1/dead-letters/count",
    tag = "dead letters",
    operation_id = "count_dead_letters",
    params(FilterBody),
    responses(
        (status = 200, description = "The count", body = LetterCount),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn count_letters(
    State(app): State<App>,
    caller: Identity,
    Query(asked): Query<FilterBody>,
) -> Result<Json<LetterCount>, Problem> {
    let filter = filter_of(&caller, asked, bad_parameter)?;
    let counted = search::count(&app.store, &filter).await?;
    Ok(Json(LetterCount {
        count: counted.count,
        complete: counted.complete,
    }))
}

impl From<LettersQuery> for FilterBody {
    fn from(query: LettersQuery) -> FilterBody {
        FilterBody {
            tenant: query.tenant,
            endpoint: query.endpoint,
            event_type: query.event_type,
            reason: query.reason,
            status: query.status,
            text: query.text,
            state: query.state,
            since: query.since,
            until: query.until,
        }
    }
}
