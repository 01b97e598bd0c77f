//! Lists: which part of one, in which form, once or again and again.
//!
//! A look that fails does not end a watch, where the next one may go well: whoever watches while
//! services are restarted wants to see them come back.

use crate::client::{Call, Client, Reply};
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::view::{self, Column, cell};
use clap::Args;
use posthorn_http_api::time::to_rfc3339;
use posthorn_runtime::config::duration_between;
use serde_json::Value;
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3_600);
/// Looks in a row that may fail.
const MAX_FAILURES: u32 = 60;

/// Whether something is shown again and again.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Watch")]
pub(crate) struct WatchArgs {
    /// Show it again and again until interrupted: in its place on a terminal, one after the
    /// other elsewhere.
    #[arg(long, short)]
    pub watch: bool,

    /// How often.
    #[arg(long, default_value = "1s", value_name = "DURATION", requires = "watch",
        value_parser = duration_between(SHORTEST, LONGEST))]
    every: Duration,

    /// End after so many times.
    #[arg(long, value_name = "N", requires = "watch",
        value_parser = clap::value_parser!(u32).range(1..))]
    times: Option<u32>,
}

/// Which part of a list, and in which form.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "List")]
pub(crate) struct ListArgs {
    /// How many at most.
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,

    /// Where an earlier list ended.
    #[arg(long)]
    pub cursor: Option<String>,

    /// Only ids, one a line, as other commands take them.
    #[arg(long, short)]
    pub quiet: bool,

    #[command(flatten)]
    pub watch: WatchArgs,
}

impl ListArgs {
    /// The call with the page that is asked for.
    pub fn page(&self, call: Call) -> Call {
        call.query("limit", self.limit.map(|n| n.to_string()))
            .query("cursor", self.cursor.clone())
    }
}

/// A kind of list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    /// Its columns.
    pub columns: &'static [Column],
    /// Where the id of an item is.
    pub id: &'static str,
    /// What is said where there is none.
    pub empty: &'static str,
}

impl Listing {
    /// Asks for the list by `call` and shows it, once or as long as it is watched.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn show(
        &self,
        client: &Client,
        call: Call,
        args: &ListArgs,
        output: Output,
    ) -> Result<(), Failure> {
        let call = args.page(call);
        watch(&args.watch, output, async || {
            let reply = client.call(call.clone()).await?;
            Ok(self.look(&reply, args.quiet, output))
        })
        .await
    }

    fn look(&self, reply: &Reply, quiet: bool, output: Output) -> Look {
        if output == Output::Json && !quiet {
            return Look::of(reply.line());
        }
        let list = reply.json();
        if quiet {
            return Look::of(ids(&list, self.id));
        }
        Look {
            remark: view::more(&list),
            ..Look::of(self.table(&list))
        }
    }

    /// The list as a table, or the word for an empty one.
    pub fn table(&self, list: &Value) -> String {
        if view::of_list(list).is_empty() {
            return self.empty.to_owned();
        }
        view::items(list, self.columns)
    }
}

fn ids(list: &Value, pointer: &str) -> String {
    let ids: Vec<String> = view::of_list(list)
        .iter()
        .map(|item| cell(item, pointer))
        .filter(|id| !id.is_empty())
        .collect();
    ids.join("\n")
}

/// What one look shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// For stdout; nothing is printed where it is empty.
    pub text: String,
    /// For a person, beside it.
    pub remark: Option<String>,
    /// Whether there will be nothing new to see.
    pub is_last: bool,
}

impl Look {
    /// This text, nothing beside it, and more to come.
    pub fn of(text: String) -> Look {
        Look {
            text,
            ..Look::default()
        }
    }

    /// The answer as it came, or as `view` shows it.
    pub fn at(reply: &Reply, output: Output, view: impl FnOnce(&Value) -> String) -> Look {
        Look::of(match output {
            Output::Json => reply.line(),
            Output::Table => view(&reply.json()),
        })
    }

    fn print(&self, output: Output) -> Result<(), Failure> {
        if !self.text.is_empty() {
            output::line(&self.text)?;
        }
        if output == Output::Table
            && let Some(remark) = &self.remark
        {
            output::remark(remark);
        }
        Ok(())
    }

