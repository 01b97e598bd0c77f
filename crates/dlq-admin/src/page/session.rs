//! Signing in to the page, and out of it.

use crate::app::App;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthorn_delivery::Tenant;
use posthorn_http_api::body::{parse_object, require_json};
use posthorn_http_api::session::{LIFE, LOOPBACK_COOKIE, SECURE_COOKIE, from_our_page};
use posthorn_http_api::time::to_rfc3339;
use posthorn_http_api::{Identity, Problem, Scope, read_body};
use posthorn_runtime::rng::rng;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// The largest body that is read of somebody who is not known, in bytes.
const MAX_SIGN_IN: usize = 4 * 1024;

/// The key that is typed in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// An API key, or the admin key.
    key: String,
}

/// Who is signed in, and what the page can do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionView {
    /// `null` where nobody is.
    caller: Option<CallerView>,
    /// Whether calls of the public API are handed on (`POSTHORN_INGEST_URL`).
    ingest: bool,
    /// The version of this service.
    version: &'static str,
}

/// A caller.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CallerView {
    /// The id of its key, or `admin`.
    key: String,
    /// The name of its key.
    name: String,
    /// The one tenant that it sees; `null` is all.
    tenant: Option<String>,
    /// `publish`, `endpoints`, `operate`.
    scopes: Vec<&'static str>,
}

impl From<&Identity> for CallerView {
    fn from(caller: &Identity) -> CallerView {
        CallerView {
            key: caller.key().to_owned(),
            name: caller.name().to_owned(),
            tenant: caller.tenant().map(Tenant::to_string),
            scopes: caller
                .scopes()
                .iter()
                .map(|scope: &Scope| scope.as_str())
                .collect(),
        }
    }
}

fn view(app: &App, caller: Option<&Identity>) -> SessionView {
    SessionView {
        caller: caller.map(CallerView::from),
        ingest: app.ingest.is_configured(),
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// Who is signed in. That nobody is, is an answer and no error.
#[utoipa::path(
    get,
    path = "/session",
    tag = "page",
    operation_id = "show_session",
    security(()),
    responses(
        (status = 200, description = "Who is signed in", body = SessionView),
        (status = 429, description = "The key calls too often; see Retry-After", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The keys are being read; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_session(
    State(app): State<App>,
    caller: Result<Identity, Problem>,
) -> Result<axum::Json<SessionView>, Problem> {
    let caller = match caller {
        Ok(caller) => Some(caller),
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => None,
        Err(problem) => return Err(problem),
    };
    Ok(axum::Json(view(&app, caller.as_ref())))
}

/// Signs in: the answer sets a cookie that stands for the key for 12 hours, in this service only.
/// The request has the header `X-Posthorn-Request`.
#[utoipa::path(
    post,
    path = "/session",
    tag = "page",
    operation_id = "sign_in",
    security(()),
    request_body = SignIn,
    responses(
        (status = 200, description = "Signed in", body = SessionView),
        (status = 400, description = "No JSON", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "The key is not known", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The header is missing", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The key calls too often; see Retry-After", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The keys are being read; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    from_our_page(&Method::POST, &headers)?;
    require_json(&headers)?;
    let asked: SignIn = parse_object(&read_body(body, MAX_SIGN_IN).await?)?;
    let sessions = app.auth.sessions().ok_or_else(Problem::internal)?;
    let now = posthorn_wiring::now();
    let caller = app.auth.identify(&asked.key, now)?;
    app.auth.admit(&caller, tokio::time::Instant::now())?;
    let end = now + LIFE;
    let value = sessions.seal(&asked.key, end, &mut rng());
    tracing::info!(caller = caller.name(), until = %to_rfc3339(end), "signed in to the page");
    let body = axum::Json(view(&app, Some(&caller)));
    with_cookie(&headers, &value, LIFE.as_secs(), body.into_response())
}

/// Signs out: the browser forgets the cookie. A copy of it that somebody has taken is good until
/// it ends or its key is revoked.
#[utoipa::path(
    delete,
    path = "/session",
    tag = "page",
    operation_id = "sign_out",
    security(()),
    responses(
        (status = 204, description = "Signed out"),
        (status = 403, description = "The header is missing", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn sign_out(headers: HeaderMap) -> Result<Response, Problem> {
    from_our_page(&Method::DELETE, &headers)?;
    with_cookie(&headers, "", 0, StatusCode::NO_CONTENT.into_response())
}

fn with_cookie(
    asked: &HeaderMap,
    value: &str,
    seconds: u64,
    mut response: Response,
) -> Result<Response, Problem> {
    let (name, secure) = match is_loopback(asked) {
        true => (LOOPBACK_COOKIE, ""),
        false => (SECURE_COOKIE, "; Secure"),
    };
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::try_from(cookie).map_err(|_| Problem::internal())?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Whether the browser is on this machine, where there is no TLS to ask for.
fn is_loopback(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(host: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        let response = with_cookie(&headers, "v", 9, StatusCode::OK.into_response()).unwrap();
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
        cookie.to_owned()
    }

    #[test]
    fn a_cookie_is_for_tls_unless_the_browser_is_on_this_machine() {
        for here in [
            "localhost:8081",
            "localhost",
            "127.0.0.1:1",
            "[::1]:8081",
            "[::1]",
        ] {
            let cookie = on(here);
            assert!(
                cookie.starts_with("posthorn=v; ") && !cookie.contains("Secure"),
                "{here}"
            );
        }
        for there in [
            "example.com",
            "example.com:8081",
            "10.0.0.1:80",
            "localhost.evil.example",
        ] {
            let cookie = on(there);
            assert!(cookie.starts_with("__Host-posthorn=v; Path=/; "), "{there}");
            assert!(
                cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"),
                "{there}"
            );
        }
    }
}
