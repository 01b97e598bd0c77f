//! What `posthorn dev` is told: the settings of all four services, with defaults for one
//! machine.

use super::flags::Ungrouped;
use crate::devfile::DEFAULT_FOLDER;
use clap::Parser;
use posthorn_runtime::config::{
    NatsArgs, ProcessArgs, RetentionArgs, SecretsArgs, as_redacted_urls, duration_between,
    parse_prefix, redact_userinfo,
};
use posthorn_runtime::{SecretString, ServiceConfig};
use serde::Serialize;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What deliveries may reach when nothing is said: receivers on this machine.
const LOOPBACK: &str = "127.0.0.0/8,::1/128";
const ANY_PORT: &str = "1-65535";
const OPS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9080);

/// The configuration of `posthorn dev`.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(about = "Run everything in one process, on an own nats-server, for development")]
pub(crate) struct DevConfig {
    /// Where everything is kept between starts.
    #[arg(long, env = "POSTHORN_DATA_DIR", default_value = DEFAULT_FOLDER, value_name = "FOLDER")]
    pub data_dir: PathBuf,

    /// Where the public API is served; port 0 picks one.
    #[arg(
        long,
        env = "POSTHORN_INGEST_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS"
    )]
    pub ingest_listen: SocketAddr,

    /// Where the operator's API is served; port 0 picks one.
    #[arg(
        long,
        env = "POSTHORN_ADMIN_LISTEN",
        default_value = "127.0.0.1:8081",
        value_name = "ADDRESS"
    )]
    pub admin_listen: SocketAddr,

    /// The key that may do everything; without it one is made and kept in the data folder.
    #[arg(long, env = "POSTHORN_ADMIN_KEY", value_name = "KEY")]
    pub admin_key: Option<SecretString>,

    /// The largest payload.
    #[arg(
        long,
        env = "POSTHORN_MAX_PAYLOAD",
        default_value = "256KiB",
        value_name = "BYTES"
    )]
    pub max_payload: String,

    /// Requests a second of one API key to one of the two APIs, where the key says nothing else;
    /// 0 is no bound. The admin key has none.
    #[arg(
        long,
        env = "POSTHORN_KEY_RATE_LIMIT",
        default_value_t = 1_000,
        value_name = "PER_SECOND"
    )]
    pub key_rate_limit: u32,

    #[command(flatten)]
    #[serde(flatten)]
    pub nats: DevNats,

    #[command(flatten)]
    #[serde(flatten)]
    pub retention: RetentionArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub process: ProcessArgs,

    #[command(flatten)]
    #[serde(flatten)]
    pub scheduler: Ungrouped<posthorn_scheduler::Settings>,

    #[command(flatten)]
    #[serde(flatten)]
    pub dispatcher: Ungrouped<posthorn_dispatcher::Settings>,
}

/// Which NATS: an own one, or one that is there.
#[derive(Clone, PartialEq, Eq, clap::Args, Serialize)]
#[command(next_help_heading = "NATS")]
pub(crate) struct DevNats {
    /// Servers to use instead of an own one, comma separated.
    #[arg(
        long,
        env = "POSTHORN_NATS_URL",
        value_delimiter = ',',
        value_name = "URL"
    )]
    #[serde(serialize_with = "as_redacted_urls")]
    pub nats_url: Vec<String>,

    /// The port of the own nats-server; 0 picks one. Without it 4222, where it is free, so that
    /// `nats pub` needs no address.
    #[arg(long, env = "POSTHORN_NATS_PORT", value_name = "PORT")]
    pub nats_port: Option<u16>,

    /// A credentials file for --nats-url, as `nsc` writes it.
    #[arg(long, env = "POSTHORN_NATS_CREDS", value_name = "FILE")]
    nats_creds: Option<PathBuf>,

    /// A file that holds an nkey seed, for --nats-url.
    #[arg(long, env = "POSTHORN_NATS_NKEY", value_name = "FILE")]
    nats_nkey: Option<PathBuf>,

    /// Certificates (PEM) of the authorities to trust instead of the system's.
    #[arg(long, env = "POSTHORN_NATS_TLS_CA", value_name = "FILE")]
    nats_tls_ca: Option<PathBuf>,

    /// The client certificate (PEM).
    #[arg(long, env = "POSTHORN_NATS_TLS_CERT", value_name = "FILE")]
    nats_tls_cert: Option<PathBuf>,

    /// The client certificate's key (PEM).
    #[arg(long, env = "POSTHORN_NATS_TLS_KEY", value_name = "FILE")]
    nats_tls_key: Option<PathBuf>,

    /// How long to wait for NATS at start before giving up with exit code 69.
    #[arg(long, env = "POSTHORN_CONNECT_TIMEOUT", default_value = "30s", value_name = "DURATION",
        value_parser = duration_between(Duration::from_millis(1), Duration::from_hours(1)))]
    #[serde(skip)]
    connect_timeout: Duration,

    /// First token of every subject, stream and bucket.
    #[arg(long, env = "POSTHORN_PREFIX", default_value = "posthorn", value_parser = parse_prefix)]
    pub prefix: String,
}

