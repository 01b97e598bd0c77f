//! `posthorn lanes`: endpoints whose deliveries wait in order.

use super::listing::{ListArgs, Listing};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use reqwest::Method;

const LANES: Listing = Listing {
    columns: &[
        ("ENDPOINT", "/endpoint"),
        ("TENANT", "/tenant"),
        ("LANE", "/kind"),
        ("REASON", "/reason"),
        ("WAITING", "/depth"),
        ("OLDEST", "/oldest"),
        ("PER SECOND", "/rate_per_second"),
        ("SINCE", "/since"),
        ("HELD UNTIL", "/hold_until"),
    ],
    id: "/endpoint",
    empty: "no lanes: nothing waits for an endpoint",
};

/// Which active lanes.
#[derive(Debug, Args)]
pub(crate) struct LanesArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    /// Active for this reason, like breaker_open, paused, rate_limit or replay.
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    list: ListArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows the lanes.
pub(crate) async fn run(args: &LanesArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = Call::new(Service::Admin, Method::GET, &["v1", "lanes"])
        .query("tenant", args.tenant.clone())
        .query("reason", args.reason.clone());
    LANES.show(&client, call, &args.list, output).await
}
