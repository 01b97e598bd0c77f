//! The keys that endpoints' secrets are stored under.

use serde::Serialize;

use super::NatsArgs;
use crate::secret::SecretString;

/// The settings of every process that reads or writes endpoints' secrets: all of them must have
/// the same keys.
#[derive(Debug, Clone, Default, clap::Args, Serialize)]
#[command(next_help_heading = "Secrets")]
pub struct SecretsArgs {
    /// The keys that endpoints' secrets are stored under, comma separated: `ID:KEY` with a key of
    /// 32 bytes in base64, as `openssl rand -base64 32` makes it. The first one seals, all open.
    /// `none` stores secrets as they are. Where it is not set, nothing starts, unless all NATS
    /// servers are on this machine: then it is `none`, with a warning.
    #[arg(long, env = "POSTHORN_SECRET_KEYS", value_name = "KEYS")]
    pub secret_keys: Option<SecretString>,
}

impl SecretsArgs {
    /// The keys, as they were set.
    #[must_use]
    pub fn of(keys: SecretString) -> SecretsArgs {
        SecretsArgs {
            secret_keys: Some(keys),
        }
    }

    /// As they are beside these servers. Left out, secrets would end up in plain, which is no
    /// more than what a machine's own files are as long as NATS is on that machine; anywhere
    /// else they must have been thought of.
    #[must_use]
    pub fn beside(&self, nats: &NatsArgs) -> SecretsArgs {
        if self.secret_keys.is_none() && nats.is_on_this_machine() {
            return SecretsArgs::plain();
        }
        self.clone()
    }

    /// Secrets stored as they are, because somebody has said so.
    #[must_use]
    pub fn plain() -> SecretsArgs {
        SecretsArgs::of(SecretString::from("none".to_owned()))
    }

    /// The text of the setting, for whoever reads the keys in it.
    #[must_use]
    pub fn setting(&self) -> Option<&str> {
        self.secret_keys.as_ref().map(SecretString::expose)
    }

    /// Whether anything is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.secret_keys
            .as_ref()
            .is_some_and(|keys| !keys.is_empty())
    }
}
