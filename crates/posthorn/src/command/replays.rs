//! `posthorn replays`: replay jobs.

use super::progress;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, Column};
use clap::{Args, Subcommand};
use reqwest::Method;

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("MATCHED", "/matched"),
    ("REPLAYED", "/replayed"),
    ("SKIPPED", "/skipped"),
    ("PER SECOND", "/rate_per_second"),
    ("FILTER", "/filter"),
    ("CREATED", "/created_at"),
];

/// What to do with replay jobs.
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
    List {
        /// How many at most.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show one.
    Show {
        /// The job's id.
        id: String,
        /// Wait until it has ended.
        #[arg(long)]
        follow: bool,
    },
    /// Stop one for a while.
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
        Action::List { limit, cursor } => {
            let call = Call::new(Service::Admin, Method::GET, &["v1", "replays"])
                .query("limit", limit.map(|n| n.to_string()))
                .query("cursor", cursor.clone());
            let reply = client.call(call).await?;
            reply.show(output, |list| view::items(list, COLUMNS))?;
            if output == Output::Table
                && let Some(more) = view::more(&reply.json())
            {
                output::remark(&more);
            }
            Ok(())
        }
        Action::Show { id, follow: true } => progress::follow(&client, id, output).await,
        Action::Show { id, follow: false } => {
            let call = Call::new(Service::Admin, Method::GET, &["v1", "replays", id]);
            client.show(call, output, view::record).await
        }
        Action::Pause { id } => act(&client, id, "pause", output).await,
        Action::Resume { id } => act(&client, id, "resume", output).await,
        Action::Cancel { id } => act(&client, id, "cancel", output).await,
    }
}

async fn act(client: &Client, id: &str, verb: &str, output: Output) -> Result<(), Failure> {
    let call = Call::new(Service::Admin, Method::POST, &["v1", "replays", id, verb]);
    client.show(call, output, view::record).await
}
