//! `posthorn endpoints recover`: what an endpoint missed, from the retained events.

use super::progress;
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::instant::Moment;
use crate::output::{self, Output};
use crate::view::{self, cell};
use clap::Args;
use posthorn_delivery::UnixMillis;
use serde_json::{Map, Value, json};

/// What to send, and how fast.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recover")]
pub(crate) struct RecoverArgs {
    /// What was accepted then or later: RFC 3339, or how long ago, like 6h.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Moment,

    /// And before then.
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    until: Option<Moment>,

    /// How many a second; 50 where nothing is said.
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,

    /// Send what was delivered too.
    #[arg(long)]
    include_delivered: bool,

    /// Only count what would be sent.
    #[arg(long)]
    dry_run: bool,

    /// Do not wait for the end; `posthorn replays show` tells.
    #[arg(long)]
    detach: bool,
}

impl RecoverArgs {
    /// What is asked for, by the names of the API; what is not said is not sent.
    pub fn to_json(&self, now: UnixMillis) -> Value {
        let mut body = Map::new();
        body.insert("since".to_owned(), json!(self.since.to_rfc3339(now)));
        if let Some(until) = self.until {
            body.insert("until".to_owned(), json!(until.to_rfc3339(now)));
        }
        if let Some(rate) = self.rate {
            body.insert("rate_per_second".to_owned(), json!(rate));
        }
        if self.include_delivered {
            body.insert("include_delivered".to_owned(), json!(true));
        }
        if self.dry_run {
            body.insert("dry_run".to_owned(), json!(true));
        }
        Value::Object(body)
    }
}

/// Makes the job by `call`, and follows it to its end.
pub(crate) async fn run(
    client: &Client,
    call: Call,
    args: &RecoverArgs,
    output: Output,
) -> Result<(), Failure> {
    let body = args.to_json(posthorn_wiring::now());
    let reply = client.call(call.json(&body)).await?;
    let answer = reply.json();
    if output == Output::Table
        && let Some(remark) = beyond(&body, &answer)
    {
        output::remark(&remark);
    }
    // A count that takes long is a job as well.
    let is_count = answer.get("id").is_none();
    if args.dry_run && is_count {
        return reply.show(output, counted);
    }
    if args.detach {
        return reply.show(output, view::record);
    }
    progress::follow(client, &cell(&answer, "/id"), output).await
}

/// That what is asked for reaches further back than what is kept, which is no loss where nothing
/// came before.
fn beyond(body: &Value, answer: &Value) -> Option<String> {
    let oldest = answer.get("oldest_retained")?.as_str()?;
    let since = body.get("since")?.as_str()?;
    // Both are in UTC and of one form, so that their texts sort as their times do.
    let remark = format!("the oldest event kept is of {}", output::printable(oldest));
    (since < oldest).then(|| format!("{remark}: nothing before it can be sent"))
}

/// What would be sent, and what is left out.
fn counted(answer: &Value) -> String {
    let matched = cell(answer, "/matched");
    let left_out = [("delivered", "/delivered"), ("under way", "/under_way")];
    let left_out = left_out.map(|(word, pointer)| (word, cell(answer, pointer)));
    let known = left_out.iter().filter(|(_, count)| !count.is_empty());
    let known: Vec<String> = known
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    match known.is_empty() {
        true => format!("{matched} would be sent"),
        false => format!("{matched} would be sent ({})", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        recover: RecoverArgs,
    }

    #[test]
    fn what_is_said_is_asked_for_and_nothing_else() {
        let parse = |line: &str| Only::try_parse_from(line.split(' ')).unwrap().recover;
        let now = UnixMillis(1_700_000_000_000);
        let bare = parse("x --since 1h").to_json(now);
        assert_eq!(bare, json!({"since": "2023-11-14T21:13:20.000Z"}));
        let line = "x --since 2h --until 1h --rate 5 --include-delivered --dry-run";
        let wanted = json!({"since": "2023-11-14T20:13:20.000Z",
            "until": "2023-11-14T21:13:20.000Z", "rate_per_second": 5,
            "include_delivered": true, "dry_run": true});
        assert_eq!(parse(line).to_json(now), wanted);
        assert!(Only::try_parse_from(["x"]).is_err());
    }

    #[test]
    fn who_asks_for_more_than_is_kept_is_told() {
        let body = json!({"since": "2030-01-31T08:00:00.000Z"});
        let kept = |oldest| beyond(&body, &json!({"oldest_retained": oldest}));
        assert!(kept("2030-01-31T09:00:00.000Z").unwrap().contains("T09:00"));
        assert_eq!(kept("2030-01-30T09:00:00.000Z"), None);
        assert_eq!(beyond(&body, &json!({"oldest_retained": null})), None);
    }

    #[test]
    fn a_count_says_what_is_left_out() {
        let answer = json!({"matched": 3, "delivered": 5, "under_way": 0, "dry_run": true});
        assert_eq!(
            counted(&answer),
            "3 would be sent (5 delivered, 0 under way)"
        );
        assert_eq!(counted(&json!({"matched": 3})), "3 would be sent");
    }
}
