//! `posthorn setup`: makes the streams, buckets and durables of an installation, and ends.
//!
//! Who may make a stream may have it copy any other, so where services run with least privilege
//! none of them may. This is run once with the user that may, before the services start, and
//! again when a new version or other retention asks for it.

use posthorn_runtime::config::{NatsArgs, ProcessArgs, RetentionArgs};
use posthorn_runtime::{ExitError, ServiceConfig, Shutdown, process};
use serde::Serialize;
use std::process::ExitCode;

/// The configuration of `posthorn setup`.
#[derive(Clone, Debug, clap::Parser, Serialize)]
pub(crate) struct SetupConfig {
    #[command(flatten)]
    #[serde(flatten)]
    nats: NatsArgs,

    #[command(flatten)]
    #[serde(flatten)]
    retention: RetentionArgs,

    #[command(flatten)]
    #[serde(flatten)]
    process: ProcessArgs,
}

impl ServiceConfig for SetupConfig {
    fn process(&self) -> &ProcessArgs {
        &self.process
    }

    fn validate(&self) -> Result<(), String> {
        self.nats.validate()?;
        self.retention.validate()
    }
}

/// Runs `posthorn setup` as the whole process.
pub(crate) fn main(config: SetupConfig) -> ExitCode {
    process::run_config("setup", config, run)
}

async fn run(config: SetupConfig, shutdown: Shutdown) -> Result<(), ExitError> {
    tokio::select! {
        connected = posthorn_wiring::connect("setup", &config.nats, &config.retention) => {
            drop(connected?);
            tracing::info!("the streams, buckets and durables are there");
            Ok(())
        }
        () = shutdown.triggered() => Ok(()),
    }
}
