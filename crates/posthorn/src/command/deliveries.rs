//! `posthorn deliveries`: what happened to one event, endpoint by endpoint.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view::{self, Column, cell};
use clap::Args;
use reqwest::Method;
use serde_json::Value;

const ATTEMPTS: &[Column] = &[
    ("AT", "/at"),
    ("NUMBER", "/number"),
    ("STATUS", "/status"),
    ("ERROR", "/error"),
    ("MS", "/latency_ms"),
    ("THEN", "/disposition"),
    ("REASON", "/reason"),
];

/// Which event.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    /// The event's id.
    event: String,

    /// Whose it is.
    #[arg(long)]
    tenant: Option<String>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows what happened.
pub(crate) async fn run(args: &DeliveriesArgs, output: Output) -> Result<(), Failure> {
    let call = Call::new(Service::Admin, Method::GET, &["v1", "deliveries"])
        .query("event", Some(args.event.clone()))
        .query("tenant", args.tenant.clone());
    Client::new(&args.connect)?
        .show(call, output, deliveries)
        .await
}

fn deliveries(answer: &Value) -> String {
    let items = answer.get("items").and_then(Value::as_array);
    let blocks: Vec<String> = items.into_iter().flatten().map(delivery).collect();
    if blocks.is_empty() {
        return "nothing yet".to_owned();
    }
    blocks.join("\n\n")
}

fn delivery(delivery: &Value) -> String {
    let mut head = format!(
        "{} {}",
        cell(delivery, "/endpoint"),
        cell(delivery, "/state")
    );
    for (word, pointer) in [
        ("next attempt", "/next_attempt_at"),
        ("dead letter", "/dead_letter"),
    ] {
        let value = cell(delivery, pointer);
        if !value.is_empty() {
            head = format!("{head}, {word} {value}");
        }
    }
    let attempts = delivery.get("attempts").unwrap_or(&Value::Null);
    format!("{head}\n{}", view::items(attempts, ATTEMPTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_delivery_is_its_state_and_its_attempts() {
        let shown = deliveries(&json!({"items": [{
            "endpoint": "ep_1", "state": "dead", "dead_letter": "dl_1", "next_attempt_at": null,
            "attempts": [{"at": "t", "number": 1, "status": 404, "latency_ms": 3,
                          "disposition": "dead", "reason": "permanent_status"}],
        }]}));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "ep_1 dead, dead letter dl_1");
        assert!(lines[2].contains("permanent_status"));
    }

    #[test]
    fn an_event_nobody_was_tried_for_says_so() {
        assert_eq!(deliveries(&json!({"items": []})), "nothing yet");
    }
}
