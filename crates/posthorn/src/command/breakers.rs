//! `posthorn breakers`: circuit breakers.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, Column};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

const COLUMNS: &[Column] = &[
    ("ENDPOINT", "/endpoint"),
    ("TENANT", "/tenant"),
    ("STATE", "/state"),
    ("REASON", "/reason"),
    ("OPENED", "/opened_at"),
    ("NEXT PROBE", "/next_probe_at"),
    ("HELD UNTIL", "/hold_until"),
    ("WAITING", "/backlog"),
];

/// What to do with circuit breakers.
#[derive(Debug, Args)]
pub(crate) struct BreakersArgs {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List those that are not plainly closed.
    List {
        /// Of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// How many at most.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show one.
    Show {
        /// The endpoint's id.
        endpoint: String,
    },
    /// Open one: nothing is sent for a while.
    Open {
        /// The endpoint's id.
        endpoint: String,
        /// For how long.
        #[arg(long = "for", default_value = "15m", value_name = "DURATION")]
        duration: String,
    },
    /// Close one: what waits is let go, few at first.
    Close {
        /// The endpoint's id.
        endpoint: String,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: &BreakersArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = |method, rest: &[&str]| {
        let path = [&["v1", "breakers"], rest].concat();
        Call::new(Service::Admin, method, &path)
    };
    let call = match &args.action {
        Action::List {
            tenant,
            limit,
            cursor,
        } => {
            let call = call(Method::GET, &[])
                .query("tenant", tenant.clone())
                .query("limit", limit.map(|n| n.to_string()))
                .query("cursor", cursor.clone());
            return list(&client, call, output).await;
        }
        Action::Show { endpoint } => call(Method::GET, &[endpoint]),
        Action::Open { endpoint, duration } => {
            call(Method::POST, &[endpoint, "open"]).json(&json!({ "for": duration }))
        }
        Action::Close { endpoint } => call(Method::POST, &[endpoint, "close"]),
    };
    client.show(call, output, view::record).await
}

async fn list(client: &Client, call: Call, output: Output) -> Result<(), Failure> {
    let reply = client.call(call).await?;
    reply.show(output, |list| view::items(list, COLUMNS))?;
    if output == Output::Table
        && let Some(more) = view::more(&reply.json())
    {
        output::remark(&more);
    }
    Ok(())
}
