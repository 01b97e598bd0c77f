//! How keys are shown. Nothing here can hold a secret, but for the one answer that must.

use posthorn_broker::codec::{ApiKey, Scope};
use posthorn_delivery::Tenant;
use posthorn_http_api::MintedKey;
use posthorn_http_api::time::to_rfc3339;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use utoipa::ToSchema;

/// How often a key may call each copy of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRate {
    /// Requests a second, 1 to 100,000; a batch of events is one request.
    #[schema(example = 50, minimum = 1, maximum = 100_000)]
    pub(super) per_second: u32,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct KeyView {
    /// 16 hexadecimal digits: the part of the key between `phk_` and its secret.
    id: String,
    name: String,
    /// The one tenant that it sees; `null` is all.
    tenant: Option<String>,
    /// `publish`, `endpoints`, `operate`.
    scopes: Vec<&'static str>,
    /// `null` is what the services are configured with.
    rate_limit: Option<KeyRate>,
    created_at: String,
    /// The name of the key that made it.
    created_by: String,
    /// It opens nothing from then on; `null` is never.
    expires_at: Option<String>,
}

impl From<&ApiKey> for KeyView {
    fn from(key: &ApiKey) -> KeyView {
        let rate = |rate: NonZeroU32| KeyRate {
            per_second: rate.get(),
        };
        KeyView {
            id: key.id.clone(),
            name: key.name.clone(),
            tenant: key.tenant.as_ref().map(Tenant::to_string),
            scopes: key.scopes.iter().copied().map(Scope::as_str).collect(),
            rate_limit: key.rate_per_second.map(rate),
            created_at: to_rfc3339(key.created_at),
            created_by: key.created_by.clone(),
            expires_at: key.expires_at.map(to_rfc3339),
        }
    }
}

/// A new key, with the only answer that ever shows it.
#[derive(Serialize, ToSchema)]
pub struct CreatedKey {
    #[serde(flatten)]
    shown: KeyView,
    /// The whole key, for `Authorization: Bearer`.
    key: String,
}

impl CreatedKey {
    pub(super) fn new(key: &ApiKey, minted: &MintedKey) -> CreatedKey {
        CreatedKey {
            shown: KeyView::from(key),
            key: minted.text.expose().to_owned(),
        }
    }
}
