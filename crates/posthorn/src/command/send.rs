//! `posthorn send`: publishes one event.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::input;
use crate::output::Output;
use crate::view::cell;
use clap::Args;
use reqwest::Method;

/// What to publish.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The event's type, such as invoice.paid.
    #[arg(value_name = "TYPE")]
    event_type: String,

    /// The body, sent byte for byte: text, @file, or - for standard input.
    #[arg(value_name = "JSON|@FILE|-", default_value = "{}")]
    body: String,

    /// Whose event it is.
    #[arg(long, env = "POSTHORN_TENANT")]
    tenant: String,

    /// Makes it repeatable: the same key is the same event.
    #[arg(long, value_name = "KEY")]
    id: Option<String>,

    /// The body's media type.
    #[arg(long, default_value = "application/json", value_name = "TYPE")]
    content_type: String,

    /// Not before this time (RFC 3339), at most 30 days ahead.
    #[arg(long, value_name = "TIME")]
    deliver_at: Option<String>,

    /// A further header, such as `ce-source: /orders` or a traceparent.
    #[arg(long, value_name = "NAME: VALUE", value_parser = input::header)]
    header: Vec<(String, String)>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Publishes the event and prints its id.
pub(crate) async fn run(args: &SendArgs, output: Output) -> Result<(), Failure> {
    let body = input::read(&args.body)?;
    let client = Client::new(&args.connect)?;
    client
        .show(call(args, body), output, |answer| {
            let id = cell(answer, "/id");
            match answer.get("duplicate").and_then(serde_json::Value::as_bool) {
                Some(true) => format!("{id} (already accepted before)"),
                _ => id,
            }
        })
        .await
}

fn call(args: &SendArgs, body: Vec<u8>) -> Call {
    let path = ["v1", "tenants", &args.tenant, "events", &args.event_type];
    let mut call = Call::new(Service::Ingest, Method::POST, &path).body(&args.content_type, body);
    if let Some(key) = &args.id {
        call = call.header("idempotency-key", key);
    }
    if let Some(at) = &args.deliver_at {
        call = call.header("deliver-at", at);
    }
    for (name, value) in &args.header {
        call = call.header(name, value);
    }
    call
}
