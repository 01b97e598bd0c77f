//! How to reach NATS, and what this installation may do there.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, builder::BoolishValueParser};
use serde::Serialize;

use super::values::{
    as_duration_text, as_redacted_urls, duration_between, parse_prefix, parse_replicas,
    redact_userinfo,
};

const DEFAULT_URL: &str = "nats://127.0.0.1:4222";
const DEFAULT_PREFIX: &str = "posthorn";
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_hours(1);

/// The settings of every process that speaks to NATS.
#[derive(Clone, PartialEq, Eq, clap::Args, Serialize)]
#[command(next_help_heading = "NATS")]
pub struct NatsArgs {
    /// NATS servers, comma separated.
    #[arg(long, env = "POSTHORN_NATS_URL", default_value = DEFAULT_URL, value_delimiter = ',', value_name = "URL")]
    #[serde(serialize_with = "as_redacted_urls")]
    pub nats_url: Vec<String>,

    /// A credentials file, as `nsc` writes it.
    #[arg(long, env = "POSTHORN_NATS_CREDS", value_name = "FILE")]
    pub nats_creds: Option<PathBuf>,

    /// A file that holds an nkey seed.
    #[arg(long, env = "POSTHORN_NATS_NKEY", value_name = "FILE")]
    pub nats_nkey: Option<PathBuf>,

    /// Certificates (PEM) of the authorities to trust instead of the system's.
    #[arg(long, env = "POSTHORN_NATS_TLS_CA", value_name = "FILE")]
    pub nats_tls_ca: Option<PathBuf>,

    /// The client certificate (PEM).
    #[arg(long, env = "POSTHORN_NATS_TLS_CERT", value_name = "FILE")]
    pub nats_tls_cert: Option<PathBuf>,

    /// The client certificate's key (PEM).
    #[arg(long, env = "POSTHORN_NATS_TLS_KEY", value_name = "FILE")]
    pub nats_tls_key: Option<PathBuf>,

    /// How long to wait for NATS at start before giving up with exit code 69.
    #[arg(long, env = "POSTHORN_CONNECT_TIMEOUT", default_value = "30s", value_name = "DURATION",
        value_parser = duration_between(Duration::from_millis(1), MAX_CONNECT_TIMEOUT))]
    #[serde(serialize_with = "as_duration_text")]
    pub connect_timeout: Duration,

    /// First token of every subject, stream and bucket: several installations may share one NATS.
    #[arg(long, env = "POSTHORN_PREFIX", default_value = DEFAULT_PREFIX, value_parser = parse_prefix)]
    pub prefix: String,

    /// JetStream replicas: 1, 3 or 5.
    #[arg(long, env = "POSTHORN_REPLICAS", default_value = "1", value_parser = parse_replicas)]
    pub replicas: usize,

    /// Create and update streams and buckets; with `false` only check them and report drift.
    #[arg(long, env = "POSTHORN_MANAGE_STREAMS", default_value = "true", value_name = "BOOL",
        action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub manage_streams: bool,
}

impl NatsArgs {
    /// Whether all servers are on this machine, by their addresses.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        !self.nats_url.is_empty() && self.nats_url.iter().all(|url| is_loopback(url))
    }

    /// Checks what concerns more than one setting, or a value that must not be shown.
    ///
    /// # Errors
    /// With the rule that is broken; never with a URL, which may hold a password.
    pub fn validate(&self) -> Result<(), String> {
        if self.nats_url.iter().any(|url| url.trim().is_empty()) {
            return Err("nats-url must name at least one server, and no empty one".to_owned());
        }
        if self.nats_tls_cert.is_some() != self.nats_tls_key.is_some() {
            return Err("nats-tls-cert and nats-tls-key go together".to_owned());
        }
        if self.nats_creds.is_some() && self.nats_nkey.is_some() {
            return Err("nats-creds and nats-nkey exclude each other".to_owned());
        }
        Ok(())
    }
}

fn is_loopback(url: &str) -> bool {
    let url = url.trim();
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = |address: IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_local)
}

impl Default for NatsArgs {
    /// The documented defaults, whatever the environment says.
    fn default() -> Self {
        Self {
            nats_url: vec![DEFAULT_URL.to_owned()],
            nats_creds: None,
            nats_nkey: None,
            nats_tls_ca: None,
            nats_tls_cert: None,
            nats_tls_key: None,
            connect_timeout: Duration::from_secs(30),
            prefix: DEFAULT_PREFIX.to_owned(),
            replicas: 1,
            manage_streams: true,
        }
    }
}

impl fmt::Debug for NatsArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<_> = self.nats_url.iter().map(|u| redact_userinfo(u)).collect();
        f.debug_struct("NatsArgs")
            .field("nats_url", &urls)
            .field("nats_creds", &self.nats_creds)
            .field("nats_nkey", &self.nats_nkey)
            .field("nats_tls_ca", &self.nats_tls_ca)
            .field("nats_tls_cert", &self.nats_tls_cert)
            .field("nats_tls_key", &self.nats_tls_key)
            .field("connect_timeout", &self.connect_timeout)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .field("manage_streams", &self.manage_streams)
            .finish()
    }
}
