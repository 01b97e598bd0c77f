//! Hands a few calls of the page on to the public API, in the name of whoever is signed in.
//!
//! A browser talks to one origin, and to pause an endpoint, rotate its secret or send it a test
//! is the public API's: it has the keys of secrets and the rules of endpoints, and this service
//! has neither and is not to. So the call is made again, there, with the caller's own key, and
//! is judged, limited and written down there. Only the calls below are handed on, to one address
//! that the operator sets; no part of a path or header is passed as it came. Without the address
//! everything else works.

use crate::app::App;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, Method, Request, Response, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use posthorn_delivery::{EndpointId, Tenant};
use posthorn_http_api::body::MAX_JSON;
use posthorn_http_api::list::bad_cursor;
use posthorn_http_api::{KeyHolder, Paging, Problem, Query, Scope, read_body};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;
use utoipa::IntoParams;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long an answer may take: a test waits for its receiver, up to the longest timeout of an
/// endpoint.
const ANSWER: Duration = Duration::from_secs(75);
/// When to come again where the public API does not answer.
const AWAY: Duration = Duration::from_secs(5);
/// The largest answer that is handed back, in bytes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// Where the public API answers inside the network: `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestUrl {
    authority: String,
}

/// A text that is no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is http://host:port, without a path: the address of ingest inside the network")]
pub struct IngestUrlError;

impl FromStr for IngestUrl {
    type Err = IngestUrlError;

    fn from_str(text: &str) -> Result<IngestUrl, IngestUrlError> {
        let uri: Uri = text
            .trim_end_matches('/')
            .parse()
            .map_err(|_| IngestUrlError)?;
        let authority = uri.authority().ok_or(IngestUrlError)?;
        let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        if !plain || uri.query().is_some() || authority.as_str().contains('@') {
            return Err(IngestUrlError);
        }
        let port = authority.port_u16().unwrap_or(80);
        Ok(IngestUrl {
            authority: format!("{}:{port}", authority.host()),
        })
    }
}

impl fmt::Display for IngestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

impl serde::Serialize for IngestUrl {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// The public API, where its address is known; clones are the same.
#[derive(Clone, Default)]
pub struct Ingest {
    url: Option<Arc<IngestUrl>>,
}

impl From<Option<IngestUrl>> for Ingest {
    fn from(url: Option<IngestUrl>) -> Ingest {
        Ingest {
            url: url.map(Arc::new),
        }
    }
}

/// Why the public API gave no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("it did not answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
    #[error("it cannot be connected to")]
    Connect(#[from] std::io::Error),
    #[error("it broke off")]
    Http(#[from] hyper::Error),
    #[error("its answer is too large or broke off")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Ingest {
    /// Whether its address is known.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.url.is_some()
    }

    async fn call(
        &self,
        holder: &KeyHolder,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Body>, Problem> {
        let url = self.url.as_ref().ok_or_else(not_configured)?;
        let request = request(url, holder, method, path, body)?;
        match exchange(url, request).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the public API gave no answer");
                let detail = "the public API does not answer";
                Err(Problem::unavailable("ingest-away", detail, AWAY))
            }
        }
    }
}

fn not_configured() -> Problem {
    let detail = "this service is not told where the public API is (POSTHORN_INGEST_URL)";
    Problem::conflict("no-ingest", detail)
}

fn request(
    url: &IngestUrl,
    holder: &KeyHolder,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Problem> {
    let bearer = format!("Bearer {}", holder.key.expose());
    let mut bearer = HeaderValue::try_from(bearer).map_err(|_| Problem::unauthorized())?;
    bearer.set_sensitive(true);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, &url.authority)
        .header(header::AUTHORIZATION, bearer)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body));
    request.map_err(|_| Problem::internal())
}

/// One connection for one call: a person makes a few an hour.
async fn exchange(
    url: &IngestUrl,
    request: Request<Full<Bytes>>,
) -> Result<Response<Body>, NoAnswer> {
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&url.authority)).await??;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let answering = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(NoAnswer::Answer)?.to_bytes();
        Ok::<_, NoAnswer>((head, body))
    };
    let (head, body) = tokio::time::timeout(ANSWER, answering).await??;
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = head.status;
    for name in [header::CONTENT_TYPE, header::RETRY_AFTER] {
        if let Some(value) = head.headers.get(&name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    Ok(answer)
}

/// What is done to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pause,
    Resume,
    Test,
    Rotate,
    Recover,
}

