//! The dispatcher's settings.

use clap::ArgAction;
use clap::Parser;
use clap::builder::BoolishValueParser;
use posthorn_egress::{EgressPolicy, EgressRules, PortList};
use posthorn_runtime::ServiceConfig;
use posthorn_runtime::config::{
    NatsArgs, ProcessArgs, RetentionArgs, SecretsArgs, as_duration_text, as_redacted_url,
    duration_between,
};
use posthorn_vault::{KeysError, Vault};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is the dispatcher's own.
#[derive(Clone, clap::Args, Serialize)]
#[command(next_help_heading = "Dispatcher")]
pub struct Settings {
    /// HTTP requests in flight at the same time.
    #[arg(long, env = "POSTHORN_DISPATCH_CONCURRENCY", default_value_t = 256, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub dispatch_concurrency: u32,

    /// HTTP requests in flight at the same time for one tenant; three quarters of all where it
    /// is not set. What is over it waits in the endpoint's lane.
    #[arg(long, env = "POSTHORN_TENANT_CONCURRENCY", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub tenant_concurrency: Option<u32>,

    /// Networks (10.1.0.0/16) and hosts (hooks.example.com, *.example.com) that deliveries may
    /// reach although they are private, comma separated.
    #[arg(long, env = "POSTHORN_EGRESS_ALLOW", value_name = "LIST")]
    pub egress_allow: Option<String>,

    /// Networks and hosts that deliveries may never reach, comma separated; wins over what is
    /// allowed.
    #[arg(long, env = "POSTHORN_EGRESS_DENY", value_name = "LIST")]
    pub egress_deny: Option<String>,

    /// Deliver to http URLs too, without TLS; where it is not set, only to those of this machine's
    /// loopback addresses, if they are allowed, and in `posthorn dev` to all.
    #[arg(long, env = "POSTHORN_EGRESS_ALLOW_HTTP", value_name = "BOOL",
        action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub egress_allow_http: Option<bool>,

    /// Ports that deliveries may go to, and ranges of them, comma separated; 80, 443 and those
    /// from 1024 on where it is not set, and in `posthorn dev` any.
    #[arg(long, env = "POSTHORN_EGRESS_PORTS", value_name = "PORTS")]
    pub egress_ports: Option<String>,

    /// An HTTP proxy that every delivery goes through; proxy variables of the environment are
    /// ignored. Names are still resolved and checked here first.
    #[arg(long, env = "POSTHORN_EGRESS_PROXY", value_name = "URL")]
    #[serde(serialize_with = "as_redacted_url")]
    pub egress_proxy: Option<String>,

    /// A PEM file of root certificates that are believed beside the system's.
    #[arg(long, env = "POSTHORN_EGRESS_CA", value_name = "FILE")]
    pub egress_ca: Option<PathBuf>,

    /// DNS servers to ask instead of the system's, comma separated.
    #[arg(
        long,
        env = "POSTHORN_DNS_SERVERS",
        value_name = "ADDRESS:PORT",
        value_delimiter = ','
    )]
    pub dns_servers: Vec<SocketAddr>,

    /// An endpoint whose breaker has been open for so long is disabled; its events are kept.
    #[arg(long, env = "POSTHORN_BREAKER_DISABLE_AFTER", default_value = "5d", value_name = "DURATION",
        value_parser = duration_between(Duration::from_secs(1), Duration::from_secs(365 * 86_400)))]
    #[serde(serialize_with = "as_duration_text")]
    pub breaker_disable_after: Duration,

    /// What opens the endpoints' secrets.
    #[command(flatten)]
    #[serde(flatten)]
    pub secrets: SecretsArgs,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            dispatch_concurrency: 256,
            tenant_concurrency: None,
            egress_allow: None,
            egress_deny: None,
            egress_allow_http: None,
            egress_ports: None,
            egress_proxy: None,
            egress_ca: None,
            dns_servers: Vec::new(),
            breaker_disable_after: Duration::from_secs(5 * 86_400),
            secrets: SecretsArgs::default(),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("dispatch_concurrency", &self.dispatch_concurrency)
            .field("tenant_concurrency", &self.tenant_concurrency)
            .field("egress_allow", &self.egress_allow)
            .field("egress_deny", &self.egress_deny)
            .field("egress_allow_http", &self.egress_allow_http)
            .field("egress_ports", &self.egress_ports)
            .field("egress_ca", &self.egress_ca)
            .field("dns_servers", &self.dns_servers)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// What may be called.
    ///
    /// # Errors
    /// When a rule cannot be read; names the setting.
    pub fn egress(&self) -> Result<EgressPolicy, String> {
        EgressPolicy::read(&EgressRules {
            allow: self.egress_allow.as_deref().unwrap_or_default(),
            deny: self.egress_deny.as_deref().unwrap_or_default(),
            plain_http: self.egress_allow_http.into(),
            ports: self.egress_ports.as_deref().unwrap_or(PortList::DEFAULT),
        })
        .map_err(|error| error.to_string())
    }

    /// What opens the endpoints' secrets.
    ///
    /// # Errors
    /// When there are no keys and plain storage was not asked for, or they cannot be read.
    pub fn vault(&self) -> Result<Vault, KeysError> {
        Vault::from_setting(self.secrets.setting())
    }
}

/// The configuration of `posthorn-dispatcher`.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(
    name = "posthorn-dispatcher",
    version,
    about = "Makes the HTTP attempts"
)]
pub struct Config {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) nats: NatsArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) retention: RetentionArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) process: ProcessArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) settings: Settings,
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
        crate::client::check_proxy(self.settings.egress_proxy.as_deref())?;
        crate::trust::check(self.settings.egress_ca.as_deref())?;
        self.settings().vault().map_err(|error| error.to_string())?;
        self.settings.egress().map(drop)
    }
}
