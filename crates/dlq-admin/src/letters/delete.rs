//! Throwing dead letters away: one, or all that match.

use super::all::All;
use super::{act_on, letter_of};
use crate::app::{App, bad_filter, filter_of, require_some};
use crate::filter::{FilterBody, LetterFilter};
use crate::store::Store;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::Logged;
use posthorn_delivery::{DeadLetter, LetterState};
use posthorn_http_api::{Act, Action, Identity, Json, Problem};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Deletions in flight at a time.
const CONCURRENCY: usize = 64;

/// Throws one letter away. One that is being replayed stays, as its delivery will write it.
#[utoipa::path(
    delete,
    path = "/v1/dead-letters/{id}",
    tag = "dead letters",
    operation_id = "delete_dead_letter",
    params(("id" = String, Path, description = "`dl_…`")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is being replayed, or has just changed", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn delete_letter(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let letter = letter_of(&app, &caller, &id).await?;
    if letter.value.state == LetterState::Replaying {
        let detail = "it is being replayed; when that has ended it can be deleted";
        return Err(Problem::conflict("replay-in-progress", detail));
    }
    let act = act_on(Action::LetterDelete, &letter.value);
    tracing::info!(caller = caller.name(), letter = %letter.value.id, "deleting a dead letter");
    let store = app.store.clone();
    app.act(&caller, act, async move { delete(&store, &letter).await })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Only the letter that was looked at is deleted; one that changed meanwhile is a new message.
async fn delete(store: &Store, letter: &Logged<DeadLetter>) -> Result<(), Problem> {
    store.remove_letter(letter).await?;
    if store.letters().last(&letter.subject).await?.is_some() {
        let detail = "it has been changed meanwhile; read it again";
        return Err(Problem::conflict("conflict", detail));
    }
    Ok(())
}

/// Which letters to throw away.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// At least one field.
    filter: FilterBody,
    /// Only count. True where nothing is said: a purge cannot be taken back.
    #[serde(default = "yes")]
    #[schema(default = true)]
    dry_run: bool,
}

fn yes() -> bool {
    true
}

/// What a purge came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Purged {
    /// Letters that match and wait for an operator.
    matched: u64,
    /// Letters thrown away; 0 in a dry run.
    purged: u64,
    /// Letters that match and are being replayed: they stay.
    skipped: u64,
    /// Whether this only counted.
    dry_run: bool,
}

/// Throws away every dead letter that matches, or counts them: `dry_run` is true unless the
/// request says false.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/purge",
    tag = "dead letters",
    operation_id = "purge_dead_letters",
    request_body = Purge,
    responses(
        (status = 200, description = "What it came to", body = Purged),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "An empty filter, or a field is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; a part may be purged", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn purge_letters(
    State(app): State<App>,
    caller: Identity,
    Json(purge): Json<Purge>,
) -> Result<axum::Json<Purged>, Problem> {
    require_some(&purge.filter)?;
    let filter = filter_of(&caller, purge.filter, bad_filter)?;
    let (store, dry_run) = (app.store.clone(), purge.dry_run);
    let act = Act::new(Action::LetterPurge, filter.tenant(), filter.to_json());
    let work = async move { walk(&store, &filter, dry_run).await };
    let purged = match dry_run {
        true => app.complete(work).await?,
        false => app.act(&caller, act, work).await?,
    };
    let (count, caller) = (purged.purged, caller.name());
    tracing::info!(caller, purged = count, dry_run, "dead letters purged");
    Ok(axum::Json(purged))
}

async fn walk(store: &Store, filter: &LetterFilter, dry_run: bool) -> Result<Purged, Problem> {
    let mut purged = Purged {
        dry_run,
        ..Purged::default()
    };
    let mut all = All::begin(store, filter).await?;
    while let Some(batch) = all.batch().await? {
        let dead = count(&mut purged, batch);
        if dry_run {
            continue;
        }
        let count = dead.len() as u64;
        futures_util::stream::iter(dead)
            .map(|letter| async move { store.remove_letter(&letter).await })
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        purged.purged += count;
    }
    Ok(purged)
}

/// Counts a batch, and returns what may be thrown away.
fn count(purged: &mut Purged, batch: Vec<Logged<DeadLetter>>) -> Vec<Logged<DeadLetter>> {
    let mut dead = Vec::new();
    for letter in batch {
        match letter.value.state {
            LetterState::Dead => dead.push(letter),
            LetterState::Replaying => purged.skipped += 1,
            LetterState::Delivered => {}
        }
    }
    purged.matched += dead.len() as u64;
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_only_counts_unless_it_is_told_otherwise() {
        let purge = |text: &str| serde_json::from_str::<Purge>(text).unwrap().dry_run;
        assert!(purge(r#"{"filter":{"tenant":"acme"}}"#));
        assert!(!purge(r#"{"filter":{"tenant":"acme"},"dry_run":false}"#));
    }
}
