//! What this service is told.

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use posthorn_egress::{EgressPolicy, EgressRules, PortList};
use posthorn_runtime::config::{NatsArgs, ProcessArgs, RetentionArgs, SecretsArgs, parse_bytes};
use posthorn_runtime::{SecretString, ServiceConfig};
use posthorn_vault::{KeysError, Vault};
use serde::Serialize;
use std::net::SocketAddr;
use std::num::NonZeroU32;

/// What the largest payload leaves free in a message of the broker: headers, the envelope of
/// every later hop, the history of a dead letter.
pub const HEADROOM: usize = 64 * 1024;
/// The largest body of a batch, in bytes.
const MAX_BATCH: usize = 16 * 1024 * 1024;
/// Items of one batch.
pub const MAX_ITEMS: usize = 1_000;
const MIN_PAYLOAD: usize = 1_024;

/// The settings of this service alone.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(next_help_heading = "Ingest")]
pub struct Settings {
    /// Where the API is served.
    #[arg(
        long,
        env = "POSTHORN_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,

    /// The key that may do everything. Without one nothing starts.
    #[arg(
        long,
        env = "POSTHORN_ADMIN_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub admin_key: Option<SecretString>,

    /// Networks (10.1.0.0/16) and hosts (hooks.example.com, *.example.com) that deliveries may
    /// reach although they are private, comma separated.
    #[arg(
        long,
        env = "POSTHORN_EGRESS_ALLOW",
        default_value = "",
        value_name = "LIST"
    )]
    pub egress_allow: String,

    /// Networks and hosts that deliveries may never reach, comma separated; wins over what is
    /// allowed.
    #[arg(
        long,
        env = "POSTHORN_EGRESS_DENY",
        default_value = "",
        value_name = "LIST"
    )]
    pub egress_deny: String,

    /// Take http URLs too, which are called without TLS; where it is not set, only those of this
    /// machine's loopback addresses, if they are allowed.
    #[arg(long, env = "POSTHORN_EGRESS_ALLOW_HTTP", value_name = "BOOL",
        action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub egress_allow_http: Option<bool>,

    /// Ports that deliveries may go to, and ranges of them, comma separated.
    #[arg(long, env = "POSTHORN_EGRESS_PORTS", default_value = PortList::DEFAULT, value_name = "PORTS")]
    pub egress_ports: String,

    /// The largest payload. A batch may have 1,000 times as much, at most 16 MiB.
    #[arg(long, env = "POSTHORN_MAX_PAYLOAD", default_value = "256KiB", value_name = "BYTES", value_parser = parse_payload)]
    pub max_payload: usize,

    /// Requests a second of one API key to one copy of this service, where the key says nothing
    /// else; 0 is no bound. The admin key has none.
    #[arg(
        long,
        env = "POSTHORN_KEY_RATE_LIMIT",
        default_value_t = 1_000,
        value_name = "PER_SECOND"
    )]
    pub key_rate_limit: u32,

    /// What endpoints' secrets are stored under.
    #[command(flatten)]
    #[serde(flatten)]
    pub secrets: SecretsArgs,
}

fn parse_payload(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(parse_bytes(text)?).unwrap_or(usize::MAX);
    if !(MIN_PAYLOAD..=MAX_BATCH).contains(&bytes) {
        return Err("must be from 1KiB to 16MiB".to_owned());
    }
    Ok(bytes)
}

impl Settings {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// With the rule that is broken.
    pub fn validate(&self) -> Result<(), String> {
        self.admin_key()?;
        self.vault().map_err(|error| error.to_string())?;
        self.egress().map(|_| ())
    }

    /// The admin key.
    ///
    /// # Errors
    /// When there is none: an API that anybody may call must not be started by leaving
    /// something out.
    pub fn admin_key(&self) -> Result<SecretString, String> {
        let key = self.admin_key.clone().filter(|key| !key.is_empty());
        key.ok_or_else(|| "admin-key (POSTHORN_ADMIN_KEY) is needed".to_owned())
    }

    /// Requests a second of a key that says nothing itself; `None` is no bound.
    #[must_use]
    pub fn key_rate_limit(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.key_rate_limit)
    }

    /// What endpoints' secrets are stored under.
    ///
    /// # Errors
    /// When there are no keys and plain storage was not asked for, or they cannot be read.
    pub fn vault(&self) -> Result<Vault, KeysError> {
        Vault::from_setting(self.secrets.setting())
    }

    /// What URL an endpoint may have.
    ///
    /// # Errors
    /// When a rule cannot be read; names the setting.
    pub fn egress(&self) -> Result<EgressPolicy, String> {
        EgressPolicy::read(&EgressRules {
            allow: &self.egress_allow,
            deny: &self.egress_deny,
            plain_http: self.egress_allow_http.into(),
            ports: &self.egress_ports,
        })
        .map_err(|error| error.to_string())
    }

    /// The largest payload, in bytes, as the server permits it.
    ///
    /// # Errors
    /// When the server's own limit leaves no room for what is added to it.
    pub fn max_payload(&self, server_limit: usize) -> Result<usize, String> {
        let most = server_limit.saturating_sub(HEADROOM);
        if self.max_payload > most {
            return Err(format!(
                "max-payload is {} bytes, and this NATS server takes at most {most} \
                 (its max_payload less 64 KiB)",
                self.max_payload
            ));
        }
        Ok(self.max_payload)
    }

    /// The largest body of a batch, in bytes: 1,000 payloads, at most 16 MiB.
    #[must_use]
    pub fn max_batch(&self) -> usize {
        self.max_payload.saturating_mul(MAX_ITEMS).min(MAX_BATCH)
    }
}