impl Action {
    fn parse(text: &str) -> Option<Action> {
        Some(match text {
            "pause" => Action::Pause,
            "resume" => Action::Resume,
            "test" => Action::Test,
            "rotate" => Action::Rotate,
            "recover" => Action::Recover,
            _ => return None,
        })
    }

    fn path(self) -> &'static str {
        match self {
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Test => "test",
            Action::Rotate => "secret/rotate",
            Action::Recover => "recover",
        }
    }
}

/// A tenant whose endpoints the caller may manage; the public API judges it again.
fn tenant_of(holder: &KeyHolder, text: &str) -> Result<Tenant, Problem> {
    let tenant = Tenant::parse_any(text).map_err(|_| Problem::not_found("tenant"))?;
    holder.caller.allow(Scope::Endpoints, &tenant)?;
    Ok(tenant)
}

fn parse_endpoint(text: &str) -> Result<EndpointId, Problem> {
    EndpointId::parse(text).map_err(|_| Problem::not_found("endpoint"))
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Endpoints of a page, 1 to 500; 50 where nothing is said.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A tenant's endpoints, as the public API answers.
#[utoipa::path(
    get,
    path = "/ingest/tenants/{tenant}/endpoints",
    tag = "page",
    operation_id = "ingest_list_endpoints",
    params(("tenant" = String, Path, description = "Whose"), PageQuery),
    responses(
        (status = 200, description = "As the public API answers", body = serde_json::Value),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "Another tenant", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its address is not set", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "It does not answer; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn list_endpoints(
    State(app): State<App>,
    holder: KeyHolder,
    Path(tenant): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Response<Body>, Problem> {
    let tenant = tenant_of(&holder, &tenant)?;
    let limit = Paging::try_new(query.limit, query.cursor.as_deref())?.limit();
    let cursor = query.cursor.unwrap_or_default();
    let in_a_query = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if !cursor.bytes().all(in_a_query) {
        return Err(bad_cursor());
    }
    let path = format!("/v1/tenants/{tenant}/endpoints?limit={limit}&cursor={cursor}");
    app.ingest
        .call(&holder, Method::GET, &path, Bytes::new())
        .await
}

/// An endpoint with its configuration, as the public API answers.
#[utoipa::path(
    get,
    path = "/ingest/tenants/{tenant}/endpoints/{endpoint}",
    tag = "page",
    operation_id = "ingest_show_endpoint",
    params(
        ("tenant" = String, Path, description = "Whose"),
        ("endpoint" = String, Path, description = "`ep_…`"),
    ),
    responses(
        (status = 200, description = "As the public API answers", body = serde_json::Value),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its address is not set", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "It does not answer; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_endpoint(
    State(app): State<App>,
    holder: KeyHolder,
    Path((tenant, endpoint)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let tenant = tenant_of(&holder, &tenant)?;
    let endpoint = parse_endpoint(&endpoint)?;
    let path = format!("/v1/tenants/{tenant}/endpoints/{endpoint}");
    app.ingest
        .call(&holder, Method::GET, &path, Bytes::new())
        .await
}

/// Pauses, resumes, tests or recovers an endpoint, or rotates its secret: `pause`, `resume`,
/// `test`, `recover`, `rotate`. Body and answer are the public API's.
#[utoipa::path(
    post,
    path = "/ingest/tenants/{tenant}/endpoints/{endpoint}/{action}",
    tag = "page",
    operation_id = "ingest_endpoint_action",
    params(
        ("tenant" = String, Path, description = "Whose"),
        ("endpoint" = String, Path, description = "`ep_…`"),
        ("action" = String, Path, description = "`pause`, `resume`, `test`, `rotate` or `recover`"),
    ),
    request_body(content = Option<serde_json::Value>),
    responses(
        (status = 200, description = "As the public API answers", body = serde_json::Value),
        (status = 202, description = "As the public API answers", body = serde_json::Value),
        (status = 400, description = "The body cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No key", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "Not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such endpoint or action", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Its address is not set, or others change the endpoint at the same time", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "A field is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "It does not answer; see Retry-After", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn act_on_endpoint(
    State(app): State<App>,
    holder: KeyHolder,
    Path((tenant, endpoint, action)): Path<(String, String, String)>,
    body: Body,
) -> Result<Response<Body>, Problem> {
    let tenant = tenant_of(&holder, &tenant)?;
    let endpoint = parse_endpoint(&endpoint)?;
    let action = Action::parse(&action).ok_or_else(|| Problem::not_found("action"))?;
    let body = read_body(body, MAX_JSON).await?;
    let path = format!(
        "/v1/tenants/{tenant}/endpoints/{endpoint}/{}",
        action.path()
    );
    tracing::info!(caller = holder.caller.name(), %tenant, %endpoint, ?action, "handed on");
    let answer = app.ingest.call(&holder, Method::POST, &path, body).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_http_api::Identity;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn an_address_is_plain_and_inside() {
        let parsed = |text: &str| text.parse::<IngestUrl>().map(|url| url.to_string());
        assert_eq!(parsed("http://ingest:8080").unwrap(), "http://ingest:8080");
        assert_eq!(parsed("http://ingest/").unwrap(), "http://ingest:80");
        assert_eq!(parsed("http://[::1]:9").unwrap(), "http://[::1]:9");
        for bad in [
            "",
            "ingest:8080",
            "https://ingest",
            "http://u:p@ingest",
            "http://ingest/v1",
            "http://ingest?x=1",
            "//ingest",
        ] {
            assert_eq!(parsed(bad), Err(IngestUrlError), "{bad}");
        }
    }

    #[test]
    fn only_known_actions_are_handed_on() {
        let path = |text| Action::parse(text).map(Action::path);
        assert_eq!(path("rotate"), Some("secret/rotate"));
        for bad in ["", "secret", "secret/rotate", "delete", "../../x", "Pause"] {
            assert_eq!(path(bad), None, "{bad}");
        }
        for bad in ["ep_1", "../x", "ep_1%2f..", ""] {
            assert!(parse_endpoint(bad).is_err());
        }
        let holder = holder();
        assert!(tenant_of(&holder, "a/b").is_err() && tenant_of(&holder, "a?b").is_err());
        assert!(tenant_of(&holder, "acme").is_ok());
    }

    fn holder() -> KeyHolder {
        KeyHolder {
            caller: Identity::admin(),
            key: "the-key".parse().unwrap(),
        }
    }

    /// Answers one request with these bytes, and returns what was asked.
    async fn answer_once(listener: TcpListener, answer: &'static str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 4_096];
        let read = stream.read(&mut asked).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&asked[..read]).into_owned()
    }

    #[tokio::test]
    async fn the_call_is_the_callers_and_the_answer_is_what_came() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\n\
                      set-cookie: a=b\r\ncontent-length: 2\r\n\r\n{}";
        let asked = tokio::spawn(answer_once(listener, answer));
        let ingest = Ingest::from(url.parse().ok());
        let body = Bytes::from_static(b"{\"overlap\":\"1h\"}");
        let answer = ingest.call(&holder(), Method::POST, "/v1/x", body).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status().as_u16(), 409);
        let headers = answer.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(!headers.contains_key(header::SET_COOKIE));
        let asked = asked.await.unwrap().to_ascii_lowercase();
        assert!(asked.starts_with("post /v1/x http/1.1\r\n"), "{asked}");
        assert!(
            asked.contains("authorization: bearer the-key\r\n"),
            "{asked}"
        );
        assert!(!asked.contains("cookie"), "{asked}");
    }

    #[tokio::test]
    async fn nobody_there_is_said_and_may_be_tried_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let status = async |url: Option<IngestUrl>| {
            let ingest = Ingest::from(url);
            let called = ingest
                .call(&holder(), Method::GET, "/v1/x", Bytes::new())
                .await;
            called.unwrap_err().status().as_u16()
        };
        assert_eq!(status(url.parse().ok()).await, 503);
        assert_eq!(status(None).await, 409);
    }
}
