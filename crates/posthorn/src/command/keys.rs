//! `posthorn keys`: API keys, for the holder of the admin key.

use super::listing::{ListArgs, Listing};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view;
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

const KEYS: Listing = Listing {
    columns: &[
        ("ID", "/id"),
        ("NAME", "/name"),
        ("TENANT", "/tenant"),
        ("SCOPES", "/scopes"),
        ("PER SECOND", "/rate_limit/per_second"),
        ("EXPIRES", "/expires_at"),
        ("CREATED", "/created_at"),
        ("BY", "/created_by"),
    ],
    id: "/id",
    empty: "no keys beside the admin key; `posthorn keys add` makes one",
};

/// What to do with API keys.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make one. It is shown this once, on stdout.
    Add(AddArgs),
    /// List them, without their secrets.
    List {
        /// Of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Revoke one: within a second it opens nothing.
    Revoke {
        /// The key's id: the 16 digits between `phk_` and its secret.
        id: String,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Its name, for people and the audit log.
    name: String,

    /// The one tenant that it shall see; without it all.
    #[arg(long)]
    tenant: Option<String>,

    /// What it may do, comma separated.
    #[arg(long, required = true, value_enum, value_delimiter = ',')]
    scope: Vec<Scope>,

    /// When it ends (RFC 3339); without it never.
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,

    /// Requests a second to each copy of a service; without it what the services are configured
    /// with.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,
}

/// What a key may be good for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Publish events.
    Publish,
    /// Manage endpoints, and see their secrets.
    Endpoints,
    /// Look at and decide about what happened.
    Operate,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Scope::Publish => "publish",
            Scope::Endpoints => "endpoints",
            Scope::Operate => "operate",
        }
    }
}

impl AddArgs {
    fn document(&self) -> Value {
        let scopes: Vec<&str> = self.scope.iter().map(|scope| scope.as_str()).collect();
        json!({
            "name": self.name,
            "tenant": self.tenant,
            "scopes": scopes,
            "expires_at": self.expires_at,
            "rate_limit": self.rate.map(|rate| json!({"per_second": rate})),
        })
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: &KeysArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = |method, rest: &[&str]| {
        let path = [&["v1", "api-keys"], rest].concat();
        Call::new(Service::Admin, method, &path)
    };
    match &args.action {
        Action::Add(add) => {
            let call = call(Method::POST, &[]).json(&add.document());
            add_key(&client, call, output).await
        }
        Action::List { tenant, list } => {
            let call = call(Method::GET, &[]).query("tenant", tenant.clone());
            KEYS.show(&client, call, list, output).await
        }
        Action::Revoke { id } => {
            let done = format!("{id} is revoked");
            let call = call(Method::DELETE, &[id]);
            client.show(call, output, |_| done).await
        }
    }
}

/// The key alone on stdout, so that it can go straight into a store of secrets.
async fn add_key(client: &Client, call: Call, output: Output) -> Result<(), Failure> {
    let reply = client.call(call).await?;
    let shown = reply.json();
    reply.show(output, |made| view::cell(made, "/key"))?;
    if output == Output::Table {
        let id = view::cell(&shown, "/id");
        output::remark(&format!(
            "shown this once; posthorn keys revoke {id} takes it back"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        add: AddArgs,
    }

    #[test]
    fn what_is_left_out_is_null() {
        let args = ["keys", "ops", "--scope", "operate"];
        let document = Only::try_parse_from(args).unwrap().add.document();
        let wanted = json!({"name": "ops", "tenant": null, "scopes": ["operate"],
            "expires_at": null, "rate_limit": null});
        assert_eq!(document, wanted);
    }

    #[test]
    fn what_is_said_is_asked_for() {
        let line = "keys billing --tenant acme --scope publish,endpoints --rate 50 \
                    --expires-at 2030-01-31T08:00:00Z";
        let add = Only::try_parse_from(line.split_whitespace()).unwrap().add;
        let wanted = json!({"name": "billing", "tenant": "acme",
            "scopes": ["publish", "endpoints"], "expires_at": "2030-01-31T08:00:00Z",
            "rate_limit": {"per_second": 50}});
        assert_eq!(add.document(), wanted);
    }

    #[test]
    fn a_key_without_a_scope_or_with_one_that_there_is_not_is_not_asked_for() {
        assert!(Only::try_parse_from(["keys", "x"]).is_err());
        assert!(Only::try_parse_from(["keys", "x", "--scope", "admin"]).is_err());
    }
}
