//! Dead letters over HTTP: looking at them, sending them again, throwing them away.

pub(crate) mod all;
pub mod delete;
pub mod list;
pub mod mend;
pub(crate) mod register;
pub mod replay;
pub(crate) mod search;
pub mod show;

use crate::app::{App, tenant_of};
use posthorn_broker::Logged;
use posthorn_delivery::{DeadLetter, LetterId, Tenant};
use posthorn_http_api::{Act, Action, Identity, Problem};

/// What is done to a letter, for the audit log.
pub(crate) fn act_on(action: Action, letter: &DeadLetter) -> Act {
    // What was published under no valid name belongs to no tenant.
    let tenant = Tenant::parse_any(&letter.tenant).ok();
    Act::new(action, tenant.as_ref(), letter.id.as_str())
}

/// The letter that a path names, of a tenant that the caller sees.
///
/// # Errors
/// 404 for one that is not there, is another tenant's, or is no letter id at all.
pub(crate) async fn letter_of(
    app: &App,
    caller: &Identity,
    id: &str,
) -> Result<Logged<DeadLetter>, Problem> {
    let tenant = tenant_of(caller, None)?;
    let missing = || Problem::not_found("dead letter");
    let id = LetterId::parse(id).map_err(|_| missing())?;
    let found = app.store.find_letter(tenant.as_ref(), &id).await?;
    let found = found.ok_or_else(missing)?;
    // The subject is one token for every tenant name that is none; the letter itself is asked.
    if caller.sees(&found.value.tenant) {
        Ok(found)
    } else {
        Err(missing())
    }
}