/// The flags of the public API, to be read by its own rules.
#[derive(Parser)]
struct IngestFlags {
    #[command(flatten)]
    settings: posthorn_ingest::Settings,
}

impl DevNats {
    /// The settings for these servers.
    pub fn settings(&self, urls: &[String]) -> NatsArgs {
        NatsArgs {
            nats_url: urls.to_vec(),
            nats_creds: self.nats_creds.clone(),
            nats_nkey: self.nats_nkey.clone(),
            nats_tls_ca: self.nats_tls_ca.clone(),
            nats_tls_cert: self.nats_tls_cert.clone(),
            nats_tls_key: self.nats_tls_key.clone(),
            connect_timeout: self.connect_timeout,
            prefix: self.prefix.clone(),
            ..NatsArgs::default()
        }
    }
}

impl fmt::Debug for DevNats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.nats_url.iter().map(|u| redact_userinfo(u)).collect();
        f.debug_struct("DevNats")
            .field("nats_url", &urls)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl DevConfig {
    /// Where probes and metrics are served.
    pub fn ops_listen(&self) -> SocketAddr {
        self.process.ops_listen.unwrap_or(OPS)
    }

    /// The networks that may be reached although they are private. What is set, also to
    /// nothing, replaces the loopback.
    pub fn egress_allow(&self) -> String {
        let said = self.dispatcher.0.egress_allow.clone();
        said.unwrap_or_else(|| LOOPBACK.to_owned())
    }

    /// The keys that endpoints' secrets are stored under, where they are given; else one is made
    /// and kept in the data folder.
    pub fn secrets(&self) -> Option<SecretsArgs> {
        let given = &self.dispatcher.0.secrets;
        given.is_set().then(|| given.clone())
    }

    /// Whether `http` may be called: a receiver under development has no certificate.
    pub fn egress_allow_http(&self) -> bool {
        self.dispatcher.0.egress_allow_http.unwrap_or(true)
    }

    /// The ports that may be called: any, where nothing is said. What listens below 1024 on a
    /// machine for development is its owner's, and a port where nothing listens is a receiver
    /// that is down.
    pub fn egress_ports(&self) -> String {
        let said = self.dispatcher.0.egress_ports.clone();
        said.unwrap_or_else(|| ANY_PORT.to_owned())
    }

    /// The settings of the dispatcher.
    pub fn dispatcher(&self, secrets: &SecretsArgs) -> posthorn_dispatcher::Settings {
        posthorn_dispatcher::Settings {
            egress_allow: Some(self.egress_allow()),
            egress_allow_http: Some(self.egress_allow_http()),
            egress_ports: Some(self.egress_ports()),
            secrets: secrets.clone(),
            ..self.dispatcher.0.clone()
        }
    }

    /// The settings of the public API. They are read by its own rules, so that a rule is never
    /// another one here.
    ///
    /// # Errors
    /// With the rule that is broken.
    pub fn ingest(
        &self,
        key: &SecretString,
        secrets: &SecretsArgs,
    ) -> Result<posthorn_ingest::Settings, String> {
        let deny = self.dispatcher.0.egress_deny.as_deref().unwrap_or_default();
        // Every flag is given, so that nothing is taken from the environment of another service.
        let args = [
            "ingest".to_owned(),
            format!("--listen={}", self.ingest_listen),
            "--admin-key=set-below".to_owned(),
            format!("--max-payload={}", self.max_payload),
            format!("--egress-allow={}", self.egress_allow()),
            format!("--egress-deny={deny}"),
            format!("--egress-allow-http={}", self.egress_allow_http()),
            format!("--egress-ports={}", self.egress_ports()),
            format!("--key-rate-limit={}", self.key_rate_limit),
        ];
        let parsed = IngestFlags::try_parse_from(args)
            .map_err(|_| "max-payload must be a size from 1KiB to 16MiB".to_owned())?;
        let settings = posthorn_ingest::Settings {
            admin_key: Some(key.clone()),
            secrets: secrets.clone(),
            ..parsed.settings
        };
        settings.validate()?;
        Ok(settings)
    }

    /// The settings of the operator's API and page; `ingest` is where the public API answers.
    pub fn dlq_admin(&self, key: &SecretString, ingest: &str) -> posthorn_dlq_admin::Settings {
        posthorn_dlq_admin::Settings {
            listen: self.admin_listen,
            admin_key: Some(key.clone()),
            key_rate_limit: self.key_rate_limit,
            ingest_url: ingest.parse().ok(),
        }
    }
}

