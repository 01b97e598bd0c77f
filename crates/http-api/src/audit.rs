//! Who did what: an entry for every administrative act, written before the act is done.
//!
//! Written first, because an act that is on no record is what the record is for: where the entry
//! cannot be written, the answer is 503 and nothing is done. An entry therefore says that the act
//! was asked for by whoever may. Unless an entry of the same id says that it failed it was done,
//! with one exception: a process that ended, or a caller that hung up, between the two.

use crate::auth::Identity;
use crate::problem::Problem;
use posthorn_broker::codec::{AuditEntry, AuditResult};
use posthorn_broker::{Broker, Patience};
use posthorn_delivery::{EventType, Tenant, UnixMillis};
use posthorn_runtime::clock::now_unix_millis;
use posthorn_runtime::rng::rng;
use rand::RngExt;
use std::future::Future;
use std::time::Duration;

/// How long an answer that tells of a failure waits for its entry.
const AFTERWARDS: Duration = Duration::from_secs(2);

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What can be done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Action] = &[$(Action::$name,)*];

            /// The stable name: what it is done to, and what is done.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Action::$name => $text,)*
                }
            }
        }
    };
}

actions! {
    /// An endpoint is created.
    EndpointCreate = "endpoint.create",
    /// An endpoint is changed.
    EndpointChange = "endpoint.change",
    /// An endpoint is deleted.
    EndpointDelete = "endpoint.delete",
    /// An endpoint is paused.
    EndpointPause = "endpoint.pause",
    /// An endpoint is resumed.
    EndpointResume = "endpoint.resume",
    /// An endpoint is sent a test event.
    EndpointTest = "endpoint.test",
    /// An endpoint is sent what it has missed.
    EndpointRecover = "endpoint.recover",
    /// An endpoint gets a new secret.
    SecretRotate = "secret.rotate",
    /// An endpoint's secrets are shown.
    SecretShow = "secret.show",
    /// The endpoints' secrets are stored under the newest key, a page of them.
    SecretReseal = "secret.reseal",
    /// An API key is made.
    KeyCreate = "key.create",
    /// An API key is revoked.
    KeyRevoke = "key.revoke",
    /// A breaker is opened by hand.
    BreakerOpen = "breaker.open",
    /// A breaker is closed by hand.
    BreakerClose = "breaker.close",
    /// A dead letter is sent again.
    LetterReplay = "letter.replay",
    /// A dead letter is thrown away.
    LetterDelete = "letter.delete",
    /// Every dead letter that matches is thrown away.
    LetterPurge = "letter.purge",
    /// A replay job is started.
    ReplayCreate = "replay.create",
    /// A replay job is paused.
    ReplayPause = "replay.pause",
    /// A replay job goes on.
    ReplayResume = "replay.resume",
    /// A replay job is stopped for good.
    ReplayCancel = "replay.cancel",
}

/// An act that is about to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    action: Action,
    tenant: Option<Tenant>,
    object: String,
}

impl Act {
    /// `action`, done to `object` of `tenant`. The object is an id or a filter: what it holds is
    /// kept and shown, so it is never a secret, a URL or a payload.
    #[must_use]
    pub fn new(action: Action, tenant: Option<&Tenant>, object: impl Into<String>) -> Act {
        Act {
            action,
            tenant: tenant.cloned(),
            object: object.into(),
        }
    }

    /// The entry that `caller` asked for it at `now`; `chance` makes its id.
    fn entry(
        self,
        caller: &Identity,
        now: UnixMillis,
        chance: u128,
    ) -> Result<AuditEntry, Problem> {
        // The names above are all of this form; a test says so.
        let action = EventType::parse(self.action.as_str()).map_err(|_| Problem::internal())?;
        Ok(AuditEntry {
            id: format!("act_{chance:032x}"),
            at: now,
            key_id: caller.key().to_owned(),
            key_name: caller.name().to_owned(),
            action,
            tenant: self.tenant,
            object: self.object,
            result: AuditResult::Asked,
            status: None,
        })
    }
}

/// The log; clones are the same.
#[derive(Clone)]
pub struct Audit {
    broker: Broker,
}

impl Audit {
    /// The log of an installation.
    #[must_use]
    pub fn new(broker: Broker) -> Audit {
        Audit { broker }
    }

    /// Writes down that `caller` asks for `act`, and then does it: `work` is not begun before
    /// the entry is stored.
    ///
    /// # Errors
    /// 503 where the entry cannot be written, and nothing was done; else the work's own.
    pub async fn act<T>(
        &self,
        caller: &Identity,
        act: Act,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let asked = act.entry(caller, UnixMillis(now_unix_millis()), rng().random())?;
        self.broker.publish_audit(&asked, Patience::CALLER).await?;
        let done = work.await;
        if let Err(problem) = &done {
            self.failed(asked, problem.status().as_u16()).await;
        }
        done
    }

    /// The act itself has been answered for: when this cannot be written it is only logged.
    async fn failed(&self, asked: AuditEntry, status: u16) {
        let entry = AuditEntry {
            result: AuditResult::Failed,
            status: Some(status),
            at: UnixMillis(now_unix_millis()),
            ..asked
        };
        let patience = Patience::caller(AFTERWARDS);
        if let Err(error) = self.broker.publish_audit(&entry, patience).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                act = entry.id,
                status,
                error,
                "a failed act stays as asked for"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn hdr_05_every_action_can_be_part_of_a_subject() {
        let names: BTreeSet<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names.len(), Action::ALL.len());
        for name in names {
            assert!(EventType::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_entry_says_who_asked_for_what_and_when() {
        let acme = Tenant::parse("acme").unwrap();
        let act = Act::new(Action::BreakerOpen, Some(&acme), "ep_1");
        let entry = act.entry(&Identity::admin(), UnixMillis(5), 7).unwrap();
        assert_eq!(entry.id, format!("act_{:032x}", 7));
        assert_eq!((entry.key_id.as_str(), entry.at), ("admin", UnixMillis(5)));
        assert_eq!(entry.action.as_str(), "breaker.open");
        assert_eq!((entry.tenant, entry.object.as_str()), (Some(acme), "ep_1"));
        assert_eq!((entry.result, entry.status), (AuditResult::Asked, None));
    }
}
