//! `posthorn events`: looking an event up.

use super::deliveries::{self, DeliveriesArgs};
use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};

/// What to do with events.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what happened to one: every endpoint, every attempt.
    Show(DeliveriesArgs),
}

/// Does what was asked for.
pub(crate) async fn run(args: &EventsArgs, output: Output) -> Result<(), Failure> {
    match &args.action {
        Action::Show(event) => deliveries::run(event, output).await,
    }
}
