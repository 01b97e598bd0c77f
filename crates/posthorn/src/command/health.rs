//! `posthorn endpoints health`: endpoints as they are, of one tenant or all.

use super::listing::{ListArgs, Listing};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use reqwest::Method;

const HEALTH: Listing = Listing {
    columns: &[
        ("ID", "/id"),
        ("TENANT", "/tenant"),
        ("HEALTH", "/health"),
        ("BREAKER", "/breaker/state"),
        ("LANE", "/lane/reason"),
        ("WAITING", "/lane/depth"),
        ("DELIVERED", "/recent/delivered"),
        ("FAILED", "/recent/failed"),
        ("LAST ERROR", "/recent/last_failure"),
        ("WHY NOT", "/disabled_reason"),
    ],
    id: "/id",
    empty: "no such endpoints",
};

/// Which endpoints.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    /// Only those that are failing, held or disabled.
    #[arg(long)]
    trouble: bool,

    #[command(flatten)]
    list: ListArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows them.
pub(crate) async fn run(args: &HealthArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = Call::new(Service::Admin, Method::GET, &["v1", "endpoints"])
        .query("tenant", args.tenant.clone())
        .query("trouble", args.trouble.then_some("true"));
    HEALTH.show(&client, call, &args.list, output).await
}
