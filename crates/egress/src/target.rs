//! The URL of an endpoint, judged when it is written and again before every attempt.

use std::fmt;
use std::net::IpAddr;

use url::{Host, ParseError, Url};

use crate::embedding::canonical;
use crate::name::{NameRule, is_well_formed};
use crate::policy::{EgressDenied, EgressPolicy};

/// The longest URL, in bytes, as given and as normalised.
pub const MAX_URL_BYTES: usize = 2048;

/// Why a URL is refused. Never holds its user, password, path or query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is longer than [`MAX_URL_BYTES`].
    #[error("the URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// It holds a control character. A parser would drop some of them without a word.
    #[error("the URL holds a control character")]
    ControlCharacter,
    /// It is not an absolute URL.
    #[error("the URL cannot be read")]
    Unparsable(#[source] ParseError),
    /// Its scheme is neither `http` nor `https`.
    #[error("the URL's scheme is neither http nor https")]
    Scheme,
    /// It has no host.
    #[error("the URL has no host")]
    NoHost,
    /// Its host is not a name that DNS can hold.
    #[error("the URL's host is not a valid name")]
    MalformedName,
    /// It has a fragment, which is never sent.
    #[error("the URL has a fragment")]
    Fragment,
    /// Its port is 0.
    #[error("the URL's port is 0")]
    Port,
    /// Its host is a name that means something local.
    #[error("the URL's host is not public: {0}")]
    LocalName(NameRule),
    /// Its host is an address or a name that may not be called.
    #[error(transparent)]
    Denied(EgressDenied),
    /// It would be called without TLS, which the operator does not permit.
    #[error("the URL's scheme is http; https is required here")]
    PlainHttp,
    /// Its port is not one of those that the operator permits.
    #[error("port {0} may not be called")]
    DeniedPort(u16),
}

impl UrlError {
    /// Whether the URL is a proper one that the operator's policy refuses. Everything else could
    /// be called nowhere.
    #[must_use]
    pub const fn is_policy(&self) -> bool {
        matches!(
            self,
            Self::LocalName(_) | Self::Denied(_) | Self::PlainHttp | Self::DeniedPort(_)
        )
    }
}

/// An `http` or `https` URL whose host, as far as it can be judged without DNS, may be called.
///
/// User and password may be part of it and are sent as basic authentication. They, the path and
/// the query often carry a token, so `Display` and `Debug` show scheme, host and port only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TargetUrl {
    url: Url,
    port: u16,
    literal: Option<IpAddr>,
}

impl TargetUrl {
    /// Reads and judges a URL. An address in any notation that a URL may have (decimal, octal,
    /// hexadecimal, shortened, mapped) is judged as the address it is. A name loses its root's
    /// dot.
    ///
    /// # Errors
    ///
    /// [`UrlError`] names the rule that the URL breaks.
    pub fn parse(text: &str, policy: &EgressPolicy) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(UrlError::ControlCharacter);
        }
        let url = Url::parse(text).map_err(unparsable)?;
        let port = check_form(&url)?;
        let (url, literal) = check_host(url, policy)?;
        check_way(&url, port, literal, policy)?;
        // Percent-encoding can make it three times as long as it was given.
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        Ok(Self { url, port, literal })
    }

    /// The whole URL, for the sender and for storage. Not for a log.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The whole URL in its parts, for the sender. Its own `Display` and `Debug` hide nothing.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The host as it stands in the URL: a name in lower case, or an address, an IPv6 one in
    /// brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The port, also where the URL leaves it to the scheme. Never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The host if it is an address, a mapped one as IPv4. `None` means that the name must be
    /// resolved, and all that comes back checked by [`EgressPolicy::check_answer`].
    #[must_use]
    pub const fn literal_ip(&self) -> Option<IpAddr> {
        self.literal
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.url.scheme(), self.host(), self.port)
    }
}

impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn unparsable(error: ParseError) -> UrlError {
    match error {
        ParseError::EmptyHost => UrlError::NoHost,
        other => UrlError::Unparsable(other),
    }
}

/// Everything but the host; returns the port.
fn check_form(url: &Url) -> Result<u16, UrlError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Scheme);
    }
    if url.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    match url.port_or_known_default() {
        None | Some(0) => Err(UrlError::Port),
        Some(port) => Ok(port),
    }
}

/// Scheme and port, which are judged last: who names an inner host is told of that first.
fn check_way(
    url: &Url,
    port: u16,
    literal: Option<IpAddr>,
    policy: &EgressPolicy,
) -> Result<(), UrlError> {
    // Of names only this one: what others lead to is not known yet.
    let on_loopback = match literal {
        Some(address) => address.is_loopback(),
        None => url.host_str() == Some("localhost"),
    };
    if url.scheme() == "http" && !policy.allows_plain_http(on_loopback) {
        return Err(UrlError::PlainHttp);
    }
    if !policy.allows_port(port) {
        return Err(UrlError::DeniedPort(port));
    }
    Ok(())
}

fn check_host(url: Url, policy: &EgressPolicy) -> Result<(Url, Option<IpAddr>), UrlError> {
    let address = match url.host().ok_or(UrlError::NoHost)? {
        Host::Ipv4(v4) => IpAddr::V4(v4),
        Host::Ipv6(v6) => canonical(IpAddr::V6(v6)),
        Host::Domain(name) => {
            let name = name.to_owned();
            return Ok((check_name(url, &name, policy)?, None));
        }
    };
    policy.check_address(address).map_err(UrlError::Denied)?;
    Ok((url, Some(address)))
}

/// Returns the URL without the root's dot: certificates and virtual hosts are named without.
fn check_name(mut url: Url, name: &str, policy: &EgressPolicy) -> Result<Url, UrlError> {
    // The parser has put it into lower case and the ASCII form of international names.
    let bare = name.strip_suffix('.').unwrap_or(name);
    if !is_well_formed(bare) {
        return Err(UrlError::MalformedName);
    }
    policy.check_denied(bare).map_err(UrlError::Denied)?;
    if let Some(rule) = policy.broken_rule(bare) {
        return Err(UrlError::LocalName(rule));
    }
    if bare.len() < name.len() {
        url.set_host(Some(bare))
            .map_err(|_| UrlError::MalformedName)?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod hostile;
