//! The pooled client of the bare loops: the dispatcher's library and pool settings, and nothing
//! of what the dispatcher does with them.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Posts bodies.
#[derive(Clone)]
pub(crate) struct Client(Pool<HttpConnector, Full<Bytes>>);

impl Client {
    pub fn new() -> Client {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(256)
            .build(connector);
        Client(pool)
    }

    /// Posts once and reads the answer to its end, or the connection could not be used again.
    /// Whether it was a good answer.
    pub async fn post(&self, uri: &Uri, body: Bytes) -> bool {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        let Ok(response) = self.0.request(request).await else {
            return false;
        };
        let good = response.status().is_success();
        good && response.into_body().collect().await.is_ok()
    }
}
