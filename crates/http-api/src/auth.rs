//! Who a caller is and what they may do.
//!
//! Every handler asks an [`Identity`], never a key: a key that is good for one tenant, or for
//! publishing only, is then one more way to make an identity and no change to any handler. To
//! an identity of one tenant the others do not exist, so it gets 404 and not 403.

use crate::key::PresentedKey;
use crate::limit::Limiter;
use crate::problem::Problem;
use crate::session::{Sessions, cookie_of, from_our_page};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use posthorn_broker::codec::{ApiKey, Scope};
use posthorn_broker::{Versioned, Watched};
use posthorn_delivery::{Tenant, UnixMillis};
use posthorn_runtime::clock::now_unix_millis;
use posthorn_runtime::readiness::Component;
use posthorn_runtime::{SecretString, Shutdown};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The id that the admin key has in the audit log.
const ADMIN: &str = "admin";
/// When to come again while the keys are being read, which takes milliseconds.
const LOADING_WAIT: Duration = Duration::from_secs(1);

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    key: Arc<str>,
    name: Arc<str>,
    may: Arc<[Scope]>,
    tenant: Option<Tenant>,
    /// The bound of the key itself, where it has one.
    rate: Option<NonZeroU32>,
}

impl Identity {
    /// The holder of the admin key: everything, of every tenant.
    #[must_use]
    pub fn admin() -> Identity {
        Identity::new(ADMIN, &Scope::ALL, None)
    }

    /// A caller by a name that may be logged. `None` as the tenant is all tenants.
    #[must_use]
    pub fn new(name: &str, may: &[Scope], tenant: Option<Tenant>) -> Identity {
        Identity {
            key: name.into(),
            name: name.into(),
            may: may.into(),
            tenant,
            rate: None,
        }
    }

    /// The holder of a key.
    #[must_use]
    pub fn of(key: &ApiKey) -> Identity {
        Identity {
            key: key.id.as_str().into(),
            rate: key.rate_per_second,
            ..Identity::new(&key.name, &key.scopes, key.tenant.clone())
        }
    }

    /// The id of the caller's key, or `admin`; no secret.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
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

    /// What it may do.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.may
    }

    /// Whether it sees this tenant. The reserved tenant is seen by callers of all tenants only.
    #[must_use]
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant
            .as_ref()
            .is_none_or(|own| own.as_str() == tenant)
    }

    /// Whether it holds the admin key. No other key can have this id: theirs are hexadecimal.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        &*self.key == ADMIN
    }

    /// May it make and revoke keys? A key that could would be every key.
    ///
    /// # Errors
    /// 403 for all but the admin key.
    pub fn require_admin(&self) -> Result<(), Problem> {
        if self.is_admin() {
            return Ok(());
        }
        Err(Problem::forbidden("only the admin key may do this"))
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

/// Where the keys are looked up.
pub trait KeySource: Send + Sync {
    /// Whether all keys are known; before that, a key that is not found may be a good one.
    fn is_loaded(&self) -> bool;

    /// The key of an id.
    fn find(&self, id: &str) -> Option<Arc<Versioned<ApiKey>>>;
}

impl KeySource for Watched<ApiKey> {
    fn is_loaded(&self) -> bool {
        Watched::is_loaded(self)
    }

    fn find(&self, id: &str) -> Option<Arc<Versioned<ApiKey>>> {
        self.get(id)
    }
}

/// How long a quiet watch of the keys may go unchecked: a revoked key must not stay good
/// because a watch was lost.
pub const KEYS_CHECKED: Duration = Duration::from_millis(250);

/// Says that a service is ready once it knows the keys; ends with shutdown.
pub async fn ready_when_loaded(keys: Watched<ApiKey>, component: Component, shutdown: Shutdown) {
    tokio::select! {
        () = keys.loaded() => component.ready(),
        () = shutdown.triggered() => {}
    }
}

/// Turns a key into an identity, and bounds how often each key may call. Clones share both.
#[derive(Clone)]
pub struct Authenticator {
    admin: SecretString,
    keys: Arc<dyn KeySource>,
    limiter: Arc<Limiter>,
    sessions: Option<Sessions>,
}

impl Authenticator {
    /// Knows the admin key and `keys`, each of which may call as often as it says or as
    /// `limiter` does.
    #[must_use]
    pub fn new(admin: SecretString, keys: Arc<dyn KeySource>, limiter: Limiter) -> Authenticator {
        Authenticator {
            admin,
            keys,
            limiter: Arc::new(limiter),
            sessions: None,
        }
    }

    /// The same, and a session's cookie stands for its key where there is no `Authorization`.
    #[must_use]
    pub fn with_sessions(mut self) -> Authenticator {
        self.sessions = Some(Sessions::new(self.admin.clone()));
        self
    }

    /// The sessions, where cookies count.
    #[must_use]
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// The key that a request came with.
    ///
    /// # Errors
    /// 401 where there is none; 403 where a cookie came with a request that another page may
    /// have made.
    fn presented(&self, parts: &Parts, now: UnixMillis) -> Result<SecretString, Problem> {
        if let Some(header) = parts.headers.get(AUTHORIZATION) {
            let text = header.to_str().ok().and_then(bearer);
            let key = text.ok_or_else(Problem::unauthorized)?;
            return Ok(SecretString::from(key.to_owned()));
        }
        let cookie = self.sessions.as_ref().zip(cookie_of(&parts.headers));
        let (sessions, cookie) = cookie.ok_or_else(Problem::unauthorized)?;
        let key = sessions.open(cookie, now);
        let key = key.ok_or_else(Problem::unauthorized)?;
        from_our_page(&parts.method, &parts.headers)?;
        Ok(key)
    }

    /// Whose key `text` is at `now`.
    ///
    /// Compared in constant time. A key that is not known, one whose secret is wrong and one
    /// that has expired are answered alike, so that nobody learns which ids there are.
    ///
    /// # Errors
    /// 401 where the key is not known; 503 where the keys have not been read yet.
    pub fn identify(&self, text: &str, now: UnixMillis) -> Result<Identity, Problem> {
        if self.admin.matches(text) {
            return Ok(Identity::admin());
        }
        let presented = PresentedKey::parse(text).ok_or_else(Problem::unauthorized)?;
        let found = self.keys.find(presented.id());
        let known = found.as_ref().map(|found| &found.value);
        match presented.opens(known, now) {
            Some(key) => Ok(Identity::of(key)),
            None if self.keys.is_loaded() => Err(Problem::unauthorized()),
            None => {
                let detail = "the keys are being read; the same request may be repeated";
                Err(Problem::unavailable("starting", detail, LOADING_WAIT))
            }
        }
    }

    /// Counts a request of `caller` at `now`. The admin key has no bound.
    ///
    /// # Errors
    /// 429 with the time after which there is room again.
    pub fn admit(&self, caller: &Identity, now: Instant) -> Result<(), Problem> {
        if caller.is_admin() {
            return Ok(());
        }
        let admitted = self.limiter.take(&caller.key, caller.rate, now);
        admitted.map_err(Problem::too_many)
    }
}

/// The token of `Bearer <token>`; the scheme in any case, as RFC 9110 has it.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, key) = header.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| key.trim_matches(' '))
}

