//! Sending one dead letter again, as an HTTP request.

use super::{act_on, letter_of};
use crate::app::App;
use crate::replay::{Request, Verdict, replay_one};
use crate::store::Store;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use posthorn_broker::Logged;
use posthorn_delivery::DeadLetter;
use posthorn_http_api::{Action, Identity, Problem};
use serde::Serialize;
use utoipa::ToSchema;

/// A replay that was accepted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Accepted {
    /// `rpl_…`: the letter carries it from now on.
    replay_id: String,
}

/// Sends a dead letter again, with the same `webhook-id` and a fresh budget of attempts.
///
/// Each accepted request is one delivery; of two at the same moment one is refused. The letter
/// stays and shows `replaying`; it leaves the list when its delivery succeeds, and is dead
/// again, with more history, when it does not.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/replay",
    tag = "dead letters",
    operation_id = "replay_dead_letter",
    params(("id" = String, Path, description = "`dl_…`")),
    responses(
        (status = 202, description = "It is on its way", body = Accepted),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It cannot be sent (again): a replay is on its way or was \
            delivered, its endpoint is deleted, or it never was a delivery", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; nothing was sent", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn replay_letter(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let letter = letter_of(&app, &caller, &id).await?;
    app.store.endpoints_now().await?;
    let store = app.store.clone();
    let name = caller.name().to_owned();
    let act = act_on(Action::LetterReplay, &letter.value);
    let work = async move { replay(&store, &letter, &name).await };
    let accepted = app.act(&caller, act, work).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

async fn replay(
    store: &Store,
    letter: &Logged<DeadLetter>,
    caller: &str,
) -> Result<Accepted, Problem> {
    let id = &letter.value.id;
    let request = Request::single(id, letter.sequence, posthorn_wiring::now());
    let verdict = match replay_one(store, letter, &request).await {
        Ok(verdict) => verdict,
        // The delivery is on its way, which is what was asked for; when it ends, the letter
        // will say how.
        Err(error) if error.sent => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(letter = %id, error, "a replayed letter could not be marked");
            Verdict::Sent
        }
        Err(error) => return Err(error.source.into()),
    };
    tracing::info!(caller, letter = %id, ?verdict, "replay asked for");
    refusal(verdict).map_or(
        Ok(Accepted {
            replay_id: request.id,
        }),
        Err,
    )
}

fn refusal(verdict: Verdict) -> Option<Problem> {
    let (slug, detail) = match verdict {
        Verdict::Sent => return None,
        Verdict::Mended | Verdict::Elsewhere => (
            "replay-in-progress",
            "it has been replayed at the same moment, and is on its way",
        ),
        Verdict::NotDead => (
            "not-dead",
            "it is not dead: a replay is on its way, or was delivered",
        ),
        Verdict::EndpointDeleted => ("endpoint-deleted", "its endpoint has been deleted"),
        Verdict::NeverADelivery => (
            "never-a-delivery",
            "it never was a delivery: what was published could not be read as an event",
        ),
        Verdict::PayloadLost => (
            "payload-lost",
            "its payload did not fit into the letter and cannot be sent again",
        ),
    };
    Some(Problem::conflict(slug, detail))
}
