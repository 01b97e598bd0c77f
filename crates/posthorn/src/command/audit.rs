//! `posthorn audit`: who did what.
//!
//! The service filters by tenant and time. By key, action, object and result it is done here,
//! over as many pages as it takes to fill one: what nobody else did is rare, and the log is read
//! from its new end.

use super::listing::{ListArgs, Listing, Look, watch};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::instant::Moment;
use crate::output::Output;
use crate::view::{cell, more, of_list};
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

const ACTS: Listing = Listing {
    columns: &[
        ("AT", "/at"),
        ("KEY", "/key_name"),
        ("ACTION", "/action"),
        ("TENANT", "/tenant"),
        ("OBJECT", "/object"),
        ("RESULT", "/result"),
        ("STATUS", "/status"),
    ],
    id: "/id",
    empty: "no such act",
};
/// The most that one answer holds.
const PAGE: u32 = 500;
/// Acts where nothing is said.
const DEFAULT_LIMIT: u32 = 50;
/// Pages that are searched for acts of one kind.
const MAX_PAGES: u32 = 40;

/// Which acts.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// What was done to this tenant's things.
    #[arg(long)]
    tenant: Option<String>,

    /// Done then or later: RFC 3339, or how long ago, like 2h.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,

    /// By the key of this id or name.
    #[arg(long)]
    key: Option<String>,

    /// This action, such as endpoint.delete, or all that begin so, such as endpoint.
    #[arg(long)]
    action: Option<String>,

    /// To this object, such as an endpoint's id.
    #[arg(long, value_name = "ID")]
    object: Option<String>,

    /// With this result: asked or failed.
    #[arg(long)]
    result: Option<String>,

    #[command(flatten)]
    list: ListArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

impl AuditArgs {
    fn call(&self) -> Call {
        let now = posthorn_wiring::now();
        Call::new(Service::Admin, Method::GET, &["v1", "audit"])
            .query("tenant", self.tenant.clone())
            .query("since", self.since.map(|since| since.to_rfc3339(now)))
    }

    fn is_plain(&self) -> bool {
        let chosen = [&self.key, &self.action, &self.object, &self.result];
        chosen.into_iter().all(Option::is_none)
    }

    fn wants(&self, act: &Value) -> bool {
        let is = |wanted: &Option<String>, pointers: &[&str]| {
            wanted
                .as_ref()
                .is_none_or(|wanted| pointers.iter().any(|pointer| cell(act, pointer) == *wanted))
        };
        let action = cell(act, "/action");
        let kind = self.action.as_ref().is_none_or(|wanted| {
            action.strip_prefix(wanted.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('.') || wanted.ends_with('.')
            })
        });
        kind && is(&self.key, &["/key", "/key_name"])
            && is(&self.object, &["/object"])
            && is(&self.result, &["/result"])
    }
}

/// Shows the acts.
pub(crate) async fn run(args: &AuditArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    if args.is_plain() {
        return ACTS.show(&client, args.call(), &args.list, output).await;
    }
    watch(&args.list.watch, output, async || {
        let found = search(&client, args).await?;
        Ok(match (args.list.quiet, output) {
            (false, Output::Json) => Look::of(found.to_string()),
            (true, _) => Look::of(ids(&found)),
            (false, Output::Table) => Look {
                remark: more(&found),
                ..Look::of(ACTS.table(&found))
            },
        })
    })
    .await
}

fn ids(list: &Value) -> String {
    let ids: Vec<String> = of_list(list).iter().map(|act| cell(act, ACTS.id)).collect();
    ids.join("\n")
}

/// A page of the acts that are wanted, in the form of the service's own.
async fn search(client: &Client, args: &AuditArgs) -> Result<Value, Failure> {
    let limit = args.list.limit.unwrap_or(DEFAULT_LIMIT).max(1);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items: Vec<Value> = Vec::new();
    let mut cursor = args.list.cursor.clone();
    for _ in 0..MAX_PAGES {
        let call = args
            .call()
            .query("limit", Some(PAGE.to_string()))
            .query("cursor", cursor.take());
        let page = client.call(call).await?.json();
        items.extend(of_list(&page).iter().filter(|act| args.wants(act)).cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || items.len() >= limit {
            break;
        }
    }
    // A page is kept whole, so that its cursor is good: there may be some more than asked for.
    let complete = cursor.is_none() || items.len() >= limit;
    Ok(json!({
        "count": items.len(), "items": items, "next_cursor": cursor, "total": null,
        "complete": complete,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        audit: AuditArgs,
    }

    fn wants(line: &str) -> bool {
        let args = Only::try_parse_from(line.split(' ')).unwrap().audit;
        args.wants(
            &json!({"key": "k1", "key_name": "ops", "action": "endpoint.delete",
            "object": "ep_1", "result": "asked"}),
        )
    }

    #[test]
    fn an_act_is_wanted_by_each_of_its_fields() {
        for yes in [
            "x",
            "x --key k1",
            "x --key ops",
            "x --action endpoint",
            "x --action endpoint.",
            "x --action endpoint.delete",
            "x --object ep_1 --result asked",
        ] {
            assert!(wants(yes), "{yes}");
        }
        for no in [
            "x --key other",
            "x --action endpoint.del",
            "x --action letter",
            "x --object ep_2",
            "x --result failed",
        ] {
            assert!(!wants(no), "{no}");
        }
    }
}
