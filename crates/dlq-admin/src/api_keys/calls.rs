//! The calls.

use super::new_key::NewKey;
use super::view::{CreatedKey, KeyView};
use crate::app::App;
use crate::store::{Store, caught_up};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthorn_broker::Versioned;
use posthorn_broker::codec::ApiKey;
use posthorn_delivery::Tenant;
use posthorn_http_api::key::is_key_id;
use posthorn_http_api::{Act, Action, Identity, List, MintedKey, Paging, Problem, Query};
use posthorn_runtime::rng::rng;
use serde::Deserialize;
use utoipa::IntoParams;

/// The most keys of an installation: every copy of two services keeps them all in memory.
const MAX_KEYS: usize = 10_000;

/// Makes a key. The answer shows it this once.
///
/// Only the admin key may. A key of one tenant gets 404 for everything of another.
#[utoipa::path(
    post,
    path = "/v1/api-keys",
    tag = "API keys",
    operation_id = "create_api_key",
    request_body = NewKey,
    responses(
        (status = 201, description = "It is in force; the key is shown this once", body = CreatedKey),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the admin key", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There are 10,000 keys: revoke some first", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Fields break their rules; `errors` names each", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn create_key(
    State(app): State<App>,
    caller: Identity,
    posthorn_http_api::Json(new): posthorn_http_api::Json<NewKey>,
) -> Result<Response, Problem> {
    caller.require_admin()?;
    let now = posthorn_wiring::now();
    let minted = MintedKey::new(now, &mut rng());
    let key = new.read(&minted, caller.name(), now)?;
    if app.store.keys().len() >= MAX_KEYS {
        let detail = format!("there are {MAX_KEYS} keys: revoke some first");
        return Err(Problem::conflict("key-limit", detail));
    }
    let act = Act::new(Action::KeyCreate, key.tenant.as_ref(), key.id.as_str());
    let body = CreatedKey::new(&key, &minted);
    let place = format!("/v1/api-keys/{}", key.id);
    let store = app.store.clone();
    app.act(&caller, act, async move { store_key(&store, key).await })
        .await?;
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Known to this copy when it is answered, and to the others when they are told.
async fn store_key(store: &Store, key: ApiKey) -> Result<(), Problem> {
    store.keys().bucket().create(&key.id, &key).await?;
    // It is stored: an answer without the key would only leave one behind that nobody has.
    if let Err(error) = caught_up(store.keys()).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(key = key.id, error, "a new key is not in force here yet");
    }
    Ok(())
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct KeysQuery {
    /// Of this tenant.
    tenant: Option<String>,
    /// Keys of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// The keys, without their secrets, oldest first. Only the admin key may.
#[utoipa::path(
    get,
    path = "/v1/api-keys",
    tag = "API keys",
    operation_id = "list_api_keys",
    params(KeysQuery),
    responses(
        (status = 200, description = "A page", body = List<KeyView>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the admin key", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_keys(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<KeysQuery>,
) -> Result<Json<List<KeyView>>, Problem> {
    caller.require_admin()?;
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let tenant = query.tenant.as_deref().map(Tenant::parse).transpose();
    let tenant = tenant.map_err(|e| Problem::bad_request("query", "tenant", e.to_string()))?;
    caught_up(app.store.keys()).await?;
    let mut keys = app.store.keys().all();
    keys.retain(|(_, key)| tenant.is_none() || key.value.tenant == tenant);
    let total = u64::try_from(keys.len()).ok();
    keys.retain(|(id, _)| paging.after().is_none_or(|after| id.as_str() > after));
    let more = keys.len() > paging.limit();
    keys.truncate(paging.limit());
    let next = keys.last().map(|(id, _)| id.clone()).filter(|_| more);
    let items = keys.iter().map(|(_, key)| KeyView::from(&key.value));
    Ok(Json(List::new(items.collect(), next.as_deref(), total)))
}

/// A key, without its secret. Only the admin key may.
#[utoipa::path(
    get,
    path = "/v1/api-keys/{id}",
    tag = "API keys",
    operation_id = "show_api_key",
    params(("id" = String, Path, description = "16 hexadecimal digits")),
    responses(
        (status = 200, description = "The key", body = KeyView),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the admin key", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_key(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<Json<KeyView>, Problem> {
    caller.require_admin()?;
    let found = key_of(&app, &id).await?;
    Ok(Json(KeyView::from(&found.value)))
}

/// Revokes a key. Only the admin key may.
///
/// This copy refuses it when this is answered, every other within a second.
#[utoipa::path(
    delete,
    path = "/v1/api-keys/{id}",
    tag = "API keys",
    operation_id = "revoke_api_key",
    params(("id" = String, Path, description = "16 hexadecimal digits")),
    responses(
        (status = 204, description = "It is revoked"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not the admin key", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; it may be revoked: ask again", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn revoke_key(
    State(app): State<App>,
    caller: Identity,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.require_admin()?;
    let key = key_of(&app, &id).await?.value;
    let act = Act::new(Action::KeyRevoke, key.tenant.as_ref(), key.id.as_str());
    let store = app.store.clone();
    let work = async move {
        store.keys().bucket().remove(&key.id).await?;
        Ok(caught_up(store.keys()).await?)
    };
    app.act(&caller, act, work).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The key as it is stored: the watch may not have come so far.
async fn key_of(app: &App, id: &str) -> Result<Versioned<ApiKey>, Problem> {
    let missing = || Problem::not_found("API key");
    if !is_key_id(id) {
        return Err(missing());
    }
    let found = app.store.keys().bucket().get(id).await?;
    found.ok_or_else(missing)
}
