//! `posthorn endpoints`: the endpoints of a tenant.

use super::endpoint_options::EndpointOptions;
use super::health::{self, HealthArgs};
use super::listing::{ListArgs, Listing};
use super::recover::{self, RecoverArgs};
use super::trial;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

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

#[derive(Debug, Args)]
struct One {
    /// The endpoint's id.
    id: String,

    #[command(flatten)]
    whose: Whose,
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
            let call = on(whose, Method::POST, &[]).json(&options.to_json(Some(url))?);
            show(whose, call, output, view::record).await
        }
        Action::List { list, whose } => {
            let client = Client::new(&whose.connect)?;
            let call = on(whose, Method::GET, &[]);
            ENDPOINTS.show(&client, call, list, output).await
        }
        Action::Attempts { list, one } => {
            let client = Client::new(&one.whose.connect)?;
            let call = on(&one.whose, Method::GET, &[&one.id, "attempts"]);
            ATTEMPTS.show(&client, call, list, output).await
        }
        Action::Show(one) => act(one, Method::GET, None, output).await,
        Action::Update { url, options, one } => {
            let patch = options.to_json(url.as_deref())?;
            let call = on(&one.whose, Method::PATCH, &[&one.id]).json(&patch);
            show(&one.whose, call, output, view::record).await
        }
        Action::Pause(one) => act(one, Method::POST, Some("pause"), output).await,
        Action::Resume(one) => act(one, Method::POST, Some("resume"), output).await,
        Action::Delete(one) => {
            let call = on(&one.whose, Method::DELETE, &[&one.id]);
            show(&one.whose, call, output, |_| {
                format!("{} is deleted", one.id)
            })
            .await
        }
        Action::Rotate { overlap, one } => {
            let call = on(&one.whose, Method::POST, &[&one.id, "secret", "rotate"]);
            let call = call.json(&json!({ "overlap": overlap }));
            show(&one.whose, call, output, view::record).await
        }
        Action::Secret(one) => act(one, Method::GET, Some("secret"), output).await,
        Action::Health(args) => health::run(args, output).await,
        Action::Test { wait, one } => test(one, wait.as_deref(), output).await,
        Action::Recover { recover, one } => {
            let client = Client::new(&one.whose.connect)?;
            let call = on(&one.whose, Method::POST, &[&one.id, "recover"]);
            recover::run(&client, call, recover, output).await
        }
    }
}

/// Failed is also a test whose endpoint did not take what it was sent.
async fn test(one: &One, wait: Option<&str>, output: Output) -> Result<(), Failure> {
    let call = on(&one.whose, Method::POST, &[&one.id, "test"]).query("wait", wait);
    let reply = Client::new(&one.whose.connect)?.call(call).await?;
    reply.show(output, trial::record)?;
    match trial::complaint(&reply.json()) {
        Some(complaint) => Err(Failure::refused(complaint)),
        None => Ok(()),
    }
}

async fn act(one: &One, method: Method, verb: Option<&str>, output: Output) -> Result<(), Failure> {
    let path: Vec<&str> = std::iter::once(one.id.as_str()).chain(verb).collect();
    let call = on(&one.whose, method, &path);
    show(&one.whose, call, output, view::record).await
}

async fn show(
    whose: &Whose,
    call: Call,
    output: Output,
    view: impl FnOnce(&Value) -> String,
) -> Result<(), Failure> {
    Client::new(&whose.connect)?.show(call, output, view).await
}

fn on(whose: &Whose, method: Method, rest: &[&str]) -> Call {
    let path = [&["v1", "tenants", &whose.tenant, "endpoints"], rest].concat();
    Call::new(Service::Ingest, method, &path)
}
