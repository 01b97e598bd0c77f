//! Rotating and showing the secrets of an endpoint.

use super::calls::newest_secret;
use super::change;
use super::store;
use super::view::public_keys;
use crate::app::App;
use crate::path::{Params, endpoint_id, managed_tenant};
use axum::Json;
use axum::extract::{Request, State};
use posthorn_delivery::endpoint::StoredSecret;
use posthorn_delivery::endpoint::limits::MAX_OVERLAP;
use posthorn_delivery::{Endpoint, UnixMillis};
use posthorn_http_api::body::{MAX_JSON, parse_object, require_json};
use posthorn_http_api::time::{as_rfc3339_option, duration_text, parse_duration};
use posthorn_http_api::{Action, Identity, Problem, read_body};
use posthorn_runtime::rng::rng;
use posthorn_vault::Vault;
use posthorn_wiring::now;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

const DEFAULT_OVERLAP: Duration = Duration::from_secs(86_400);

/// How a secret is rotated.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    /// How long the old secrets sign as well, `0s` to `7d`; `24h` where nothing is said.
    #[schema(example = "24h")]
    overlap: Option<String>,
}

impl Rotation {
    fn overlap(&self) -> Result<Duration, Problem> {
        let Some(text) = &self.overlap else {
            return Ok(DEFAULT_OVERLAP);
        };
        let overlap = parse_duration(text)
            .ok()
            .filter(|given| *given <= MAX_OVERLAP);
        overlap.ok_or_else(|| {
            let most = duration_text(MAX_OVERLAP);
            let detail = format!("is a duration from 0s to {most}, as text with a unit");
            Problem::unprocessable("invalid", "overlap", detail)
        })
    }
}

/// A secret that still signs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretView {
    /// `whsec_…`.
    secret: String,
    /// It signs until then; null for the newest.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<UnixMillis>,
}

/// The secrets of an endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretsView {
    /// The newest.
    secret: String,
    /// All that sign now, newest first.
    secrets: Vec<SecretView>,
    /// Ed25519 keys to verify `v1a` with, newest first.
    public_keys: Vec<String>,
}

impl SecretsView {
    /// Of an endpoint in plain.
    fn of(vault: &Vault, endpoint: &Endpoint, now: UnixMillis) -> SecretsView {
        let live = endpoint.secrets.iter().filter(|secret| secret.is_live(now));
        let shown = |secret: &StoredSecret| SecretView {
            secret: secret.text.reveal().to_owned(),
            expires_at: secret.expires_at,
        };
        SecretsView {
            secret: newest_secret(endpoint),
            secrets: live.map(shown).collect(),
            public_keys: public_keys(vault, endpoint, now),
        }
    }
}

/// A new secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RotatedSecret {
    /// What deliveries are signed with from now on.
    secret: String,
    /// Until when the old ones sign as well; null where they do not any more.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    previous_expires_at: Option<UnixMillis>,
    /// Ed25519 keys to verify `v1a` with, newest first.
    public_keys: Vec<String>,
}

/// Make a new secret, and a new key pair where there is one.
///
/// During the overlap a delivery carries a signature of each, so receivers can change over at
/// any time within it.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/endpoints/{id}/secret/rotate",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    request_body(content = Option<Rotation>),
    responses(
        (status = 200, body = RotatedSecret, description = "Rotated; the secret is shown this once"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Others change it at the same time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "Too large"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Fields break their rules; `errors` names each"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
    request: Request,
) -> Result<Json<RotatedSecret>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let overlap = rotation(request).await?.overlap()?;
    let change = |endpoint: &Endpoint| {
        let endpoint = store::open(&app, endpoint)?;
        change::rotated(&endpoint, overlap, now(), &mut rng())
    };
    let work = store::update(&app, &tenant, &id, change);
    let place = (&tenant, &id);
    let endpoint = app.act(&caller, Action::SecretRotate, place, work).await?;
    tracing::info!(caller = caller.name(), %tenant, endpoint = %id, "secret rotated");
    Ok(Json(RotatedSecret {
        secret: newest_secret(&endpoint),
        previous_expires_at: endpoint.secrets.get(1).and_then(|old| old.expires_at),
        public_keys: public_keys(&app.vault, &endpoint, now()),
    }))
}

/// The body may be left out.
async fn rotation(request: Request) -> Result<Rotation, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = read_body(body, MAX_JSON).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(Rotation::default());
    }
    require_json(&parts.headers)?;
    parse_object(&bytes)
}

/// Show an endpoint's secrets. The reading is logged.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/endpoints/{id}/secret",
    tag = "Endpoints",
    params(
        ("tenant" = String, Path, description = "Whose endpoints they are"),
        ("id" = String, Path, description = "The endpoint's id"),
    ),
    responses(
        (status = 200, body = SecretsView, description = "The secrets that sign, the newest first"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request cannot be read"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "No key that is known"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The key has not the scope"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No such endpoint of this tenant"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It is sealed with a key that this service does not have"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The broker is away; see Retry-After"),
    ),
    security(("key" = []))
)]
pub(crate) async fn show_secret(
    State(app): State<App>,
    caller: Identity,
    Params((tenant, id)): Params<(String, String)>,
) -> Result<Json<SecretsView>, Problem> {
    let tenant = managed_tenant(&caller, &tenant)?;
    let id = endpoint_id(&id)?;
    let (place, work) = ((&tenant, &id), store::load(&app, &tenant, &id));
    let found = app.act(&caller, Action::SecretShow, place, work).await?;
    tracing::info!(caller = caller.name(), %tenant, endpoint = %id, "secret shown");
    let endpoint = store::open(&app, &found.value)?;
    Ok(Json(SecretsView::of(&app.vault, &endpoint, now())))
}
