//! What the service is told.

use crate::page::IngestUrl;
use clap::{Args, Parser};
use posthorn_runtime::config::{NatsArgs, ProcessArgs, RetentionArgs};
use posthorn_runtime::{SecretString, ServiceConfig};
use serde::Serialize;
use std::net::SocketAddr;

/// The service's own settings.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Operating")]
pub struct Settings {
    /// Where the operator's API and page are served.
    #[arg(
        long,
        env = "POSTHORN_LISTEN",
        default_value = "127.0.0.1:8081",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,

    /// The key that may do everything. Without one the service does not start.
    #[arg(long, env = "POSTHORN_ADMIN_KEY", value_name = "KEY")]
    pub admin_key: Option<SecretString>,

    /// Requests a second of one API key to one copy of this service, where the key says nothing
    /// else; 0 is no bound. The admin key has none.
    #[arg(
        long,
        env = "POSTHORN_KEY_RATE_LIMIT",
        default_value_t = 1_000,
        value_name = "PER_SECOND"
    )]
    pub key_rate_limit: u32,

    /// Where ingest answers inside the network, as `http://host:port`: the page's calls about
    /// endpoints are handed on to it, with the caller's key. Without it they are not offered.
    #[arg(long, env = "POSTHORN_INGEST_URL", value_name = "URL")]
    pub ingest_url: Option<IngestUrl>,
}

impl Settings {
    /// Checks what clap cannot.
    ///
    /// # Errors
    /// When there is no admin key: an open operator's API is nobody's intention.
    pub fn validate(&self) -> Result<(), String> {
        match &self.admin_key {
            Some(key) if !key.is_empty() => Ok(()),
            _ => Err("admin-key is required (POSTHORN_ADMIN_KEY)".to_owned()),
        }
    }
}

/// The whole configuration of `posthorn-dlq-admin`.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(
    name = "posthorn-dlq-admin",
    version,
    about = "Operates dead letters and breakers"
)]
pub struct Config {
    /// The broker.
    #[command(flatten)]
    #[serde(flatten)]
    pub nats: NatsArgs,

    /// How long things are kept.
    #[command(flatten)]
    #[serde(flatten)]
    pub retention: RetentionArgs,

    /// The process.
    #[command(flatten)]
    #[serde(flatten)]
    pub process: ProcessArgs,

    /// The service's own.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
}

impl ServiceConfig for Config {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.retention.validate()?;
        self.settings.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(key: Option<&str>) -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin_key: key.map(|key| key.parse().unwrap()),
            key_rate_limit: 0,
            ingest_url: None,
        }
    }

    #[test]
    fn a_service_without_an_admin_key_does_not_start() {
        assert!(settings(None).validate().is_err());
        assert!(settings(Some("")).validate().is_err());
        assert!(settings(Some("k")).validate().is_ok());
    }

    #[test]
    fn dlq_06_the_admin_key_is_never_printed() {
        let settings = settings(Some("do-not-print"));
        assert!(!format!("{settings:?}").contains("do-not-print"));
        let json = serde_json::to_string(&settings).unwrap();
        assert!(!json.contains("do-not-print"));
    }
}
