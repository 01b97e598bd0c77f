//! `posthorn endpoints`: the endpoints of a tenant.

use super::endpoint_options::EndpointOptions;
use super::health::{self, HealthArgs};
use super::listing::{ListArgs, Listing};
use super::recover::{self, RecoverArgs};
use super::target::{One, Target};
use super::trial;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

const ENDPOINTS: Listing = Listing {
    columns: &[
        ("ID", "/id"),
        ("URL", "/url"),
        ("TYPES", "/event_types"),
        ("ENABLED", "/enabled"),
        ("WHY NOT", "/disabled_reason"),
        ("CREATED", "/created_at"),
    ],
    id: "/id",
    empty: "no endpoints; `posthorn endpoints add URL` makes one",
};
const ATTEMPTS: Listing = Listing {
    columns: &[
        ("AT", "/at"),
        ("EVENT", "/event_id"),
        ("TYPE", "/type"),
        ("NUMBER", "/number"),
        ("STATUS", "/status"),
        ("ERROR", "/error"),
        ("MS", "/latency_ms"),
        ("THEN", "/disposition"),
        ("REASON", "/reason"),
    ],
    id: "/event_id",
    empty: "nothing has been tried",
};

/// What to do with the endpoints of a tenant.
#[derive(Debug, Args)]
pub(crate) struct EndpointsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Args)]
struct Whose {
    /// Whose endpoints they are.
    #[arg(long, env = "POSTHORN_TENANT")]
    tenant: String,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create one; its secret is shown once.
    Add {
        /// Where deliveries go.
        url: String,
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        options: Box<EndpointOptions>,
    },
    /// List them.
    List {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show one.
    Show(One),
    /// List them as they are: their breakers, their lanes, the last quarter of an hour.
    Health(HealthArgs),
    /// List what was tried with one, newest first.
    Attempts {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Change what the flags say, and nothing else.
    #[command(visible_alias = "patch")]
    Update {
        /// Another address.
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        options: Box<EndpointOptions>,
    },
    /// Stop sending; what comes is kept.
    Pause(One),
    /// Send again.
    Resume(One),
    /// Delete one; what waits for it is dropped.
    Delete(One),
    /// Make a new secret; the old one is good for a while longer.
    Rotate {
        /// How long the old secret is still signed with.
        #[arg(long, default_value = "24h", value_name = "DURATION")]
        overlap: String,
        #[command(flatten)]
        one: One,
    },
    /// Show the secrets.
    Secret(One),
    /// Send it an event of type posthorn.test, and show what was sent and what came back.
    Test {
        /// How long its answer is waited for; its timeout and 5 s where nothing is said.
        #[arg(long, value_name = "DURATION")]
        wait: Option<String>,
        #[command(flatten)]
        one: One,
    },
    /// Send it what it missed since a time, from the retained events, as a job.
    Recover {
        #[command(flatten)]
        one: One,
        #[command(flatten)]
        recover: RecoverArgs,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: &EndpointsArgs, output: Output) -> Result<(), Failure> {
    match &args.action {
        Action::Add {
            url,
            options,
            whose,
        } => {
            let call = of(whose, Method::POST).json(&options.to_json(Some(url))?);
            let client = Client::new(&whose.connect)?;
            client.show(call, output, view::record).await
        }
        Action::List { list, whose } => {
            let client = Client::new(&whose.connect)?;
            let call = of(whose, Method::GET);
            ENDPOINTS.show(&client, call, list, output).await
        }
        Action::Health(args) => health::run(args, output).await,
        Action::Attempts { list, one } => {
            let target = Target::of(one).await?;
            let call = target.call(Method::GET, &["attempts"]);
            ATTEMPTS.show(&target.client, call, list, output).await
        }
        Action::Update { url, options, one } => {
            let patch = options.to_json(url.as_deref())?;
            let target = Target::of(one).await?;
            let call = target.call(Method::PATCH, &[]).json(&patch);
            target.client.show(call, output, view::record).await
        }
        Action::Show(one) => act(one, Method::GET, &[], output).await,
        Action::Pause(one) => act(one, Method::POST, &["pause"], output).await,
        Action::Resume(one) => act(one, Method::POST, &["resume"], output).await,
        Action::Secret(one) => act(one, Method::GET, &["secret"], output).await,
        Action::Delete(one) => delete(one, output).await,
        Action::Rotate { overlap, one } => rotate(one, overlap, output).await,
        Action::Test { wait, one } => test(one, wait.as_deref(), output).await,
        Action::Recover { recover, one } => {
            let target = Target::of(one).await?;
            let call = target.call(Method::POST, &["recover"]);
            recover::run(&target.client, call, recover, output).await
        }
    }
}

async fn delete(one: &One, output: Output) -> Result<(), Failure> {
    let target = Target::of(one).await?;
    let call = target.call(Method::DELETE, &[]);
    let done = format!("{} is deleted", target.id);
    target.client.show(call, output, |_| done).await
}

async fn rotate(one: &One, overlap: &str, output: Output) -> Result<(), Failure> {
    let target = Target::of(one).await?;
    let call = target.call(Method::POST, &["secret", "rotate"]);
    let call = call.json(&json!({ "overlap": overlap }));
    target.client.show(call, output, view::record).await
}

/// Failed is also a test whose endpoint did not take what it was sent.
async fn test(one: &One, wait: Option<&str>, output: Output) -> Result<(), Failure> {
    let target = Target::of(one).await?;
    let call = target.call(Method::POST, &["test"]).query("wait", wait);
    let reply = target.client.call(call).await?;
    reply.show(output, trial::record)?;
    match trial::complaint(&reply.json()) {
        Some(complaint) => Err(Failure::refused(complaint)),
        None => Ok(()),
    }
}

async fn act(one: &One, method: Method, below: &[&str], output: Output) -> Result<(), Failure> {
    let target = Target::of(one).await?;
    let call = target.call(method, below);
    target.client.show(call, output, view::record).await
}

fn of(whose: &Whose, method: Method) -> Call {
    let path = ["v1", "tenants", &whose.tenant, "endpoints"];
    Call::new(Service::Ingest, method, &path)
}
