//! The one HTTP client, with everything switched off that acts on its own.

use crate::config::Settings;
use crate::resolver::{Guard, GuardedResolver};
use posthorn_delivery::Failure;
use posthorn_egress::{EgressPolicy, TargetUrl};
use reqwest::redirect::Policy;
use reqwest::{Proxy, RequestBuilder};
use std::sync::Arc;
use std::time::Duration;

/// Idle connections are closed before common servers close them (Node after 5 s), because a
/// request on one that is just being closed fails.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_PER_HOST: usize = 256;
const CONNECT: Duration = Duration::from_secs(10);
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// The client and the guard that its names go through.
pub(crate) struct Client {
    inner: reqwest::Client,
    guard: Arc<Guard>,
    proxied: bool,
}

impl Client {
    pub fn new(settings: &Settings, egress: &EgressPolicy) -> Result<Client, anyhow::Error> {
        let guard = Arc::new(Guard::new(&settings.dns_servers, egress.clone())?);
        let proxy = settings
            .egress_proxy
            .as_deref()
            .map(Proxy::all)
            .transpose()
            .map_err(reqwest::Error::without_url)?;
        let proxy_host = settings.egress_proxy.as_deref().and_then(host_of);
        let proxied = proxy.is_some();
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .referer(false)
            // Ambient proxy variables would switch the guard off silently.
            .no_proxy()
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .tcp_nodelay(true)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .dns_resolver(GuardedResolver::new(guard.clone(), proxy_host));
        if let Some(proxy) = proxy {
            builder = builder.proxy(proxy);
        }
        let inner = builder.build().map_err(reqwest::Error::without_url)?;
        Ok(Client {
            inner,
            guard,
            proxied,
        })
    }

    /// With a proxy the connection does not go through our resolver, so the name is resolved
    /// and judged here first. Without one the resolver does it as part of the connection.
    pub async fn check(&self, target: &TargetUrl) -> Result<(), Failure> {
        if !self.proxied || target.literal_ip().is_some() {
            return Ok(());
        }
        self.guard
            .resolve(target.host())
            .await
            .map(drop)
            .map_err(|error| error.failure())
    }

    pub fn post(&self, target: &TargetUrl) -> RequestBuilder {
        self.inner.post(target.url().clone())
    }
}

/// Whether a proxy setting can be used; the text never shows it, as it may hold a password.
pub(crate) fn check_proxy(proxy: Option<&str>) -> Result<(), String> {
    let Some(proxy) = proxy else { return Ok(()) };
    let scheme_ok =
        url::Url::parse(proxy).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if scheme_ok && Proxy::all(proxy).is_ok() {
        return Ok(());
    }
    Err("egress-proxy must be an http or https URL".to_owned())
}

fn host_of(proxy: &str) -> Option<String> {
    Some(
        url::Url::parse(proxy)
            .ok()?
            .host_str()?
            .to_ascii_lowercase(),
    )
}
