//! An endpoint as it is shown. No secret is in it, and a mask in place of each credential.

use super::flow::{OrderingView, RateLimitView};
use super::mask::{MASK, masked_url};
use super::retry::RetryView;
use posthorn_delivery::{BreakerPolicy, Endpoint, UnixMillis};
use posthorn_http_api::time::{as_duration, as_rfc3339, as_rfc3339_option};
use posthorn_signing::KeyPair;
use posthorn_vault::{Field, Place, Vault};
use serde::Serialize;
use serde_json::Number;
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

/// An endpoint.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Endpoint)]
pub(crate) struct EndpointView {
    /// Its id.
    #[schema(example = "ep_018f2c4e0a5b7cc3b1d2a3f4e5a6b7c8")]
    pub id: String,
    /// Whose it is.
    #[schema(example = "acme")]
    pub tenant: String,
    /// Where deliveries are sent; `***` in place of a password.
    #[schema(example = "https://example.com/hooks")]
    pub url: String,
    /// Which types it gets: NATS wildcards, `*` one token and `>` the rest.
    pub event_types: Vec<String>,
    /// For people.
    pub description: String,
    /// Sent with every request; `***` in place of each value.
    #[schema(example = json!({"X-Token": "***"}))]
    pub headers: BTreeMap<String, String>,
    /// `v1`, `v1a`, `hub`, `svix`.
    pub signatures: Vec<String>,
    /// Ed25519 keys to verify `v1a` with, newest first.
    pub public_keys: Vec<String>,
    /// Whether it gets its deliveries now.
    pub enabled: bool,
    /// Why not: `paused`, `breaker` or `gone`.
    pub disabled_reason: Option<String>,
    /// Since when not.
    #[serde(serialize_with = "as_rfc3339_option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub disabled_since: Option<UnixMillis>,
    /// In which order it gets its deliveries.
    pub ordering: OrderingView,
    /// When and how often to try again.
    pub retry: RetryView,
    /// Bound of one whole exchange.
    #[serde(serialize_with = "as_duration")]
    #[schema(value_type = String, example = "15s")]
    pub timeout: Duration,
    /// Bound of the requests a second; null is none.
    pub rate_limit: Option<RateLimitView>,
    /// Requests in flight at a time, over all dispatchers together.
    #[schema(example = 32)]
    pub max_in_flight: u32,
    /// Deliveries that may wait for it; what comes beyond is given up as `backlog_full`.
    #[schema(example = 1_000_000)]
    pub max_backlog: u64,
    /// When to stop trying for a while; null is never.
    pub breaker: Option<BreakerView>,
    /// When it was created.
    #[serde(serialize_with = "as_rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at: UnixMillis,
    /// When it was changed last.
    #[serde(serialize_with = "as_rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: UnixMillis,
}

/// A circuit breaker's policy.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Breaker)]
pub(crate) struct BreakerView {
    /// Consecutive failures that open it, 1 to 1000.
    #[schema(example = 5)]
    pub failure_threshold: u32,
    /// The first cooldown; each failed probe doubles it.
    #[serde(serialize_with = "as_duration")]
    #[schema(value_type = String, example = "30s")]
    pub cooldown: Duration,
    /// The longest cooldown, at most 24h.
    #[serde(serialize_with = "as_duration")]
    #[schema(value_type = String, example = "15m")]
    pub max_cooldown: Duration,
}

impl From<BreakerPolicy> for BreakerView {
    fn from(policy: BreakerPolicy) -> BreakerView {
        BreakerView {
            failure_threshold: policy.failure_threshold(),
            cooldown: policy.cooldown(),
            max_cooldown: policy.max_cooldown(),
        }
    }
}

impl EndpointView {
    /// Of an endpoint, as it stands at `now`. One that cannot be opened is shown without its URL
    /// and public keys.
    pub(crate) fn of(vault: &Vault, endpoint: &Endpoint, now: UnixMillis) -> EndpointView {
        let headers = endpoint.headers.iter();
        EndpointView {
            id: endpoint.id.to_string(),
            tenant: endpoint.tenant.to_string(),
            url: shown_url(vault, endpoint),
            event_types: endpoint
                .event_types
                .iter()
                .map(ToString::to_string)
                .collect(),
            description: endpoint.description.clone(),
            headers: headers
                .map(|(name, _)| (name.clone(), MASK.to_owned()))
                .collect(),
            signatures: endpoint.signatures.clone(),
            public_keys: public_keys(vault, endpoint, now),
            enabled: endpoint.disabled.is_none(),
            disabled_reason: endpoint
                .disabled
                .map(|(reason, _)| reason.as_str().to_owned()),
            disabled_since: endpoint.disabled.map(|(_, since)| since),
            ordering: endpoint.ordering.into(),
            retry: RetryView::of(&endpoint.retry),
            timeout: endpoint.timeout,
            rate_limit: endpoint.rate_limit.map(RateLimitView::from),
            max_in_flight: endpoint.max_in_flight,
            max_backlog: endpoint.max_backlog,
            breaker: endpoint.breaker.map(BreakerView::from),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}

/// The URL of an endpoint with its password masked; all of it where it cannot be opened.
pub(crate) fn shown_url(vault: &Vault, endpoint: &Endpoint) -> String {
    let url = vault.open(&Place::of(endpoint, Field::Url), &endpoint.url);
    url.map_or_else(|_| MASK.to_owned(), |url| masked_url(url.reveal()))
}

/// A number that is kept in thousandths, without a fraction where it has none.
pub(crate) fn number_of_milli(milli: u32) -> Number {
    if milli.is_multiple_of(1_000) {
        return Number::from(milli / 1_000);
    }
    Number::from_f64(f64::from(milli) / 1_000.0).unwrap_or_else(|| Number::from(milli / 1_000))
}

/// The public halves of the pairs that sign at `now`, newest first.
pub(crate) fn public_keys(vault: &Vault, endpoint: &Endpoint, now: UnixMillis) -> Vec<String> {
    let place = Place::of(endpoint, Field::KeyPair);
    let live = endpoint.key_pairs.iter().filter(|pair| pair.is_live(now));
    live.filter_map(|pair| vault.open(&place, &pair.text).ok())
        .filter_map(|pair| KeyPair::parse(pair.reveal()).ok())
        .map(|pair| pair.public().to_string())
        .collect()
}
