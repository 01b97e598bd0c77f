//! The log of administrative acts over HTTP.

use crate::app::{App, tenant_of};
use crate::scan::{EVERYTHING, Search, newest};
use axum::Json;
use axum::extract::State;
use posthorn_broker::codec::AuditEntry;
use posthorn_delivery::Tenant;
use posthorn_http_api::time::{parse_rfc3339, to_rfc3339};
use posthorn_http_api::{Identity, List, Paging, Problem, Query};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which entries, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Done to what belongs to this tenant.
    tenant: Option<String>,
    /// At this time (RFC 3339) or later.
    since: Option<String>,
    /// Entries of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// An administrative act.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ActView {
    /// `act_…`: the same in the entry that says that it failed.
    id: String,
    /// When.
    at: String,
    /// The id of the key that asked, or `admin`.
    key: String,
    /// The key's name.
    key_name: String,
    /// What was done, like `endpoint.create`.
    action: String,
    /// Whose thing it was done to; `null` where that is nobody's in particular.
    tenant: Option<String>,
    /// What it was done to: an id, or a filter of dead letters.
    object: String,
    /// `asked`, written before the act; and where it was not done, or not wholly, `failed` in an
    /// entry of its own.
    result: &'static str,
    /// The HTTP status that a failed one was answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl From<&AuditEntry> for ActView {
    fn from(entry: &AuditEntry) -> ActView {
        ActView {
            id: entry.id.clone(),
            at: to_rfc3339(entry.at),
            key: entry.key_id.clone(),
            key_name: entry.key_name.clone(),
            action: entry.action.to_string(),
            tenant: entry.tenant.as_ref().map(Tenant::to_string),
            object: entry.object.clone(),
            result: entry.result.as_str(),
            status: entry.status,
        }
    }
}

/// Administrative acts, newest first.
///
/// An entry is written before the act is done: unless a `failed` entry of the same id follows,
/// it was done, or its process ended in between. A key of one tenant sees what was done to that
/// tenant's things, by whomever.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "audit",
    operation_id = "list_audit",
    params(AuditQuery),
    responses(
        (status = 200, description = "A page", body = List<ActView>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "NATS is away; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_audit(
    State(app): State<App>,
    caller: Identity,
    Query(query): Query<AuditQuery>,
) -> Result<Json<List<ActView>>, Problem> {
    let paging = Paging::try_new(query.limit, query.cursor.as_deref())?;
    let bad = |field, rule: &dyn ToString| Problem::bad_request("query", field, rule.to_string());
    let asked = query.tenant.as_deref().map(Tenant::parse_any).transpose();
    let asked = asked.map_err(|rule| bad("tenant", &rule))?;
    let since = query.since.as_deref().map(parse_rfc3339).transpose();
    let since = since.map_err(|rule| bad("since", &rule))?;
    let tenant = tenant_of(&caller, asked.as_ref())?;
    let names = app.store.broker().names();
    let subject = match &tenant {
        Some(tenant) => names.audit_of(Some(tenant)),
        None => EVERYTHING.to_owned(),
    };
    let search = Search::page(&subject, paging.after_number()?).between(since, None);
    let page = newest(app.store.acts(), &search, paging.limit(), |entry| {
        since.is_none_or(|since| entry.value.at >= since)
    })
    .await?;
    let items = page.items.iter().map(|entry| ActView::from(&entry.value));
    let next = page.next.map(|below| below.to_string());
    Ok(Json(List::new(items.collect(), next.as_deref(), None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_broker::codec::AuditResult;
    use posthorn_delivery::{EventType, UnixMillis};

    fn entry(at: i64) -> AuditEntry {
        AuditEntry {
            id: "act_1".to_owned(),
            at: UnixMillis(at),
            key_id: "admin".to_owned(),
            key_name: "admin".to_owned(),
            action: EventType::parse("letter.purge").unwrap(),
            tenant: None,
            object: "{}".to_owned(),
            result: AuditResult::Asked,
            status: None,
        }
    }

    #[test]
    fn an_act_of_nobody_in_particular_has_no_tenant_and_no_status() {
        let shown = serde_json::to_value(ActView::from(&entry(1))).unwrap();
        assert!(shown["tenant"].is_null() && shown.get("status").is_none());
        assert_eq!(shown["at"], "1970-01-01T00:00:00.001Z");
    }
}
