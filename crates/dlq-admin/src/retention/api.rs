//! `GET /v1/retention`: what is kept, up to which limits, and what these have dropped.

use super::drops::{KEEPING, Limit};
use crate::app::App;
use axum::Json;
use axum::extract::State;
use posthorn_broker::{Kept, StreamName};
use posthorn_delivery::UnixMillis;
use posthorn_http_api::time::{as_rfc3339_option, duration_text};
use posthorn_http_api::{Identity, Problem, Scope};
use serde::Serialize;
use utoipa::ToSchema;

/// What is kept.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Retention)]
pub struct RetentionView {
    /// The streams that drop what is old.
    streams: Vec<StreamView>,
    /// Bytes of dead letters that a tenant may have; null where there is no such budget.
    dead_letter_budget: Option<u64>,
}

/// A stream that drops what is old.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = KeptStream)]
pub struct StreamView {
    /// `archive`, `attempts`, `dlq` or `audit`.
    #[schema(example = "dlq")]
    name: &'static str,
    /// Messages in it.
    messages: u64,
    /// Bytes that they take.
    bytes: u64,
    /// When the oldest was stored.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    oldest_at: Option<UnixMillis>,
    /// After which age a message goes; null is never.
    #[schema(example = "30d")]
    max_age: Option<String>,
    /// Above how many bytes the oldest go; null where there is no such limit.
    max_bytes: Option<u64>,
    /// Messages dropped because they were too old, since this copy of the service began.
    dropped_by_age: u64,
    /// The same because there was too much: they might have been kept for longer.
    dropped_by_bytes: u64,
    /// The same because a tenant was over its budget.
    dropped_by_tenant_budget: u64,
}

impl StreamView {
    fn new(app: &App, stream: StreamName, kept: &Kept) -> StreamView {
        StreamView {
            name: stream.token(),
            messages: kept.messages,
            bytes: kept.bytes,
            oldest_at: kept.oldest,
            max_age: kept.max_age.map(duration_text),
            max_bytes: kept.max_bytes,
            dropped_by_age: app.drops.of(stream, Limit::Age),
            dropped_by_bytes: app.drops.of(stream, Limit::Bytes),
            dropped_by_tenant_budget: app.drops.of(stream, Limit::TenantBudget),
        }
    }
}

/// What is kept of events, attempts, dead letters and acts, and what was dropped. For keys of
/// all tenants.
#[utoipa::path(
    get,
    path = "/v1/retention",
    tag = "retention",
    operation_id = "show_retention",
    responses(
        (status = 200, description = "The streams and their limits", body = RetentionView),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted, or a key of one tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_retention(
    State(app): State<App>,
    caller: Identity,
) -> Result<Json<RetentionView>, Problem> {
    caller.require(Scope::Operate)?;
    if caller.tenant().is_some() {
        return Err(Problem::forbidden("the streams hold all tenants' data"));
    }
    let broker = app.store.broker();
    let mut streams = Vec::new();
    for stream in KEEPING {
        let kept = broker.kept(stream).await?;
        streams.push(StreamView::new(&app, stream, &kept));
    }
    Ok(Json(RetentionView {
        streams,
        dead_letter_budget: broker.tenant_budget(),
    }))
}
