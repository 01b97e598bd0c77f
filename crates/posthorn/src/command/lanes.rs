//! `posthorn lanes`: endpoints whose deliveries wait in order.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, Column};
use clap::Args;
use reqwest::Method;
use std::time::Duration;

const COLUMNS: &[Column] = &[
    ("ENDPOINT", "/endpoint"),
    ("TENANT", "/tenant"),
    ("LANE", "/kind"),
    ("REASON", "/reason"),
    ("WAITING", "/depth"),
    ("OLDEST", "/oldest"),
    ("PER SECOND", "/rate_per_second"),
    ("SINCE", "/since"),
    ("HELD UNTIL", "/hold_until"),
];
/// How often a watched list is asked for.
const EVERY: Duration = Duration::from_secs(1);

/// Which active lanes.
#[derive(Debug, Args)]
pub(crate) struct LanesArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    /// Active for this reason, like breaker_open, paused, rate_limit or replay.
    #[arg(long)]
    reason: Option<String>,

    /// How many at most.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,

    /// Where an earlier list ended.
    #[arg(long)]
    cursor: Option<String>,

    /// Show them again every second until interrupted.
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows the lanes.
pub(crate) async fn run(args: &LanesArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        show(&client, args, output).await?;
        if !args.watch {
            return Ok(());
        }
    }
}

async fn show(client: &Client, args: &LanesArgs, output: Output) -> Result<(), Failure> {
    let call = Call::new(Service::Admin, Method::GET, &["v1", "lanes"])
        .query("tenant", args.tenant.clone())
        .query("reason", args.reason.clone())
        .query("limit", args.limit.map(|n| n.to_string()))
        .query("cursor", args.cursor.clone());
    let reply = client.call(call).await?;
    if args.watch && output == Output::Table {
        output::new_page()?;
    }
    reply.show(output, |list| view::items(list, COLUMNS))?;
    if output == Output::Table
        && let Some(more) = view::more(&reply.json())
    {
        output::remark(&more);
    }
    Ok(())
}
