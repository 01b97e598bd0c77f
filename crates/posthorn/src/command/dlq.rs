//! `posthorn dlq`: dead letters.

use super::filter::FilterArgs;
use super::progress;
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
    ("DIED", "/died_at"),
    ("TENANT", "/tenant"),
    ("TYPE", "/type"),
    ("ENDPOINT", "/endpoint"),
    ("REASON", "/reason"),
    ("STATUS", "/last_status"),
    ("ERROR", "/last_error"),
    ("ATTEMPTS", "/attempt_count"),
    ("STATE", "/state"),
];
const ATTEMPTS: &[Column] = &[
    ("AT", "/at"),
    ("NUMBER", "/number"),
    ("STATUS", "/status"),
    ("ERROR", "/error"),
    ("MS", "/latency_ms"),
    ("ANSWER", "/response_body"),
];

/// What to do with dead letters.
#[derive(Debug, Args)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them, newest first.
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// How many at most.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show one with its payload and every attempt.
    Show {
        /// The letter's id.
        id: String,
    },
    /// Send some again by their ids, or all that match a filter.
    Replay(ReplayArgs),
    /// Throw away all that match a filter; without --yes they are only counted.
    Purge {
        #[command(flatten)]
        filter: FilterArgs,
        /// Do it.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// The letters' ids.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// How many a second.
    #[arg(long, default_value_t = 50, value_name = "PER_SECOND")]
    rate: u32,

    /// Only count what matches.
    #[arg(long)]
    dry_run: bool,

    /// Do not wait for the end; `posthorn replays show` tells.
    #[arg(long)]
    detach: bool,
}

/// Does what was asked for.
pub(crate) async fn run(args: &DlqArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    match &args.action {
        Action::List {
            filter,
            limit,
            cursor,
        } => list(&client, filter, *limit, cursor.clone(), output).await,
        Action::Show { id } => {
            let call = Call::new(Service::Admin, Method::GET, &["v1", "dead-letters", id]);
            client.show(call, output, letter).await
        }
        Action::Replay(replay) => match (replay.ids.is_empty(), replay.filter.is_empty()) {
            (false, true) => replay_each(&client, &replay.ids, output).await,
            (true, false) => replay_all(&client, replay, output).await,
            (true, true) => Err(Failure::usage(
                "say which letters: their ids, or a filter such as --tenant",
            )),
            (false, false) => Err(Failure::usage("ids and a filter exclude each other")),
        },
        Action::Purge { filter, yes } => purge(&client, filter, *yes, output).await,
    }
}

async fn list(
    client: &Client,
    filter: &FilterArgs,
    limit: Option<u32>,
    cursor: Option<String>,
    output: Output,
) -> Result<(), Failure> {
    let mut call = Call::new(Service::Admin, Method::GET, &["v1", "dead-letters"])
        .query("limit", limit.map(|n| n.to_string()))
        .query("cursor", cursor);
    for (name, value) in filter.fields(posthorn_wiring::now()) {
        call = call.query(name, Some(value));
    }
    let reply = client.call(call).await?;
    reply.show(output, |list| view::items(list, COLUMNS))?;
    if output == Output::Table
        && let Some(more) = view::more(&reply.json())
    {
        output::remark(&more);
    }
    Ok(())
}

/// The fields, then the attempts as a table of their own.
fn letter(letter: &Value) -> String {
    let mut fields = letter.clone();
    let attempts = fields
        .as_object_mut()
        .and_then(|fields| fields.remove("attempts"))
        .unwrap_or(Value::Null);
    let attempts = view::items(&attempts, ATTEMPTS);
    format!("{}\n\nattempts\n{attempts}", view::record(&fields))
}

/// One after the other; the first refusal does not keep the others from being asked for.
async fn replay_each(client: &Client, ids: &[String], output: Output) -> Result<(), Failure> {
    let mut refused = Ok(());
    for id in ids {
        let path = ["v1", "dead-letters", id, "replay"];
        let call = Call::new(Service::Admin, Method::POST, &path);
        match client.call(call).await {
            Ok(reply) => reply.show(output, |answer| {
                format!("{id} is sent again: {}", cell(answer, "/replay_id"))
            })?,
            Err(Failure::Refused(why)) => {
                output::remark(&format!("{id}: {}", output::printable(&why)));
                refused = Err(Failure::refused("not every letter is sent again"));
            }
            Err(failure) => return Err(failure),
        }
    }
    refused
}

async fn replay_all(client: &Client, args: &ReplayArgs, output: Output) -> Result<(), Failure> {
    let body = json!({
        "filter": args.filter.to_json(posthorn_wiring::now()),
        "rate_per_second": args.rate,
        "dry_run": args.dry_run,
    });
    let call = Call::new(Service::Admin, Method::POST, &["v1", "replays"]).json(&body);
    let reply = client.call(call).await?;
    if args.dry_run {
        return reply.show(output, |answer| {
            format!("{} would be sent again", cell(answer, "/matched"))
        });
    }
    if args.detach {
        return reply.show(output, view::record);
    }
    let id = cell(&reply.json(), "/id");
    progress::follow(client, &id, output).await
}

async fn purge(
    client: &Client,
    filter: &FilterArgs,
    yes: bool,
    output: Output,
) -> Result<(), Failure> {
    if filter.is_empty() {
        return Err(Failure::usage(
            "say which letters: a filter such as --tenant",
        ));
    }
    let filter = filter.to_json(posthorn_wiring::now());
    let body = json!({ "filter": filter, "dry_run": !yes });
    let path = ["v1", "dead-letters", "purge"];
    let call = Call::new(Service::Admin, Method::POST, &path).json(&body);
    client
        .show(call, output, |answer| match yes {
            true => format!("{} thrown away", cell(answer, "/purged")),
            false => format!(
                "{} would be thrown away; --yes does it",
                cell(answer, "/matched")
            ),
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_shown_with_its_attempts_as_a_table() {
        let shown = letter(&json!({
            "id": "dl_1", "reason": "exhausted", "payload": "{\"a\":1}",
            "attempts": [{"at": "t1", "number": 1, "status": 503, "latency_ms": 7,
                          "response_body": "no\u{1b}"}],
        }));
        assert!(shown.contains("exhausted") && shown.contains("{\"a\":1}"));
        let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["t1", "1", "503", "7", "no\\u{1b}"]);
    }
}
