//! `posthorn dlq`: dead letters.

use super::filter::FilterArgs;
use super::letter;
use super::listing::{ListArgs, Listing};
use super::progress;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, cell};
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::json;

const LETTERS: Listing = Listing {
    columns: &[
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
    ],
    id: "/id",
    empty: "no dead letters",
};

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
        /// In this state.
        #[arg(long, value_enum, help_heading = "Filter")]
        state: Option<State>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Count those that match and wait for somebody to decide.
    Count {
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// Show one: why it died, every attempt with the receiver's answer, the payload.
    Show {
        /// The letter's id.
        id: String,
        /// Only the payload, byte for byte.
        #[arg(long)]
        payload: bool,
    },
    /// Send some again by their ids, or all that match a filter.
    Replay(ReplayArgs),
    /// Delete some by their ids.
    Delete {
        /// The letters' ids.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Purge all that match a filter; without --yes they are only counted.
    Purge {
        /// Do it.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        filter: FilterArgs,
    },
}

/// What may have become of a letter.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// It waits for somebody to decide.
    Dead,
    /// It is sent again.
    Replaying,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Dead => "dead",
            State::Replaying => "replaying",
        }
    }
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// The letters' ids.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// How many a second.
    #[arg(long, default_value_t = 50, value_name = "PER_SECOND")]
    rate: u32,

    /// Only count what matches.
    #[arg(long)]
    dry_run: bool,

    /// Do not wait for the end; `posthorn replays show` tells.
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    filter: FilterArgs,
}

/// Does what was asked for.
pub(crate) async fn run(args: &DlqArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    match &args.action {
        Action::List {
            filter,
            state,
            list,
        } => {
            let state = state.map(State::as_str);
            let call = filtered(&["v1", "dead-letters"], filter).query("state", state);
            LETTERS.show(&client, call, list, output).await
        }
        Action::Count { filter } => {
            let call = filtered(&["v1", "dead-letters", "count"], filter);
            client
                .show(call, output, |answer| cell(answer, "/count"))
                .await
        }
        Action::Show { id, payload } => show(&client, id, *payload, output).await,
        Action::Replay(replay) => match (replay.ids.is_empty(), replay.filter.is_empty()) {
            (false, true) => replay_each(&client, &replay.ids, output).await,
            (true, false) => replay_all(&client, replay, output).await,
            (true, true) => Err(Failure::usage(
                "say which letters: their ids, or a filter such as --tenant",
            )),
            (false, false) => Err(Failure::usage("ids and a filter exclude each other")),
        },
        Action::Delete { ids } => delete_each(&client, ids, output).await,
        Action::Purge { filter, yes } => purge(&client, filter, *yes, output).await,
    }
}

fn filtered(path: &[&str], filter: &FilterArgs) -> Call {
    let fields = filter.fields(posthorn_wiring::now()).into_iter();
    let call = Call::new(Service::Admin, Method::GET, path);
    fields.fold(call, |call, (name, value)| call.query(name, Some(value)))
}

async fn show(client: &Client, id: &str, payload: bool, output: Output) -> Result<(), Failure> {
    let call = Call::new(Service::Admin, Method::GET, &["v1", "dead-letters", id]);
    if payload {
        let found = client.call(call).await?.json();
        return output::bytes(&letter::payload(&found)?);
    }
    client.show(call, output, letter::letter).await
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
            Err(Failure::Refused(why)) => refused = Err(not_this(id, &why, "sent again")),
            Err(failure) => return Err(failure),
        }
    }
    refused
}

async fn delete_each(client: &Client, ids: &[String], output: Output) -> Result<(), Failure> {
    let mut refused = Ok(());
    for id in ids {
        let path = ["v1", "dead-letters", id];
        match client
            .call(Call::new(Service::Admin, Method::DELETE, &path))
            .await
        {
            Ok(reply) => reply.show(output, |_| format!("{id} is thrown away"))?,
            Err(Failure::Refused(why)) => refused = Err(not_this(id, &why, "thrown away")),
            Err(failure) => return Err(failure),
        }
    }
    refused
}

/// Says at once why one was refused, and gives what to end with.
fn not_this(id: &str, why: &str, done: &str) -> Failure {
    output::remark(&output::printable(&format!("{id}: {why}")));
    Failure::refused(format!("not every letter is {done}"))
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
