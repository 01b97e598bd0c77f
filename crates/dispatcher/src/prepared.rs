//! An endpoint made ready for requests: its URL checked, its secrets decoded, its headers
//! built. Done once for each revision of its configuration, not for each attempt.

use crate::connector::{basic_auth, uri_of};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use moka::sync::Cache;
use posthorn_broker::Versioned;
use posthorn_delivery::endpoint::StoredSecret;
use posthorn_delivery::{Endpoint, EndpointId, UnixMillis};
use posthorn_egress::{EgressPolicy, TargetUrl, UrlError};
use posthorn_signing::{KeyPair, Scheme, Secret};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(600);
const MAX_ENDPOINTS: u64 = 50_000;

/// Headers that say how a message is framed and passed on. The API refuses them; one that is
/// here all the same would cut the body or lead it elsewhere.
const TRANSPORT: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What requests to an endpoint are made of.
pub(crate) struct Prepared {
    pub target: TargetUrl,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub schemes: Vec<Scheme>,
    secrets: Live<Secret>,
    pairs: Live<KeyPair>,
}

struct Live<T> {
    all: Vec<T>,
    ends: Vec<Option<UnixMillis>>,
}

/// Why no request can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its URL may not be called.
    Egress,
    /// Its configuration gives no valid request.
    Unusable,
}

impl<T: Clone> Live<T> {
    /// What signs at `now`; without a copy where everything does.
    fn at(&self, now: UnixMillis) -> Cow<'_, [T]> {
        let live = |end: &Option<UnixMillis>| end.is_none_or(|end| now < end);
        if self.ends.iter().all(live) {
            return Cow::Borrowed(&self.all);
        }
        let pairs = self.all.iter().zip(&self.ends);
        Cow::Owned(
            pairs
                .filter(|(_, end)| live(end))
                .map(|(key, _)| key.clone())
                .collect(),
        )
    }
}

impl Prepared {
    fn of(endpoint: &Endpoint, egress: &EgressPolicy) -> Result<Prepared, Refusal> {
        let target =
            TargetUrl::parse(endpoint.url.reveal(), egress).map_err(|error| match error {
                UrlError::Denied(_) | UrlError::LocalName(_) => Refusal::Egress,
                _ => Refusal::Unusable,
            })?;
        let schemes: Result<Vec<Scheme>, _> = endpoint
            .signatures
            .iter()
            .map(|name| name.parse())
            .collect();
        Ok(Prepared {
            uri: uri_of(target.url()).ok_or(Refusal::Unusable)?,
            headers: own_headers(endpoint, &target)?,
            target,
            schemes: schemes.map_err(|_| Refusal::Unusable)?,
            secrets: decode(&endpoint.secrets, |text| Secret::parse(text).ok())?,
            pairs: decode(&endpoint.key_pairs, |text| KeyPair::parse(text).ok())?,
        })
    }

    /// The symmetric secrets that sign at `now`, newest first.
    pub fn secrets(&self, now: UnixMillis) -> Cow<'_, [Secret]> {
        self.secrets.at(now)
    }

    /// The key pairs that sign at `now`, newest first.
    pub fn pairs(&self, now: UnixMillis) -> Cow<'_, [KeyPair]> {
        self.pairs.at(now)
    }
}

fn decode<T>(
    stored: &[StoredSecret],
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Live<T>, Refusal> {
    let all: Option<Vec<T>> = stored
        .iter()
        .map(|secret| parse(secret.text.reveal()))
        .collect();
    let ends = stored.iter().map(|secret| secret.expires_at).collect();
    Ok(Live {
        all: all.ok_or(Refusal::Unusable)?,
        ends,
    })
}

/// What every request to an endpoint has: the custom headers, and before them what they may
/// replace.
fn own_headers(endpoint: &Endpoint, target: &TargetUrl) -> Result<HeaderMap, Refusal> {
    let mut headers = custom_headers(endpoint)?;
    headers
        .entry(ACCEPT)
        .or_insert(HeaderValue::from_static("*/*"));
    if let Some(auth) = basic_auth(target.url()) {
        headers.entry(AUTHORIZATION).or_insert(auth);
    }
    Ok(headers)
}

/// A header that is not valid is a mistake in the configuration that no retry mends.
fn custom_headers(endpoint: &Endpoint) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::with_capacity(endpoint.headers.len());
    for (name, value) in &endpoint.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Refusal::Unusable)?;
        if TRANSPORT.contains(&name.as_str()) {
            return Err(Refusal::Unusable);
        }
        let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| Refusal::Unusable)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// The endpoints made ready, by revision.
pub(crate) struct PreparedCache {
    cache: Cache<(EndpointId, u64), Result<Arc<Prepared>, Refusal>>,
}

impl PreparedCache {
    pub fn new() -> PreparedCache {
        PreparedCache {
            cache: Cache::builder()
                .max_capacity(MAX_ENDPOINTS)
                .time_to_idle(IDLE)
                .build(),
        }
    }

    pub fn get(
        &self,
        endpoint: &Versioned<Endpoint>,
        egress: &EgressPolicy,
    ) -> Result<Arc<Prepared>, Refusal> {
        let key = (endpoint.value.id.clone(), endpoint.revision);
        self.cache
            .get_with(key, || Prepared::of(&endpoint.value, egress).map(Arc::new))
    }
}
