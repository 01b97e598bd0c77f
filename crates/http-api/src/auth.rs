//! Who a caller is and what they may do.
//!
//! Every handler asks an [`Identity`], never a key: a key that is good for one tenant, or for
//! publishing only, is then one more way to make an identity and no change to any handler. To
//! an identity of one tenant the others do not exist, so it gets 404 and not 403.

use crate::problem::Problem;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use posthorn_delivery::Tenant;
use posthorn_runtime::SecretString;
use std::sync::Arc;

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
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: Arc<str>,
    may: Arc<[Scope]>,
    tenant: Option<Tenant>,
}

impl Identity {
    /// The holder of the admin key: everything, of every tenant.
    #[must_use]
    pub fn admin() -> Identity {
        Identity::new("admin", &Scope::ALL, None)
    }

    /// A caller by a name that may be logged. `None` as the tenant is all tenants.
    #[must_use]
    pub fn new(name: &str, may: &[Scope], tenant: Option<Tenant>) -> Identity {
        Identity {
            name: name.into(),
            may: may.into(),
            tenant,
        }
    }

    /// A name for the audit log; no secret.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one tenant that this caller sees; `None` is all.
    #[must_use]
    pub fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// Whether it sees this tenant. The reserved tenant is seen by callers of all tenants only.
    #[must_use]
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant
            .as_ref()
            .is_none_or(|own| own.as_str() == tenant)
    }

    /// May it do this, for this tenant?
    ///
    /// # Errors
    /// 404 for a tenant that it does not see, 403 for what it may not do.
    pub fn allow(&self, scope: Scope, tenant: &Tenant) -> Result<(), Problem> {
        if !self.sees(tenant.as_str()) {
            return Err(Problem::not_found("tenant"));
        }
        self.require(scope)
    }

    /// May it do this at all?
    ///
    /// # Errors
    /// 403 where it may not.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.may.contains(&scope) {
            return Ok(());
        }
        let detail = format!("the key has no scope `{}`", scope.as_str());
        Err(Problem::forbidden(detail))
    }
}

/// Turns a key into an identity.
#[derive(Clone, Debug)]
pub struct Authenticator {
    admin: SecretString,
}

impl Authenticator {
    /// Knows the admin key.
    #[must_use]
    pub fn new(admin: SecretString) -> Authenticator {
        Authenticator { admin }
    }

    /// Who holds this key; compared in constant time.
    #[must_use]
    pub fn identify(&self, key: &str) -> Option<Identity> {
        self.admin.matches(key).then(Identity::admin)
    }

    /// Who sent a request with this `Authorization` header.
    ///
    /// # Errors
    /// 401 where there is none, it is not `Bearer`, or the key is not known.
    pub fn authenticate(&self, header: Option<&str>) -> Result<Identity, Problem> {
        header
            .and_then(bearer)
            .and_then(|key| self.identify(key))
            .ok_or_else(Problem::unauthorized)
    }
}

/// The token of `Bearer <token>`; the scheme in any case, as RFC 9110 has it.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, key) = header.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| key.trim_matches(' '))
}

impl<S> FromRequestParts<S> for Identity
where
    S: Send + Sync,
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Identity, Problem> {
        let header = parts.headers.get(AUTHORIZATION);
        let text = header.and_then(|value| value.to_str().ok());
        Authenticator::from_ref(state).authenticate(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        Authenticator::new("key-1".parse().unwrap())
    }

    #[test]
    fn only_the_whole_key_opens() {
        let auth = authenticator();
        for good in ["Bearer key-1", "bearer key-1", "Bearer  key-1 "] {
            assert_eq!(
                auth.authenticate(Some(good)),
                Ok(Identity::admin()),
                "{good}"
            );
        }
        for bad in [
            "",
            "key-1",
            "Bearer",
            "Bearer ",
            "Bearer key-2",
            "Basic key-1",
            "Bearerkey-1",
        ] {
            let refused = auth.authenticate(Some(bad)).unwrap_err();
            assert_eq!(refused.status().as_u16(), 401, "{bad:?}");
        }
        assert!(auth.authenticate(None).is_err());
        let open = Authenticator::new("".parse().unwrap());
        assert!(open.authenticate(Some("Bearer ")).is_err());
    }

    #[test]
    fn dlq_05_another_tenant_does_not_exist_and_a_missing_scope_does() {
        let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
        let caller = Identity::new("k", &[Scope::Publish], Some(a.clone()));
        assert_eq!(caller.allow(Scope::Publish, &a), Ok(()));
        let status = |scope, tenant| caller.allow(scope, tenant).unwrap_err().status().as_u16();
        assert_eq!(status(Scope::Publish, &b), 404);
        assert_eq!(status(Scope::Endpoints, &b), 404);
        assert_eq!(status(Scope::Endpoints, &a), 403);
        let system = Tenant::parse_any("_posthorn").unwrap();
        assert_eq!(status(Scope::Publish, &system), 404);
        assert_eq!(Identity::admin().allow(Scope::Operate, &b), Ok(()));
    }
}
