//! The life of a process: read the configuration, start, run, drain, flush, exit with a code.
//!
//! The order matters and is the same for every binary: the cryptography provider before any TLS,
//! telemetry before anything that may fail at run time, the flush after the runtime has ended,
//! and every wait after a signal bounded, so that the grace period is never used up by one step.

use std::ffi::OsString;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Parser;
use serde::Serialize;

use crate::config::{self, ConfigError, LogFormat, ProcessArgs};
use crate::error::{ExitError, ExitKind};
use crate::shutdown::Shutdown;
use crate::{metrics, telemetry, tls};

mod output;

/// How long the last spans may take to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a service may take beyond its drain timeout before the process ends without it, and
/// how long the runtime then waits for blocking work.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// A binary's whole configuration: a `clap::Parser` that flattens [`ProcessArgs`] and whatever
/// other groups it needs. Every unknown flag and file key is refused.
pub trait ServiceConfig: Parser + Serialize {
    /// The shared settings of the process.
    fn process(&self) -> &ProcessArgs;

    /// Checks what clap cannot: rules between settings, the groups' own `validate`.
    ///
    /// # Errors
    /// With the rule that is broken, never with a secret.
    fn validate(&self) -> Result<(), String>;
}

/// Runs a service as the whole process, configured by the process's arguments and environment.
///
/// `run` gets the configuration and the shutdown; it returns when its work has ended. What it
/// spawned on the shutdown is then drained within the drain timeout, counted from the signal.
///
/// The exit code is 0, or 64, 69 or 70 as [`ExitKind`] says. The error is printed once, on stderr.
pub fn main_of<C, F, Fut>(name: &'static str, run: F) -> ExitCode
where
    C: ServiceConfig,
    F: FnOnce(C, Shutdown) -> Fut,
    Fut: Future<Output = Result<(), ExitError>>,
{
    main_with(name, std::env::args_os(), run)
}

/// [`main_of`] with the arguments given; the first is the program's name.
pub fn main_with<C, F, Fut>(
    name: &'static str,
    args: impl IntoIterator<Item = OsString>,
    run: F,
) -> ExitCode
where
    C: ServiceConfig,
    F: FnOnce(C, Shutdown) -> Fut,
    Fut: Future<Output = Result<(), ExitError>>,
{
    let config = match config::parse::<C>(args) {
        Ok(config) => config,
        Err(error) if error.is_information() => return output::information(&error),
        Err(error) => return refuse(name, error),
    };
    run_config(name, config, run)
}

/// The part of [`main_of`] that comes after parsing, for a binary with its own command line.
pub fn run_config<C, F, Fut>(name: &'static str, config: C, run: F) -> ExitCode
where
    C: ServiceConfig,
    F: FnOnce(C, Shutdown) -> Fut,
    Fut: Future<Output = Result<(), ExitError>>,
{
    let process = config.process().clone();
    let valid = process.validate().and_then(|()| config.validate());
    if let Err(rule) = valid {
        return output::failure(name, process.log_format, &ExitError::config(anyhow!(rule)));
    }
    if process.print_config {
        return output::effective(name, &config);
    }
    if process.check_config {
        return output::line("configuration is valid");
    }
    tls::install_crypto_provider();
    let guard = match telemetry::init(name, &process.log, process.log_format) {
        Ok(guard) => guard,
        Err(error) => return output::failure(name, process.log_format, &ExitError::config(error)),
    };
    metrics::install();
    let result = block_on(process.drain_timeout, |shutdown| run(config, shutdown));
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failure(name, process.log_format, &error),
    };
    guard.flush(FLUSH_TIMEOUT);
    code
}

fn refuse(name: &'static str, error: ConfigError) -> ExitCode {
    match error {
        // clap's own text has its own form, with usage and a suggestion.
        ConfigError::Usage(usage) => {
            let _ = usage.print();
            ExitKind::Config.into()
        }
        other => output::failure(name, LogFormat::Text, &ExitError::config(other)),
    }
}

fn block_on<F, Fut>(drain_timeout: Duration, run: F) -> Result<(), ExitError>
where
    F: FnOnce(Shutdown) -> Fut,
    Fut: Future<Output = Result<(), ExitError>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(supervise(drain_timeout, run))
    }));
    runtime.shutdown_timeout(LAST_GRACE);
    // The panic's own message is already on stderr, by the panic hook.
    result.unwrap_or_else(|_| Err(ExitError::internal(anyhow!("the service panicked"))))
}

async fn supervise<F, Fut>(drain_timeout: Duration, run: F) -> Result<(), ExitError>
where
    F: FnOnce(Shutdown) -> Fut,
    Fut: Future<Output = Result<(), ExitError>>,
{
    let shutdown = Shutdown::on_signals().context("listening for signals")?;
    metrics::spawn_upkeep(shutdown.clone());
    let result = tokio::select! {
        result = run(shutdown.clone()) => result,
        () = overdue(&shutdown, drain_timeout + LAST_GRACE) => {
            Err(ExitError::internal(anyhow!("did not stop within the drain timeout")))
        }
    };
    shutdown.trigger();
    let drained = shutdown.drain(drain_timeout).await;
    result?;
    if !drained {
        let left = shutdown.in_flight();
        return Err(ExitError::internal(anyhow!(
            "ended with work in flight, tasks left: {left}"
        )));
    }
    Ok(())
}

/// Ends when a service that was told to stop has not done so in time.
async fn overdue(shutdown: &Shutdown, after: Duration) {
    shutdown.triggered().await;
    tokio::select! {
        () = shutdown.forced() => {}
        () = tokio::time::sleep(after) => {}
    }
}