impl ServiceConfig for DevConfig {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.nats.settings(&self.nats.nats_url).validate()?;
        self.retention.validate()?;
        let any_key = SecretString::from("x".to_owned());
        let one_is_made = || SecretsArgs::plain();
        let secrets = self.secrets().unwrap_or_else(one_is_made);
        self.dispatcher(&secrets).egress().map(drop)?;
        self.ingest(&any_key, &secrets).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> DevConfig {
        DevConfig::try_parse_from([&["dev"], args].concat()).unwrap()
    }

    fn plain() -> SecretsArgs {
        SecretsArgs::plain()
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let config = parse(&[]);
        assert_eq!(config.ingest_listen.to_string(), "127.0.0.1:8080");
        assert_eq!(config.admin_listen.to_string(), "127.0.0.1:8081");
        assert_eq!(config.ops_listen().to_string(), "127.0.0.1:9080");
        assert!(config.nats.nats_url.is_empty());
        assert_eq!(config.validate(), Ok(()));
    }

    #[test]
    fn ssrf_04_loopback_is_allowed_only_where_nothing_is_said() {
        let loopback: std::net::IpAddr = [127, 0, 0, 1].into();
        let allows = |config: &DevConfig| {
            let policy = config.dispatcher(&plain()).egress().unwrap();
            policy.check_address(loopback).is_ok()
        };
        assert!(allows(&parse(&[])));
        assert!(!allows(&parse(&["--egress-allow="])));
        assert!(!allows(&parse(&["--egress-allow=10.0.0.0/8"])));
    }

    #[test]
    fn any_port_may_be_called_where_nothing_is_said() {
        let ports = |config: &DevConfig| config.dispatcher(&plain()).egress_ports;
        assert_eq!(ports(&parse(&[])).as_deref(), Some("1-65535"));
        let said = parse(&["--egress-ports=80,443"]);
        assert_eq!(ports(&said).as_deref(), Some("80,443"));
    }

    #[test]
    fn both_services_that_judge_addresses_have_the_same_rule() {
        let key = SecretString::from("k".to_owned());
        for args in [
            &[][..],
            &["--egress-allow="],
            &["--egress-allow=10.0.0.0/8", "--egress-deny=10.1.0.0/16"],
            &["--egress-allow-http=false", "--egress-ports=443"],
            &[
                "--egress-allow=*.example.com",
                "--egress-deny=bad.example.com",
            ],
        ] {
            let config = parse(args);
            let ingest = config.ingest(&key, &plain()).unwrap().egress().unwrap();
            let dispatcher = config.dispatcher(&plain()).egress().unwrap();
            assert_eq!(format!("{ingest:?}"), format!("{dispatcher:?}"));
        }
    }

    #[test]
    fn a_wrong_setting_of_any_service_is_refused_at_the_start() {
        for args in [
            ["--egress-allow=x/8"],
            ["--egress-ports=0"],
            ["--max-payload=1"],
            ["--attempt-retention=1d"],
            ["--secret-keys=k1"],
        ] {
            assert!(parse(&args).validate().is_err(), "{args:?}");
        }
    }

    #[test]
    fn dlq_06_neither_key_nor_password_is_printed() {
        let config = parse(&[
            "--admin-key=s3cret",
            "--nats-url=nats://u:s3cret@h",
            "--secret-keys=s3cret",
        ]);
        assert!(!format!("{config:?}").contains("s3cret"));
        let printed = posthorn_runtime::config::to_toml(&config).unwrap();
        assert!(!printed.contains("s3cret"), "{printed}");
    }
}
