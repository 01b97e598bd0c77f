//! The parts of a path, parsed into names that are safe in a subject and a key.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use posthorn_delivery::{EndpointId, EventType, Tenant};
use posthorn_http_api::{Identity, Problem, Scope};
use serde::de::DeserializeOwned;

/// The parameters of a path, as they were sent.
pub(crate) struct Params<T>(pub T);

impl<S, T> FromRequestParts<S> for Params<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Problem> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(value)| Params(value)).map_err(|_| {
            let detail = "the path cannot be read as text";
            Problem::bad_request("path", "path", detail)
        })
    }
}

/// The tenant that an event is published for.
///
/// # Errors
/// 400 where it is none, 403 where it is the reserved one, 404 or 403 where it is not the
/// caller's.
pub(crate) fn publishing_tenant(caller: &Identity, text: &str) -> Result<Tenant, Problem> {
    let tenant = Tenant::parse_any(text).map_err(|rule| bad("tenant", &rule))?;
    caller.allow(Scope::Publish, &tenant)?;
    if tenant.is_system() {
        let detail = "only Posthorn itself publishes for this tenant";
        return Err(Problem::forbidden(detail));
    }
    Ok(tenant)
}

/// The tenant whose endpoints are managed.
///
/// # Errors
/// 400 where it is none, 404 or 403 where it is not the caller's.
pub(crate) fn managed_tenant(caller: &Identity, text: &str) -> Result<Tenant, Problem> {
    let tenant = Tenant::parse_any(text).map_err(|rule| bad("tenant", &rule))?;
    caller.allow(Scope::Endpoints, &tenant)?;
    Ok(tenant)
}

/// The type of an event.
///
/// # Errors
/// 400 with the rule.
pub(crate) fn event_type(text: &str) -> Result<EventType, Problem> {
    EventType::parse(text).map_err(|rule| bad("type", &rule))
}

/// An endpoint's id.
///
/// # Errors
/// 404: what is no id is nobody's.
pub(crate) fn endpoint_id(text: &str) -> Result<EndpointId, Problem> {
    EndpointId::parse(text).map_err(|_| Problem::not_found("endpoint"))
}

fn bad(field: &str, rule: &dyn std::fmt::Display) -> Problem {
    Problem::bad_request("invalid", field, rule.to_string())
}
