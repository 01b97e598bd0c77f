//! An endpoint made ready for requests: what is sealed opened, its URL checked, its secrets
//! decoded, its headers built. Done once for each revision of its configuration, not for each
//! attempt.

use crate::connector::{basic_auth, uri_of};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use moka::sync::Cache;
use posthorn_broker::Versioned;
use posthorn_delivery::endpoint::StoredSecret;
use posthorn_delivery::{Endpoint, EndpointId, UnixMillis};
use posthorn_egress::{EgressPolicy, TargetUrl, UrlError};
use posthorn_signing::{KeyPair, Scheme, Secret};
use posthorn_vault::{KeyId, OpenError, Vault};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(600);
const MAX_ENDPOINTS: u64 = 50_000;

/// Headers that say how a message is framed, read and passed on. The API refuses them; one that
/// is here all the same would cut the body, lead it elsewhere or have it read as another one.
const TRANSPORT: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its URL may not be called, by this rule.
    Egress(UrlError),
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
        let target = TargetUrl::parse(endpoint.url.reveal(), egress).map_err(|error| {
            if error.is_policy() {
                Refusal::Egress(error)
            } else {
                Refusal::Unusable
            }
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
    vault: Vault,
    cache: Cache<(EndpointId, u64), Result<Arc<Prepared>, Refusal>>,
}

impl PreparedCache {
    pub fn new(vault: Vault) -> PreparedCache {
        PreparedCache {
            vault,
            cache: Cache::builder()
                .max_capacity(MAX_ENDPOINTS)
                .time_to_idle(IDLE)
                .build(),
        }
    }

    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    pub fn get(
        &self,
        endpoint: &Versioned<Endpoint>,
        egress: &EgressPolicy,
    ) -> Result<Arc<Prepared>, Refusal> {
        let key = (endpoint.value.id.clone(), endpoint.revision);
        self.cache
            .get_with(key, || self.prepare(&endpoint.value, egress))
    }

    fn prepare(
        &self,
        endpoint: &Endpoint,
        egress: &EgressPolicy,
    ) -> Result<Arc<Prepared>, Refusal> {
        let opened = self.vault.opened(endpoint);
        let opened = opened.inspect_err(|error| report(endpoint, error));
        let opened = opened.map_err(|_| Refusal::Unusable)?;
        Prepared::of(&opened, egress).map(Arc::new)
    }
}

/// Somebody must act: everything for this endpoint is given up as long as it lasts.
fn report(endpoint: &Endpoint, error: &OpenError) {
    tracing::error!(
        tenant = %endpoint.tenant,
        endpoint = %endpoint.id,
        key = error.key().map(KeyId::as_str),
        error = error as &dyn std::error::Error,
        "an endpoint's secrets cannot be opened; its deliveries are given up as unsignable"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::endpoint::{Hidden, limits};
    use posthorn_delivery::{Ordering, RetryPolicy, Tenant};
    use posthorn_runtime::rng::rng;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const K1: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const K2: &str = "k2://///////////////////////////////////////v8=";

    fn endpoint() -> Versioned<Endpoint> {
        let hidden = |text: &str| Hidden::new(text.to_owned());
        let value = Endpoint {
            id: EndpointId::from_bits(1),
            tenant: Tenant::parse("acme").unwrap(),
            url: hidden("https://user:password@example.com/hook"),
            event_types: Vec::new(),
            description: String::new(),
            headers: vec![("X-Token".to_owned(), hidden("value"))],
            signatures: vec!["v1".to_owned()],
            secrets: vec![StoredSecret {
                text: hidden(SECRET),
                expires_at: None,
            }],
            key_pairs: Vec::new(),
            disabled: None,
            disabled_before: Duration::ZERO,
            ordering: Ordering::None,
            rate_limit: None,
            max_backlog: limits::MAX_BACKLOG,
            retry: RetryPolicy::default(),
            timeout: Duration::from_secs(15),
            max_in_flight: 32,
            breaker: None,
            target_epoch: 0,
            created_at: UnixMillis(0),
            updated_at: UnixMillis(0),
        };
        Versioned { value, revision: 1 }
    }

    fn prepare(setting: &str, endpoint: &Versioned<Endpoint>) -> Result<Arc<Prepared>, Refusal> {
        let vault = Vault::from_setting(Some(setting)).unwrap();
        PreparedCache::new(vault).get(endpoint, &EgressPolicy::locked_down())
    }

    fn assert_usable(prepared: &Prepared) {
        assert_eq!(prepared.uri, "https://example.com/hook");
        assert_eq!(prepared.headers["x-token"], "value");
        assert!(prepared.headers.contains_key(AUTHORIZATION));
        assert_eq!(prepared.secrets(UnixMillis(0))[0].reveal(), SECRET);
    }

    #[test]
    fn sealed_and_plain_endpoints_give_the_same_requests() {
        let plain = endpoint();
        assert_usable(&prepare(K1, &plain).unwrap_or_else(|_| panic!("plain is read")));
        let vault = Vault::from_setting(Some(K1)).unwrap();
        let value = vault.sealed(&plain.value, &mut rng());
        let sealed = Versioned { value, revision: 2 };
        for setting in [K1.to_owned(), format!("{K2},{K1}")] {
            let prepared = prepare(&setting, &sealed);
            assert_usable(&prepared.unwrap_or_else(|_| panic!("the key is known")));
        }
        for setting in [K2, "none"] {
            let refused = prepare(setting, &sealed).err();
            assert_eq!(refused, Some(Refusal::Unusable), "{setting}");
        }
    }
}
