//! `posthorn endpoints`: the endpoints of a tenant.

use super::endpoint_options::EndpointOptions;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, Column, cell};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("URL", "/url"),
    ("TYPES", "/event_types"),
    ("ENABLED", "/enabled"),
    ("WHY NOT", "/disabled_reason"),
    ("CREATED", "/created_at"),
];

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
        options: Box<EndpointOptions>,
        #[command(flatten)]
        whose: Whose,
    },
    /// List them.
    List {
        /// How many at most.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Show one.
    Show(One),
    /// Change what the flags say, and nothing else.
    Update {
        /// Another address.
        #[arg(long)]
        url: Option<String>,
        #[command(flatten)]
        options: Box<EndpointOptions>,
        #[command(flatten)]
        one: One,
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
    /// Send it an event of type posthorn.test.
    Test(One),
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
        Action::List {
            limit,
            cursor,
            whose,
        } => list(whose, *limit, cursor.clone(), output).await,
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
        Action::Test(one) => {
            let call = on(&one.whose, Method::POST, &[&one.id, "test"]);
            show(&one.whose, call, output, |answer| cell(answer, "/id")).await
        }
    }
}

async fn list(
    whose: &Whose,
    limit: Option<u32>,
    cursor: Option<String>,
    output: Output,
) -> Result<(), Failure> {
    let call = on(whose, Method::GET, &[])
        .query("limit", limit.map(|n| n.to_string()))
        .query("cursor", cursor);
    let reply = Client::new(&whose.connect)?.call(call).await?;
    reply.show(output, |list| view::items(list, COLUMNS))?;
    if output == Output::Table
        && let Some(more) = view::more(&reply.json())
    {
        output::remark(&more);
    }
    Ok(())
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