    fn print_page(&self, output: Output) -> Result<(), Failure> {
        if output == Output::Json {
            return self.print(output);
        }
        let head = to_rfc3339(posthorn_wiring::now());
        let remark = self.remark.as_deref().unwrap_or_default();
        let text = format!("{head}\n{}\n{remark}", self.text);
        output::page(text.trim_end())
    }
}

/// Shows what `look` sees, once or as long as it is watched.
///
/// # Errors
/// As `look`; a failure that may pass ends a watch only when it has seen nothing yet, or after
/// many in a row.
pub(crate) async fn watch(
    args: &WatchArgs,
    output: Output,
    mut look: impl AsyncFnMut() -> Result<Look, Failure>,
) -> Result<(), Failure> {
    if !args.watch {
        return look().await?.print(output);
    }
    let mut patience = Patience::default();
    let mut every = tokio::time::interval(args.every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        every.tick().await;
        looks += 1;
        let is_last = match look().await {
            Ok(look) => {
                patience.is_well();
                look.print_page(output)?;
                look.is_last
            }
            Err(failure) => {
                patience.bear(failure)?;
                false
            }
        };
        if is_last || args.times.is_some_and(|times| looks >= times) {
            return Ok(());
        }
    }
}

/// How many failures in a row are borne: none before the first success. What is the same is said
/// once.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    left: u32,
    said: Option<Failure>,
}

impl Patience {
    /// Something went well.
    pub fn is_well(&mut self) {
        self.left = MAX_FAILURES;
        self.said = None;
    }

    /// Says what failed and goes on.
    ///
    /// # Errors
    /// The failure, where it will not pass by itself or has lasted.
    pub fn bear(&mut self, failure: Failure) -> Result<(), Failure> {
        if self.left == 0 || !failure.may_pass() {
            return Err(failure);
        }
        self.left -= 1;
        if self.said.as_ref() != Some(&failure) {
            output::remark(&output::printable(&failure.to_string()));
            self.said = Some(failure);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        list: ListArgs,
    }

    const LIST: Listing = Listing {
        columns: &[("ID", "/id")],
        id: "/id",
        empty: "no such thing",
    };

    #[test]
    fn how_often_is_said_of_a_watch_only() {
        let parse = |line: &str| Only::try_parse_from(line.split(' '));
        assert!(parse("x --watch --every 5s --times 3").is_ok());
        assert!(parse("x -w").is_ok() && parse("x --limit 3 -q").is_ok());
        for bad in [
            "x --every 5s",
            "x --times 3",
            "x -w --times 0",
            "x -w --every 1ms",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_one_a_line_and_an_empty_list_is_a_sentence() {
        let list = json!({"items": [{"id": "a"}, {"id": "b"}, {"other": 1}]});
        assert_eq!(ids(&list, "/id"), "a\nb");
        assert_eq!(LIST.table(&json!({"items": []})), "no such thing");
    }

    #[test]
    fn a_failure_is_borne_after_a_success_and_not_for_ever() {
        let away = || Failure::Unreachable("away".to_owned());
        let mut patience = Patience::default();
        assert_eq!(patience.bear(away()), Err(away()));
        patience.is_well();
        for _ in 0..MAX_FAILURES {
            assert_eq!(patience.bear(away()), Ok(()));
        }
        assert_eq!(patience.bear(away()), Err(away()));
        patience.is_well();
        let refused = Failure::refused("no");
        assert_eq!(patience.bear(refused.clone()), Err(refused));
    }

    #[tokio::test]
    async fn a_watch_ends_after_its_times_or_with_the_last_look() {
        let args = |line: &str| Only::try_parse_from(line.split(' ')).unwrap().list.watch;
        let mut seen = 0;
        let look = async || {
            seen += 1;
            Ok(Look::default())
        };
        watch(&args("x -w --every 100ms --times 3"), Output::Json, look)
            .await
            .unwrap();
        assert_eq!(seen, 3);
        let mut seen = 0;
        let look = async || {
            seen += 1;
            let is_last = seen == 2;
            Ok(Look {
                is_last,
                ..Look::default()
            })
        };
        watch(&args("x -w --every 100ms"), Output::Json, look)
            .await
            .unwrap();
        assert_eq!(seen, 2);
    }
}