/// The whole configuration of the process.
#[derive(Clone, Debug, clap::Parser, Serialize)]
#[command(
    name = "posthorn-ingest",
    version,
    about = "Takes events in and manages endpoints"
)]
pub struct Config {
    /// How to reach NATS.
    #[command(flatten)]
    #[serde(flatten)]
    pub nats: NatsArgs,
    /// What is kept, and how long.
    #[command(flatten)]
    #[serde(flatten)]
    pub retention: RetentionArgs,
    /// The process.
    #[command(flatten)]
    #[serde(flatten)]
    pub process: ProcessArgs,
    /// This service.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
}

impl Config {
    /// This service's settings, with what follows from the others filled in.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            secrets: self.settings.secrets.beside(&self.nats),
            ..self.settings.clone()
        }
    }
}

impl ServiceConfig for Config {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.nats.validate()?;
        self.retention.validate()?;
        self.settings().validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const PLAIN: &str = "--secret-keys=none";

    fn parse(args: &[&str]) -> Result<Config, clap::Error> {
        Config::try_parse_from(std::iter::once("posthorn-ingest").chain(args.iter().copied()))
    }

    #[test]
    fn without_an_admin_key_nothing_starts() {
        assert!(parse(&["--admin-key=", PLAIN]).unwrap().validate().is_err());
        assert!(parse(&["--admin-key=k", PLAIN]).unwrap().validate().is_ok());
    }

    #[test]
    fn without_secret_keys_nothing_starts_and_none_of_it_is_printed() {
        let rule = |args: &[&str]| parse(args).unwrap().validate().unwrap_err();
        let away = "--nats-url=nats://127.0.0.1:4222,nats://nats.internal:4222";
        for missing in [
            &["--admin-key=k", away][..],
            &["--admin-key=k", "--secret-keys="],
        ] {
            assert!(rule(missing).contains("openssl rand -base64 32"));
        }
        let said = rule(&["--admin-key=k", "--secret-keys=k1:cHJpdmF0ZQ=="]);
        assert!(said.contains("secret-keys") && !said.contains("cHJpdmF0ZQ"));
        let good = "--secret-keys=k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let config = parse(&["--admin-key=k", good]).unwrap();
        assert_eq!(config.validate(), Ok(()));
        let printed = posthorn_runtime::config::to_toml(&config).unwrap();
        assert!(
            printed.contains("secret_keys = \"[redacted]\""),
            "{printed}"
        );
        assert!(!printed.contains("AAEC") && !format!("{config:?}").contains("AAEC"));
    }

    #[test]
    fn beside_a_nats_on_this_machine_secrets_may_be_stored_in_plain() {
        for url in [
            "nats://127.0.0.1:4222",
            "tls://u:p@localhost:1",
            "[::1]:4222",
            "127.0.0.1",
        ] {
            let config = parse(&["--admin-key=k", &format!("--nats-url={url}")]).unwrap();
            assert_eq!(config.validate(), Ok(()), "{url}");
            assert!(config.settings().vault().unwrap().sealing_key().is_none());
        }
        for url in [
            "nats://127.0.0.1@nats:4222",
            "nats://localhost.example.com",
            "nats://[2001:db8::1]",
        ] {
            let config = parse(&["--admin-key=k", &format!("--nats-url={url}")]).unwrap();
            assert!(config.validate().is_err(), "{url}");
        }
    }

    #[test]
    fn ssrf_04_a_network_that_cannot_be_read_is_not_ignored() {
        let config = parse(&["--admin-key=k", PLAIN, "--egress-allow=10.0.0.0/33"]).unwrap();
        assert!(config.validate().unwrap_err().starts_with("egress-allow"));
        let config = parse(&["--admin-key=k", PLAIN, "--egress-deny=x/8"]).unwrap();
        assert!(config.validate().unwrap_err().starts_with("egress-deny"));
    }

    #[test]
    fn js_15_the_payload_leaves_room_in_the_brokers_message() {
        let settings = parse(&["--max-payload=960KiB"]).unwrap().settings;
        assert!(settings.max_payload(1024 * 1024).is_ok());
        assert!(settings.max_payload(1024 * 1024 - 1).is_err());
        assert_eq!(settings.max_batch(), 16 * 1024 * 1024);
        assert_eq!(
            parse(&["--max-payload=1KiB"]).unwrap().settings.max_batch(),
            1_024_000
        );
        for bad in ["0", "1023", "17MiB", "x"] {
            assert!(parse(&["--max-payload", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn dlq_06_the_key_is_not_printed() {
        let config = parse(&["--admin-key=private"]).unwrap();
        let printed = posthorn_runtime::config::to_toml(&config).unwrap();
        assert!(!printed.contains("private") && !format!("{config:?}").contains("private"));
    }
}
