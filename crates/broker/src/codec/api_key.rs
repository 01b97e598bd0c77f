//! API keys, as they are kept: what they may do, and never their secret.

use super::{DecodeError, Wire, check, decode, encode, field, optional_time, time_out};
use bytes::Bytes;
use posthorn_delivery::{Tenant, UnixMillis};
use posthorn_proto::v1;
use std::num::NonZeroU32;

/// What a key may be good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Publish events.
    Publish,
    /// Manage endpoints, and see their secrets.
    Endpoints,
    /// Look at and decide about what happened: dead letters, attempts, breakers.
    Operate,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Publish, Scope::Endpoints, Scope::Operate];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Publish => "publish",
            Scope::Endpoints => "endpoints",
            Scope::Operate => "operate",
        }
    }

    /// The scope of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// A key as it is stored, under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public half of the key, and its place in the bucket.
    pub id: String,
    /// For people and the audit log.
    pub name: String,
    /// SHA-256 of the secret half.
    pub secret_sha256: [u8; 32],
    /// The one tenant that it sees; `None` is all.
    pub tenant: Option<Tenant>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Requests a second; `None` is what the service is configured with.
    pub rate_per_second: Option<NonZeroU32>,
    /// When it was made.
    pub created_at: UnixMillis,
    /// The name of the key that made it.
    pub created_by: String,
    /// From then on it opens nothing.
    pub expires_at: Option<UnixMillis>,
}

impl Wire for ApiKey {
    fn to_wire(&self) -> Bytes {
        let scope = |scope: &Scope| scope_out(*scope).into();
        encode(&v1::ApiKey {
            id: self.id.clone(),
            name: self.name.clone(),
            secret_sha256: Bytes::copy_from_slice(&self.secret_sha256),
            tenant: self
                .tenant
                .as_ref()
                .map(Tenant::to_string)
                .unwrap_or_default(),
            scopes: self.scopes.iter().map(scope).collect(),
            rate_per_second: self.rate_per_second.map_or(0, NonZeroU32::get),
            created_at_ms: self.created_at.0,
            created_by: self.created_by.clone(),
            expires_at_ms: time_out(self.expires_at),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<ApiKey, DecodeError> {
        let message = decode::<v1::ApiKey>(bytes, "ApiKey")?;
        let tenant = match message.tenant.as_str() {
            "" => None,
            name => Some(check!("ApiKey", "tenant", Tenant::parse(name))),
        };
        // A scope that this version does not know gives nothing.
        let scopes = message.scopes().filter_map(scope_in).collect();
        if message.id.is_empty() {
            return Err(field("ApiKey", "id"));
        }
        Ok(ApiKey {
            secret_sha256: check!(
                "ApiKey",
                "secret_sha256",
                message.secret_sha256.as_ref().try_into()
            ),
            tenant,
            scopes,
            rate_per_second: NonZeroU32::new(message.rate_per_second),
            created_at: UnixMillis(message.created_at_ms),
            expires_at: optional_time(message.expires_at_ms),
            id: message.id,
            name: message.name,
            created_by: message.created_by,
        })
    }
}

fn scope_out(scope: Scope) -> v1::ApiScope {
    match scope {
        Scope::Publish => v1::ApiScope::Publish,
        Scope::Endpoints => v1::ApiScope::Endpoints,
        Scope::Operate => v1::ApiScope::Operate,
    }
}

fn scope_in(scope: v1::ApiScope) -> Option<Scope> {
    match scope {
        v1::ApiScope::Unspecified => None,
        v1::ApiScope::Publish => Some(Scope::Publish),
        v1::ApiScope::Endpoints => Some(Scope::Endpoints),
        v1::ApiScope::Operate => Some(Scope::Operate),
    }
}
