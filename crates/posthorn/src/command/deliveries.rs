//! `posthorn deliveries` and `posthorn events show`: what happened to one event, endpoint by
//! endpoint, attempt by attempt.

use super::listing::{Look, WatchArgs, watch};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::timeline::timeline;
use crate::view::{cell, of_list};
use clap::Args;
use reqwest::Method;
use serde_json::Value;

/// Which event.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    /// The event's id, which receivers know as `webhook-id`.
    event: String,

    /// Whose it is.
    #[arg(long)]
    tenant: Option<String>,

    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows what happened.
pub(crate) async fn run(args: &DeliveriesArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = Call::new(Service::Admin, Method::GET, &["v1", "deliveries"])
        .query("event", Some(args.event.clone()))
        .query("tenant", args.tenant.clone());
    watch(&args.watch, output, async || {
        let reply = client.call(call.clone()).await?;
        let partial = reply.json().get("complete") == Some(&Value::Bool(false));
        Ok(Look {
            remark: partial.then(|| "there are more attempts than one answer holds".to_owned()),
            ..Look::at(&reply, output, deliveries)
        })
    })
    .await
}

fn deliveries(answer: &Value) -> String {
    let items = of_list(answer);
    let Some(first) = items.first() else {
        return "nothing yet: no endpoint has been tried for it, or the id is another's".to_owned();
    };
    let event = ["/event_id", "/type", "/tenant"].map(|pointer| cell(first, pointer));
    let mut blocks = vec![format!("{} {} of {}", event[0], event[1], event[2])];
    blocks.extend(items.iter().map(delivery));
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
    format!("{head}\n{}", timeline(of_list(attempts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_delivery_is_its_state_and_its_time_line() {
        let shown = deliveries(&json!({"items": [{
            "event_id": "evt_1", "type": "a.b", "tenant": "acme",
            "endpoint": "ep_1", "state": "dead", "dead_letter": "dl_1", "next_attempt_at": null,
            "attempts": [{"at": "t", "number": 1, "status": 404, "latency_ms": 3,
                          "disposition": "dead", "reason": "permanent_status",
                          "response_body": "no such hook"}],
        }]}));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "evt_1 a.b of acme");
        assert_eq!(lines[2], "ep_1 dead, dead letter dl_1");
        assert!(lines[3].starts_with("#1") && lines[3].contains("permanent_status"));
        assert!(lines[4].ends_with("| no such hook"));
    }

    #[test]
    fn an_event_nobody_was_tried_for_says_so() {
        assert!(deliveries(&json!({"items": []})).starts_with("nothing yet"));
    }
}
