//! The way to a receiver: straight, or through the operator's proxy; with TLS where the URL
//! says so.

use crate::socket::{Dialer, Socket};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;
use url::Url;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

/// The operator's proxy: where it is, and how it knows us.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub uri: Uri,
    pub auth: Option<HeaderValue>,
    pub host: String,
}

impl Proxy {
    /// Reads the setting. `None` when it is no `http` or `https` URL; what it is is not said,
    /// as it may hold a password.
    pub fn parse(text: &str) -> Option<Proxy> {
        let url = Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        Some(Proxy {
            uri: uri_of(&url)?,
            auth: basic_auth(&url),
            host: url.host_str()?.to_ascii_lowercase(),
        })
    }
}

/// A URL without its user and password, as the HTTP client wants it.
pub(crate) fn uri_of(url: &Url) -> Option<Uri> {
    let mut bare = url.clone();
    bare.set_username("").ok()?;
    bare.set_password(None).ok()?;
    bare.as_str().parse().ok()
}

/// A URL's user and password as basic authentication.
pub(crate) fn basic_auth(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .expect("base64 is visible ASCII");
    value.set_sensitive(true);
    Some(value)
}

/// Connects to receivers.
#[derive(Clone)]
pub(crate) enum Connector {
    Straight(HttpsConnector<Dialer>),
    Proxied(Box<Proxied>),
}

/// The two ways by a proxy: what is plain it reads and sends on, what is secret goes through a
/// tunnel.
#[derive(Clone)]
pub(crate) struct Proxied {
    proxy: Uri,
    to_proxy: HttpsConnector<Dialer>,
    through: HttpsConnector<Tunnel<HttpsConnector<Dialer>>>,
}

impl Connector {
    pub fn new(dialer: Dialer, tls: &ClientConfig, proxy: Option<&Proxy>) -> Connector {
        let with_alpn = |protocols: &[&[u8]]| {
            let mut config = tls.clone();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        let receiver = with_alpn(&[b"h2", b"http/1.1"]);
        let Some(proxy) = proxy else {
            return Connector::Straight(HttpsConnector::from((dialer, receiver)));
        };
        // A tunnel is asked for in HTTP/1.1.
        let to_proxy = HttpsConnector::from((dialer, with_alpn(&[b"http/1.1"])));
        let mut tunnel = Tunnel::new(proxy.uri.clone(), to_proxy.clone());
        if let Some(auth) = &proxy.auth {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Connector::Proxied(Box::new(Proxied {
            proxy: proxy.uri.clone(),
            to_proxy,
            through: HttpsConnector::from((tunnel, receiver)),
        }))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Connector::Straight(straight) => straight.poll_ready(cx),
            Connector::Proxied(proxied) => proxied.through.poll_ready(cx),
        }
    }

    fn call(&mut self, to: Uri) -> Connecting {
        match self {
            Connector::Straight(straight) => boxed(straight.call(to), false),
            Connector::Proxied(proxied) if to.scheme_str() == Some("https") => {
                boxed(proxied.through.call(to), false)
            }
            Connector::Proxied(proxied) => {
                boxed(proxied.to_proxy.call(proxied.proxy.clone()), true)
            }
        }
    }
}

fn boxed<T: Io + 'static>(
    connecting: impl Future<Output = Result<T, BoxError>> + Send + 'static,
    forwarded: bool,
) -> Connecting {
    Box::pin(async move {
        let io = connecting.await?;
        Ok(Stream {
            io: Box::new(io),
            forwarded,
        })
    })
}

/// What a connection can do, whatever it consists of.
trait Io: Read + Write + Connection + Unpin + Send {}

impl Io for MaybeHttpsStream<Socket> {}
impl Io for MaybeHttpsStream<MaybeHttpsStream<Socket>> {}

/// A connection to a receiver.
pub(crate) struct Stream {
    io: Box<dyn Io>,
    /// A proxy reads our requests and sends them on, so they name their whole target.
    forwarded: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.forwarded)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_egress::{EgressList, EgressPolicy, PortList, TargetUrl};
    use proptest::prelude::*;

    #[test]
    fn user_and_password_leave_the_url_and_become_a_header() {
        let url = Url::parse("https://us%40er:p%3Aw@example.com/a?b=1").unwrap();
        assert_eq!(uri_of(&url).unwrap(), "https://example.com/a?b=1");
        let auth = basic_auth(&url).unwrap();
        assert_eq!(auth.as_bytes(), b"Basic dXNAZXI6cDp3");
        assert!(auth.is_sensitive());
        assert!(basic_auth(&Url::parse("https://example.com/").unwrap()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        /// Two parsers read each URL: what the rules judged and what is dialled must be one host.
        #[test]
        fn ssrf_05_what_is_judged_is_what_the_client_reads(
            text in "https?://([a-z0-9]{1,4}(:[a-z@]{0,3})?@)?[a-zA-Z0-9.:%\\[\\]-]{1,24}(/[ -~\u{e9}]{0,24})?([?][ -~]{0,24})?",
        ) {
            let ports = PortList::parse("1-65535").unwrap();
            let open = EgressPolicy::new(EgressList::parse("0.0.0.0/0,::/0").unwrap(), EgressList::default())
                .with_plain_http(posthorn_egress::PlainHttp::Anywhere)
                .with_ports(ports);
            if let Ok(target) = TargetUrl::parse(&text, &open) {
                let uri = uri_of(target.url()).expect("whatever is accepted can be sent to");
                prop_assert_eq!(uri.host(), Some(target.host()));
                prop_assert_eq!(uri.scheme_str(), Some(target.url().scheme()));
                let port = uri.port_u16().unwrap_or(match uri.scheme_str() {
                    Some("http") => 80,
                    _ => 443,
                });
                prop_assert_eq!(port, target.port());
                let sent = uri.path_and_query().unwrap().as_str();
                prop_assert!(target.as_str().ends_with(sent), "{} is sent as {}", target.as_str(), sent);
            }
        }
    }

    #[test]
    fn a_proxy_is_an_http_url() {
        let proxy = Proxy::parse("http://u:p@Proxy.internal:3128").unwrap();
        assert_eq!(proxy.host, "proxy.internal");
        assert_eq!(proxy.uri, "http://proxy.internal:3128/");
        assert!(proxy.auth.is_some());
        for bad in ["proxy:3128", "socks5://proxy", "", "http://"] {
            assert!(Proxy::parse(bad).is_none(), "{bad}");
        }
    }
}
