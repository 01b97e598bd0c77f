//! `posthorn replays`: jobs that send again, be it dead letters or what an endpoint missed.

use super::listing::{ListArgs, Listing, Look, WatchArgs, watch};
use super::progress;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

const JOBS: Listing = Listing {
    columns: &[
        ("ID", "/id"),
        ("KIND", "/kind"),
        ("STATE", "/state"),
        ("MATCHED", "/matched"),
        ("REPLAYED", "/replayed"),
        ("SKIPPED", "/skipped"),
        ("PER SECOND", "/rate_per_second"),
        ("FILTER", "/filter"),
        ("CREATED", "/created_at"),
    ],
    id: "/id",
    empty: "no jobs; `posthorn dlq replay` and `posthorn endpoints recover` make them",
};

/// What to do with jobs.
#[derive(Debug, Args)]
pub(crate) struct ReplaysArgs {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them, newest first.
    List(ListArgs),
    /// Show one.
    Show {
        /// The job's id.
        id: String,
        /// Wait until it has ended; the exit code says whether it was completed.
        #[arg(long, conflicts_with = "watch")]
        follow: bool,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Stop one for a while: nothing more is sent within a second.
    Pause {
        /// The job's id.
        id: String,
    },
    /// Let one go on.
    Resume {
        /// The job's id.
        id: String,
    },
    /// End one; what is already sent again stays so.
    Cancel {
        /// The job's id.
        id: String,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: &ReplaysArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    match &args.action {
        Action::List(list) => {
            let call = Call::new(Service::Admin, Method::GET, &["v1", "replays"]);
            JOBS.show(&client, call, list, output).await
        }
        Action::Show {
            id, follow: true, ..
        } => progress::follow(&client, id, output).await,
        Action::Show { id, watch, .. } => show(&client, id, watch, output).await,
        Action::Pause { id } => act(&client, id, "pause", output).await,
        Action::Resume { id } => act(&client, id, "resume", output).await,
        Action::Cancel { id } => act(&client, id, "cancel", output).await,
    }
}

async fn show(client: &Client, id: &str, args: &WatchArgs, output: Output) -> Result<(), Failure> {
    watch(args, output, async || {
        let reply = client.call(progress::show(id)).await?;
        let is_last = progress::is_over(&reply.json());
        Ok(Look {
            is_last,
            ..Look::at(&reply, output, job)
        })
    })
    .await
}

async fn act(client: &Client, id: &str, verb: &str, output: Output) -> Result<(), Failure> {
    let call = Call::new(Service::Admin, Method::POST, &["v1", "replays", id, verb]);
    client.show(call, output, job).await
}

/// Its fields, and how far it is.
pub(super) fn job(job: &Value) -> String {
    format!("{}\n\n{}", view::record(job), progress::share(job))
}
