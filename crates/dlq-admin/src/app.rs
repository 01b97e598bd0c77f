//! What every handler has at hand, and who may see what.

use crate::filter::{FilterBody, FilterError, LetterFilter};
use crate::overview::Recently;
use crate::page::{Ingest, IngestUrl};
use crate::retention::Drops;
use crate::store::Store;
use axum::extract::FromRef;
use posthorn_delivery::Tenant;
use posthorn_http_api::{Act, Audit, Authenticator, Identity, Limiter, Problem, Scope};
use posthorn_runtime::{SecretString, Shutdown};
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The state of the router; clones are the same.
#[derive(Clone)]
pub struct App {
    /// What is read and written.
    pub store: Store,
    /// Who knocks.
    pub auth: Authenticator,
    /// Where it is written down who did what.
    pub audit: Audit,
    /// What is remembered of the last quarter of an hour.
    pub recently: Recently,
    /// Where the public API is.
    pub ingest: Ingest,
    /// What the streams' limits have dropped.
    pub drops: Drops,
    /// For work that goes on when its caller has hung up.
    pub shutdown: Shutdown,
}

impl FromRef<App> for Authenticator {
    fn from_ref(app: &App) -> Authenticator {
        app.auth.clone()
    }
}

impl App {
    /// The state over `store`, for the holder of `admin` and of every key in the bucket. A key
    /// that says nothing itself may call `rate` times a second.
    #[must_use]
    pub fn new(
        store: Store,
        admin: SecretString,
        rate: Option<NonZeroU32>,
        shutdown: Shutdown,
    ) -> App {
        let keys = Arc::new(store.keys().clone());
        App {
            auth: Authenticator::new(admin, keys, Limiter::new(rate)).with_sessions(),
            audit: Audit::new(store.broker().clone()),
            store,
            recently: Recently::default(),
            ingest: Ingest::default(),
            drops: Drops::default(),
            shutdown,
        }
    }

    /// The same, with the address that the page's calls of the public API are handed on to.
    #[must_use]
    pub fn with_ingest(mut self, url: Option<IngestUrl>) -> App {
        self.ingest = Ingest::from(url);
        self
    }

    /// Does what `caller` asked for, after that has been written down, and to its end: see
    /// [`App::complete`].
    ///
    /// # Errors
    /// 503 where it cannot be written down, and nothing was done; else the work's own.
    pub async fn act<T: Send + 'static>(
        &self,
        caller: &Identity,
        act: Act,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let (audit, caller) = (self.audit.clone(), caller.clone());
        self.complete(async move { audit.act(&caller, act, work).await })
            .await
    }

    /// Carries work out to its end even when the caller hangs up in the middle: a handler is
    /// dropped at its next wait, which may lie between two writes that belong together.
    ///
    /// # Errors
    /// The work's own, and 500 when it panicked.
    pub async fn complete<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let done = self.shutdown.spawn(work).await;
        done.unwrap_or_else(|_| Err(Problem::internal()))
    }
}

/// The tenant that a caller's request is about: the one asked for, or else the caller's own.
/// `None` is all tenants.
///
/// # Errors
/// 403 without the scope `operate`, 404 for a tenant that the caller does not see.
pub fn tenant_of(caller: &Identity, asked: Option<&Tenant>) -> Result<Option<Tenant>, Problem> {
    match asked {
        Some(tenant) => caller.allow(Scope::Operate, tenant)?,
        None => caller.require(Scope::Operate)?,
    }
    Ok(asked.or(caller.tenant()).cloned())
}

/// The filter of a caller: of one tenant's caller always of that tenant.
///
/// # Errors
/// As [`tenant_of`], and `refuse` makes the problem of a field that breaks its rule.
pub fn filter_of(
    caller: &Identity,
    mut asked: FilterBody,
    refuse: impl Fn(FilterError) -> Problem,
) -> Result<LetterFilter, Problem> {
    let filter = LetterFilter::try_new(asked.clone()).map_err(&refuse)?;
    let tenant = tenant_of(caller, filter.tenant())?;
    if tenant.as_ref() == filter.tenant() {
        return Ok(filter);
    }
    asked.tenant = tenant.map(|tenant| tenant.to_string());
    LetterFilter::try_new(asked).map_err(refuse)
}

/// 400: a query parameter breaks its rule.
#[must_use]
pub fn bad_parameter(error: FilterError) -> Problem {
    Problem::bad_request("query", error.field, error.rule)
}

/// 422: a field of `filter` in a body breaks its rule.
#[must_use]
pub fn bad_filter(error: FilterError) -> Problem {
    Problem::unprocessable("invalid", format!("filter.{}", error.field), error.rule)
}

/// 422: a filter that says nothing would mean every letter of the caller's.
///
/// # Errors
/// That.
pub fn require_some(asked: &FilterBody) -> Result<(), Problem> {
    if *asked != FilterBody::default() {
        return Ok(());
    }
    let detail = "an empty filter means every dead letter; name at least one field";
    Err(Problem::unprocessable("empty-filter", "filter", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_acme() -> Identity {
        let acme = Tenant::parse("acme").unwrap();
        Identity::new("k", &[Scope::Operate], Some(acme))
    }

    fn about(tenant: Option<&str>) -> FilterBody {
        FilterBody {
            tenant: tenant.map(str::to_owned),
            ..FilterBody::default()
        }
    }

    #[test]
    fn dlq_05_a_caller_of_one_tenant_filters_that_tenant_only() {
        let own = filter_of(&of_acme(), about(None), bad_filter).unwrap();
        assert_eq!(own.tokens(), ("acme", "*"));
        let other = filter_of(&of_acme(), about(Some("globex")), bad_filter).unwrap_err();
        assert_eq!(other.status().as_u16(), 404);
        let all = filter_of(&Identity::admin(), about(None), bad_filter).unwrap();
        assert_eq!(all.tokens(), ("*", "*"));
    }

    #[test]
    fn dlq_05_without_the_scope_nothing_is_shown() {
        let publisher = Identity::new("k", &[Scope::Publish], None);
        let refused = tenant_of(&publisher, None).unwrap_err();
        assert_eq!(refused.status().as_u16(), 403);
    }

    #[test]
    fn an_empty_filter_is_no_filter() {
        assert_eq!(
            require_some(&about(None)).unwrap_err().field(),
            Some("filter")
        );
        assert_eq!(require_some(&about(Some("acme"))), Ok(()));
    }
}