/// A caller, and the key that shows it: for a service that hands a call on in its caller's name.
#[derive(Clone, Debug)]
pub struct KeyHolder {
    /// Who.
    pub caller: Identity,
    /// The key.
    pub key: SecretString,
}

impl<S> FromRequestParts<S> for KeyHolder
where
    S: Send + Sync,
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<KeyHolder, Problem> {
        let authenticator = Authenticator::from_ref(state);
        let now = UnixMillis(now_unix_millis());
        let key = authenticator.presented(parts, now)?;
        let caller = authenticator.identify(key.expose(), now)?;
        authenticator.admit(&caller, Instant::now())?;
        Ok(KeyHolder { caller, key })
    }
}

impl<S> FromRequestParts<S> for Identity
where
    S: Send + Sync,
    Authenticator: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Identity, Problem> {
        let holder = KeyHolder::from_request_parts(parts, state).await?;
        Ok(holder.caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::key::MintedKey;
    use rand::SeedableRng;
    use std::collections::HashMap;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    #[derive(Default)]
    struct Ring {
        loaded: bool,
        keys: HashMap<String, Arc<Versioned<ApiKey>>>,
    }

    impl KeySource for Ring {
        fn is_loaded(&self) -> bool {
            self.loaded
        }

        fn find(&self, id: &str) -> Option<Arc<Versioned<ApiKey>>> {
            self.keys.get(id).cloned()
        }
    }

    fn of(admin: &str, ring: Ring) -> Authenticator {
        let limiter = Limiter::new(NonZeroU32::new(2));
        Authenticator::new(admin.parse().unwrap(), Arc::new(ring), limiter)
    }

    fn ring(loaded: bool, keys: &[ApiKey]) -> Ring {
        let entry = |key: &ApiKey| {
            let (value, revision) = (key.clone(), 1);
            (key.id.clone(), Arc::new(Versioned { value, revision }))
        };
        let keys = keys.iter().map(entry).collect();
        Ring { loaded, keys }
    }

    fn mint(seed: u64) -> (MintedKey, ApiKey) {
        let minted = MintedKey::new(NOW, &mut rand::rngs::StdRng::seed_from_u64(seed));
        let key = ApiKey {
            id: minted.id.clone(),
            name: "billing".to_owned(),
            secret_sha256: minted.secret_sha256,
            tenant: None,
            scopes: vec![Scope::Publish],
            rate_per_second: None,
            created_at: NOW,
            created_by: ADMIN.to_owned(),
            expires_at: Some(NOW + Duration::from_secs(60)),
        };
        (minted, key)
    }

    fn ask(auth: &Authenticator, pairs: &[(&str, &str)]) -> Result<Identity, Problem> {
        let mut request = axum::http::Request::builder().method("POST").uri("/");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let key = auth.presented(&parts, NOW)?;
        auth.identify(key.expose(), NOW)
    }

    fn status(auth: &Authenticator, key: &str, now: UnixMillis) -> u16 {
        let answer = auth.identify(key, now);
        answer.map_or_else(|problem| problem.status().as_u16(), |_| 200)
    }

    #[test]
    fn only_the_whole_key_opens() {
        let auth = of("key-1", ring(true, &[]));
        for good in ["Bearer key-1", "bearer key-1", "Bearer  key-1 "] {
            let caller = ask(&auth, &[("authorization", good)]);
            assert_eq!(caller, Ok(Identity::admin()), "{good}");
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
            let refused = ask(&auth, &[("authorization", bad)]).unwrap_err();
            assert_eq!(refused.status().as_u16(), 401, "{bad:?}");
        }
        assert!(ask(&auth, &[]).is_err());
        let open = of("", ring(true, &[]));
        assert!(ask(&open, &[("authorization", "Bearer ")]).is_err());
    }

    #[test]
    fn a_cookie_is_a_key_where_sessions_are_and_only_from_our_page() {
        let plain = of("key-1", ring(true, &[]));
        let auth = plain.clone().with_sessions();
        let rng = &mut rand::rngs::StdRng::seed_from_u64(1);
        let sealed = |key: &str, rng: &mut rand::rngs::StdRng| {
            let end = NOW + Duration::from_secs(1);
            format!("posthorn={}", auth.sessions().unwrap().seal(key, end, rng))
        };
        let cookie = sealed("key-1", rng);
        let ours = ("x-posthorn-request", "1");
        let status = |auth: &Authenticator, pairs: &[(&str, &str)]| match ask(auth, pairs) {
            Ok(_) => 200,
            Err(problem) => problem.status().as_u16(),
        };
        assert_eq!(status(&auth, &[("cookie", &cookie), ours]), 200);
        assert_eq!(status(&auth, &[("cookie", &cookie)]), 403);
        assert_eq!(status(&plain, &[("cookie", &cookie), ours]), 401);
        // What is said in a header goes before, also when it is wrong.
        let wrong = ("authorization", "Bearer key-2");
        assert_eq!(status(&auth, &[("cookie", &cookie), ours, wrong]), 401);
        // A cookie is worth what its key is worth.
        let revoked = sealed("key-2", rng);
        assert_eq!(status(&auth, &[("cookie", &revoked), ours]), 401);
    }

    #[test]
    fn a_key_opens_until_it_expires_and_all_refusals_are_one() {
        let (minted, key) = mint(1);
        let text = minted.text.expose();
        let auth = of("admin-key", ring(true, std::slice::from_ref(&key)));
        let caller = auth.identify(text, NOW).unwrap();
        assert_eq!((caller.key(), caller.name()), (key.id.as_str(), "billing"));
        assert!(!caller.is_admin() && caller.require_admin().is_err());
        assert_eq!(
            status(&auth, text, NOW + Duration::from_millis(59_999)),
            200
        );
        let (stranger, _) = mint(2);
        let other_secret = format!("phk_{}_{}", key.id, "0".repeat(64));
        let refused = |text: &str, now| auth.identify(text, now).unwrap_err();
        let expired = refused(text, NOW + Duration::from_secs(60));
        assert_eq!(expired, refused(&other_secret, NOW));
        assert_eq!(expired, refused(stranger.text.expose(), NOW));
        assert_eq!(expired, Problem::unauthorized());
    }

    #[test]
    fn before_the_keys_are_read_a_key_is_not_called_wrong() {
        let (minted, key) = mint(1);
        let auth = of("admin-key", ring(false, &[]));
        assert_eq!(status(&auth, minted.text.expose(), NOW), 503);
        assert_eq!(status(&auth, "admin-key", NOW), 200);
        // What can be no key is none whatever has been read.
        assert_eq!(status(&auth, "phk_x_y", NOW), 401);
        let known = of("admin-key", ring(false, &[key]));
        assert_eq!(status(&known, minted.text.expose(), NOW), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_has_its_own_bound_and_the_admin_key_none() {
        let auth = of("admin-key", ring(true, &[]));
        let (a, b) = (Identity::of(&mint(1).1), Identity::of(&mint(2).1));
        let (_, slow) = mint(3);
        let slow = Identity::of(&ApiKey {
            rate_per_second: NonZeroU32::new(1),
            ..slow
        });
        let now = Instant::now();
        let admitted =
            |caller: &Identity| (0..5).filter(|_| auth.admit(caller, now).is_ok()).count();
        assert_eq!(admitted(&a), 2);
        assert_eq!(admitted(&b), 2);
        assert_eq!(admitted(&slow), 1);
        assert_eq!(admitted(&Identity::admin()), 5);
        let refused = auth.admit(&a, now).unwrap_err();
        assert_eq!(refused.status().as_u16(), 429);
        assert!(auth.admit(&a, now + Duration::from_millis(500)).is_ok());
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
