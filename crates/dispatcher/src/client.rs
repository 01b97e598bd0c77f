//! The one HTTP client, with everything switched off that acts on its own.
//!
//! It follows no redirect, repeats nothing, reads no proxy variable, and asks for no
//! compression, so nothing is ever inflated. The bounds of what it reads are here; the bound of
//! how long it takes is the caller's.

use crate::config::Settings;
use crate::connector::{Connector, Proxy};
use crate::failure::{Failed, failure_of};
use crate::prepared::Prepared;
use crate::resolver::{Guard, GuardedResolver};
use crate::socket::{Dialer, Used};
use crate::trust;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use posthorn_egress::{EgressPolicy, TargetUrl};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Idle connections are closed before common servers close them (Node after 5 s), because a
/// request on one that is just being closed fails.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_PER_HOST: usize = 256;
const CONNECT: Duration = Duration::from_secs(10);
/// A connection of HTTP/2 is shared, so one that is dead without a word takes every request into
/// its timeout until somebody notices: a ping that is not answered does.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_ANSWERED: Duration = Duration::from_secs(5);
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// The client and the guard that its names go through.
pub(crate) struct Client {
    pool: Pool<Connector, Full<Bytes>>,
    guard: Arc<Guard>,
    proxy: Option<Proxy>,
}

impl Client {
    pub fn new(settings: &Settings, egress: &EgressPolicy) -> Result<Client, anyhow::Error> {
        let guard = Arc::new(Guard::new(&settings.dns_servers, egress.clone())?);
        let proxy = settings.egress_proxy.as_deref().and_then(Proxy::parse);
        let tls = trust::client_config(settings.egress_ca.as_deref())?;
        let proxy_host = proxy.as_ref().map(|proxy| proxy.host.clone());
        let resolver = GuardedResolver::new(guard.clone(), proxy_host);
        let mut http = HttpConnector::new_with_resolver(resolver);
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let connector = Connector::new(Dialer::new(http), &tls, proxy.as_ref());
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .http1_max_headers(MAX_HEADERS)
            .http1_max_buf_size(MAX_HEADER_BYTES as usize)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_ANSWERED)
            .http2_keep_alive_while_idle(true)
            .build(connector);
        Ok(Client { pool, guard, proxy })
    }

    /// Posts once. The answer's body is still to be read.
    pub async fn post(
        &self,
        prepared: &Prepared,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failed> {
        self.check(&prepared.target).await?;
        let empty = body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = prepared.uri.clone();
        *request.headers_mut() = headers;
        if empty {
            // The library leaves it out, and there are servers that answer 411 then.
            let length = HeaderValue::from_static("0");
            request.headers_mut().insert(CONTENT_LENGTH, length);
        }
        if let Some(auth) = self.forward_auth(prepared) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth);
        }
        let begun = Instant::now();
        let response = self.pool.request(request).await;
        let response = response.map_err(|error| failure_of(&error, begun.elapsed()))?;
        if let Some(used) = response.extensions().get::<Used>() {
            used.set();
        }
        Ok(response)
    }

    /// With a proxy the connection does not go through our resolver, so the name is resolved
    /// and judged here first. Without one the resolver does it as part of the connection.
    async fn check(&self, target: &TargetUrl) -> Result<(), Failed> {
        if self.proxy.is_none() || target.literal_ip().is_some() {
            return Ok(());
        }
        self.guard
            .resolve(target.host())
            .await
            .map(drop)
            .map_err(|error| error.failed())
    }

    /// What a proxy must see on a request that it sends on; a tunnel has shown it before.
    fn forward_auth(&self, prepared: &Prepared) -> Option<HeaderValue> {
        let forwarded = prepared.uri.scheme_str() == Some("http");
        self.proxy
            .as_ref()
            .filter(|_| forwarded)
            .and_then(|proxy| proxy.auth.clone())
    }
}

/// Whether a proxy setting can be used; the text never shows it, as it may hold a password.
pub(crate) fn check_proxy(proxy: Option<&str>) -> Result<(), String> {
    match proxy {
        Some(text) if Proxy::parse(text).is_none() => {
            Err("egress-proxy must be an http or https URL".to_owned())
        }
        _ => Ok(()),
    }
}
