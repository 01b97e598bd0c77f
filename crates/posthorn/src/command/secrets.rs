//! `posthorn secrets`: how endpoints' secrets are stored.

use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::{self, Output};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

/// Endpoints of one call: it takes a second or two.
const PAGE: &str = "500";

/// What to do with stored secrets.
#[derive(Debug, Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store the secrets of all endpoints under the first of POSTHORN_SECRET_KEYS, those too that
    /// were stored in plain. Whatever is interrupted can be begun again.
    Rotate,
}

/// What became of the endpoints so far.
#[derive(Debug, Default)]
struct Total {
    key: Option<String>,
    resealed: u64,
    current: u64,
    unreadable: u64,
}

impl Total {
    fn add(&mut self, page: &Value) {
        let number = |name: &str| page[name].as_u64().unwrap_or_default();
        self.key = page["key"].as_str().map(str::to_owned);
        self.resealed += number("resealed");
        self.current += number("current");
        self.unreadable += number("unreadable");
    }

    fn sentence(&self) -> String {
        let (resealed, current) = (self.resealed, self.current);
        match &self.key {
            Some(key) => {
                format!("{resealed} endpoints sealed with key {key}, {current} were already")
            }
            None => format!("no key seals here: {current} endpoints are stored in plain"),
        }
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: &SecretsArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    match args.action {
        Action::Rotate => rotate(&client, output).await,
    }
}

async fn rotate(client: &Client, output: Output) -> Result<(), Failure> {
    let mut total = Total::default();
    let mut cursor = None;
    loop {
        let call = Call::new(Service::Ingest, Method::POST, &["v1", "secrets", "reseal"])
            .query("limit", Some(PAGE))
            .query("cursor", cursor);
        let page = client.call(call).await?.json();
        total.add(&page);
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    output::line(&match output {
        Output::Table => total.sentence(),
        Output::Json => json!({
            "key": total.key,
            "resealed": total.resealed,
            "current": total.current,
            "unreadable": total.unreadable,
        })
        .to_string(),
    })?;
    if total.unreadable > 0 {
        return Err(Failure::refused(format!(
            "{} endpoints cannot be opened and stay as they are; ingest's log names their keys",
            total.unreadable
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_added_up() {
        let mut total = Total::default();
        let page = |n| json!({"key": "k2", "resealed": n, "current": 1, "unreadable": 0});
        total.add(&page(500));
        total.add(&page(3));
        assert_eq!(
            total.sentence(),
            "503 endpoints sealed with key k2, 2 were already"
        );
        let plain = json!({"key": null, "resealed": 0, "current": 4, "unreadable": 1});
        let mut total = Total::default();
        total.add(&plain);
        assert!(total.sentence().starts_with("no key seals here: 4"));
        assert_eq!(total.unreadable, 1);
    }
}
