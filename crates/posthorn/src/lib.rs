//! Everything in one process, and the command line.
//!
//! Two audiences meet in this binary. Somebody who tries Posthorn wants one command that brings
//! the whole system up, with a broker, and says what to type next: `dev`. Somebody who runs it
//! wants its two HTTP interfaces under the fingers: every other command is a plain client of
//! them, with no way around what they permit. None of the commands but `dev`, `setup` and
//! `bench` knows NATS.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod bench;
mod cli;
mod client;
mod command;
mod dev;
mod devfile;
mod failure;
mod input;
mod instant;
mod listen;
mod manual;
mod output;
mod refusal;
mod setup;
mod timeline;
mod view;

use cli::{Cli, Command};
use failure::Failure;
use output::Output;
use posthorn_runtime::config::{self, ConfigError};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command that `args` ask for; the first is the program's name.
///
/// The exit code is 0; 1 when what was asked for failed; 64 for wrong usage or configuration;
/// 69 when a service or NATS cannot be reached; 70 for a failure inside.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match config::parse::<Cli>(args) {
        Ok(cli) => run(cli),
        Err(ConfigError::Usage(usage)) => {
            let asked_for = !usage.use_stderr();
            // Nobody is left to be told that the terminal is gone.
            let _ = usage.print();
            if asked_for {
                return ExitCode::SUCCESS;
            }
            Failure::USAGE.into()
        }
        Err(error) => output::last_words(&Failure::usage(failure::chain(&error))),
    }
}

fn run(cli: Cli) -> ExitCode {
    let output = cli.output;
    match cli.command {
        Command::Dev(config) => dev::main(*config),
        Command::Setup(config) => setup::main(*config),
        Command::Bench(args) => finish(bench::main(&args, output)),
        Command::BenchService(args) => bench::service(args),
        Command::Completions(args) => finish(manual::completions(&args)),
        Command::Man(args) => finish(manual::man(&args, output)),
        other => finish(client_command(other, output)),
    }
}

fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => output::last_words(&failure),
    }
}

/// A command that waits for one request at a time needs no second thread.
fn client_command(command: Command, output: Output) -> Result<(), Failure> {
    posthorn_runtime::tls::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal("the runtime could not be started", &error))?;
    runtime.block_on(async move {
        match command {
            Command::Send(args) => command::send::run(&args, output).await,
            Command::Endpoints(args) => command::endpoints::run(&args, output).await,
            Command::Dlq(args) => command::dlq::run(&args, output).await,
            Command::Replays(args) => command::replays::run(&args, output).await,
            Command::Breakers(args) => command::breakers::run(&args, output).await,
            Command::Keys(args) => command::keys::run(&args, output).await,
            Command::Lanes(args) => command::lanes::run(&args, output).await,
            Command::Secrets(args) => command::secrets::run(&args, output).await,
            Command::Overview(args) => command::overview::run(&args, output).await,
            Command::Events(args) => command::events::run(&args, output).await,
            Command::Audit(args) => command::audit::run(&args, output).await,
            Command::Deliveries(args) => command::deliveries::run(&args, output).await,
            Command::Tail(args) => command::tail::run(&args, output).await,
            Command::Listen(args) => listen::run(*args, output).await,
            Command::Dev(_)
            | Command::Setup(_)
            | Command::Bench(_)
            | Command::BenchService(_)
            | Command::Completions(_)
            | Command::Man(_) => Ok(()),
        }
    })
}
