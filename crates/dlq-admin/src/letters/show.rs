//! One dead letter with everything that is known of it.

use super::letter_of;
use crate::app::App;
use crate::view::LetterDetail;
use axum::Json;
use axum::extract::{Path, State};
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::{Attempt, AttemptSummary, DeadLetter};
use posthorn_http_api::{Identity, Problem};

/// Records asked for at a time.
const CONCURRENCY: usize = 16;

/// A dead letter, also one whose replay was delivered.
#[utoipa::path(
    get,
    path = "/v1/dead-letters/{id}",
    tag = "dead letters",
    operation_id = "show_dead_letter",
    params(("id" = String, Path, description = "`dl_…`")),
    responses(
        (status = 200, description = "The letter", body = LetterDetail),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_letter(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<Json<LetterDetail>, Problem> {
    let letter = letter_of(&app, &caller, &id).await?;
    let records = records(&app, &letter.value).await?;
    Ok(Json(LetterDetail::new(&letter.value, &records)))
}

/// The records of the letter's attempts, in their order; `None` for one that is not there any
/// more. A record of somebody else at a remembered sequence means that the log was made anew.
async fn records(
    app: &App,
    letter: &DeadLetter,
) -> Result<Vec<Option<Logged<Attempt>>>, BrokerError> {
    futures_util::stream::iter(letter.history.iter().copied())
        .map(|summary| record(app, letter, summary))
        .buffered(CONCURRENCY)
        .try_collect()
        .await
}

async fn record(
    app: &App,
    letter: &DeadLetter,
    summary: AttemptSummary,
) -> Result<Option<Logged<Attempt>>, BrokerError> {
    if summary.sequence == 0 {
        return Ok(None);
    }
    let found = match app.store.attempts().at(summary.sequence).await {
        Err(BrokerError::Undecodable(_)) => None,
        other => other?,
    };
    Ok(found.filter(|record| is_of(&record.value, letter)))
}

fn is_of(attempt: &Attempt, letter: &DeadLetter) -> bool {
    attempt.tenant.as_str() == letter.tenant
        && attempt.event_id.as_str() == letter.event_id
        && Some(&attempt.endpoint_id) == letter.endpoint_id.as_ref()
}
