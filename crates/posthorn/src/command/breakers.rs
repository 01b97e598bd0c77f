//! `posthorn breakers`: circuit breakers.

use super::listing::{ListArgs, Listing, Look, WatchArgs, watch};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

const BREAKERS: Listing = Listing {
    columns: &[
        ("ENDPOINT", "/endpoint"),
        ("TENANT", "/tenant"),
        ("STATE", "/state"),
        ("REASON", "/reason"),
        ("OPENED", "/opened_at"),
        ("NEXT PROBE", "/next_probe_at"),
        ("HELD UNTIL", "/hold_until"),
        ("WAITING", "/backlog"),
    ],
    id: "/endpoint",
    empty: "every breaker is closed",
};

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
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show one.
    Show {
        /// The endpoint's id.
        endpoint: String,
        #[command(flatten)]
        watch: WatchArgs,
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
        Action::List { tenant, list } => {
            let call = call(Method::GET, &[]).query("tenant", tenant.clone());
            return BREAKERS.show(&client, call, list, output).await;
        }
        Action::Show { endpoint, watch } => {
            let call = call(Method::GET, &[endpoint]);
            return show(&client, &call, watch, output).await;
        }
        Action::Open { endpoint, duration } => {
            call(Method::POST, &[endpoint, "open"]).json(&json!({ "for": duration }))
        }
        Action::Close { endpoint } => call(Method::POST, &[endpoint, "close"]),
    };
    client.show(call, output, view::record).await
}

async fn show(
    client: &Client,
    call: &Call,
    args: &WatchArgs,
    output: Output,
) -> Result<(), Failure> {
    watch(args, output, async || {
        let reply = client.call(call.clone()).await?;
        Ok(Look::at(&reply, output, view::record))
    })
    .await
}
