//! `posthorn tail`: attempts as they happen.
//!
//! The service has no stream of them, so its log is asked twice a second for what is new. A
//! record is dated by the beginning of its attempt and may come to the log after a later one's,
//! so each question reaches back, and what was shown is remembered for as long.

use super::listing::Patience;
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::instant::Moment;
use crate::output::{self, Output};
use crate::timeline::{answer, result, then};
use crate::view::cell;
use clap::{Args, ValueEnum};
use posthorn_delivery::{EventType, Pattern, UnixMillis};
use posthorn_http_api::time::{parse_rfc3339, to_rfc3339};
use reqwest::Method;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(500);
/// An attempt takes at most a minute, and its record comes right after it.
const REACH_BACK_MILLIS: i64 = 90_000;
/// The most that one answer holds.
const PAGE: &str = "500";
/// Pages of one question: more than so many new attempts in half a second are skipped.
const MAX_PAGES: usize = 20;

/// Which attempts.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    /// To this endpoint.
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,

    /// For this event.
    #[arg(long, value_name = "ID")]
    event: Option<String>,

    /// For events of this type; NATS wildcards are understood.
    #[arg(long = "type", value_name = "PATTERN", value_parser = pattern)]
    event_type: Option<Pattern>,

    /// Answered with this HTTP status.
    #[arg(long)]
    status: Option<u16>,

    /// With this outcome.
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,

    /// Begin with what began then: RFC 3339, or how long ago, like 5m.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = Moment::parse)]
    since: Moment,

    /// What receivers answered as well, below each attempt.
    #[arg(long)]
    show_answer: bool,

    /// End after so many attempts.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// What may have come of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Outcome {
    /// The receiver took it.
    Delivered,
    /// It did not; whatever follows.
    Failed,
    /// It did not, and is asked again.
    Retry,
    /// It did not, and the delivery was given up.
    Dead,
    /// Nothing was sent, for what the endpoint is.
    Skipped,
}

impl Outcome {
    fn is(self, disposition: &str) -> bool {
        match self {
            Outcome::Delivered => disposition == "complete",
            Outcome::Failed => matches!(disposition, "retry" | "dead"),
            Outcome::Retry => disposition == "retry",
            Outcome::Dead => disposition == "dead",
            Outcome::Skipped => disposition == "skipped",
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|rule| rule.to_string())
}

impl TailArgs {
    /// What the service does not filter by.
    fn wants(&self, attempt: &Value) -> bool {
        let kind = self.event_type.as_ref().is_none_or(|pattern| {
            EventType::parse(&cell(attempt, "/type")).is_ok_and(|kind| pattern.matches(&kind))
        });
        let disposition = cell(attempt, "/disposition");
        kind && self.outcome.is_none_or(|outcome| outcome.is(&disposition))
    }
}

/// Shows attempts until interrupted.
pub(crate) async fn run(args: &TailArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let begin = args.since.to_rfc3339(posthorn_wiring::now());
    let mut shown = Shown::new(parse_rfc3339(&begin).unwrap_or(UnixMillis(0)));
    let mut every = tokio::time::interval(EVERY);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut patience = Patience::default();
    loop {
        every.tick().await;
        let fresh = match new_ones(&client, args, &mut shown).await {
            Ok(fresh) => fresh,
            Err(failure) => {
                patience.bear(failure)?;
                continue;
            }
        };
        patience.is_well();
        for attempt in fresh.iter().filter(|attempt| args.wants(attempt)) {
            output::line(&text(attempt, args.show_answer, output))?;
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

fn text(attempt: &Value, show_answer: bool, output: Output) -> String {
    match output {
        Output::Json => attempt.to_string(),
        Output::Table if show_answer => {
            let lines = std::iter::once(line(attempt)).chain(answer(attempt));
            lines.collect::<Vec<_>>().join("\n")
        }
        Output::Table => line(attempt),
    }
}

/// What has not been shown, oldest first.
async fn new_ones(
    client: &Client,
    args: &TailArgs,
    shown: &mut Shown,
) -> Result<Vec<Value>, Failure> {
    let since = to_rfc3339(shown.since());
    let mut cursor = None;
    let mut fresh = Vec::new();
    for _ in 0..MAX_PAGES {
        let call = Call::new(Service::Admin, Method::GET, &["v1", "attempts"])
            .query("tenant", args.tenant.clone())
            .query("endpoint", args.endpoint.clone())
            .query("event", args.event.clone())
            .query("status", args.status.map(|status| status.to_string()))
            .query("since", Some(since.clone()))
            .query("limit", Some(PAGE))
            .query("cursor", cursor);
        let list = client.call(call).await?.json();
        let items = list.get("items").and_then(Value::as_array);
        let before = fresh.len();
        let items = items.into_iter().flatten();
        fresh.extend(items.filter(|attempt| shown.is_new(attempt)).cloned());
        cursor = Some(cell(&list, "/next_cursor")).filter(|cursor| !cursor.is_empty());
        // A page without anything new lies before what was shown.
        if cursor.is_none() || fresh.len() == before {
            break;
        }
    }
    shown.forget();
    fresh.reverse();
    Ok(fresh)
}

fn line(attempt: &Value) -> String {
    format!(
        "{} {} {}ms {} {} {} -> {} attempt={} {}",
        cell(attempt, "/at"),
        result(attempt),
        cell(attempt, "/latency_ms"),
        cell(attempt, "/tenant"),
        cell(attempt, "/event_id"),
        cell(attempt, "/type"),
        cell(attempt, "/endpoint"),
        cell(attempt, "/number"),
        then(attempt),
    )
}

/// What has been shown, as far back as the next question reaches.
struct Shown {
    begin: UnixMillis,
    newest: UnixMillis,
    attempts: HashMap<String, UnixMillis>,
}

impl Shown {
    fn new(begin: UnixMillis) -> Shown {
        Shown {
            begin,
            newest: begin,
            attempts: HashMap::new(),
        }
    }

    fn since(&self) -> UnixMillis {
        let back = UnixMillis(self.newest.0.saturating_sub(REACH_BACK_MILLIS));
        back.max(self.begin)
    }

    /// Whether it has not been shown; from now on it counts as shown.
    fn is_new(&mut self, attempt: &Value) -> bool {
        let at = parse_rfc3339(&cell(attempt, "/at")).unwrap_or(self.newest);
        self.newest = self.newest.max(at);
        let keys = [
            "/at",
            "/tenant",
            "/endpoint",
            "/event_id",
            "/number",
            "/disposition",
            "/replay",
        ];
        let key = keys.map(|pointer| cell(attempt, pointer)).join(" ");
        self.attempts.insert(key, at).is_none()
    }

    fn forget(&mut self) {
        let since = self.since();
        self.attempts.retain(|_, at| *at >= since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attempt(at: i64, event: &str) -> Value {
        json!({"at": to_rfc3339(UnixMillis(at)), "event_id": event, "endpoint": "ep_1",
               "tenant": "acme", "response_body": "busy",
               "type": "a.b", "number": 1, "status": 503, "latency_ms": 4,
               "disposition": "dead", "reason": "exhausted"})
    }

    #[test]
    fn an_attempt_is_shown_once_also_when_it_comes_late() {
        let mut shown = Shown::new(UnixMillis(0));
        assert!(shown.is_new(&attempt(1_000_000, "evt_1")));
        assert!(!shown.is_new(&attempt(1_000_000, "evt_1")));
        assert!(shown.is_new(&attempt(950_000, "evt_2")));
        assert_eq!(shown.since(), UnixMillis(910_000));
    }

    #[test]
    fn what_is_remembered_is_bounded_by_what_is_asked_for() {
        let mut shown = Shown::new(UnixMillis(0));
        for n in 0..100 {
            shown.is_new(&attempt(n * 10_000, &format!("evt_{n}")));
        }
        shown.forget();
        assert_eq!(shown.attempts.len(), 10);
    }

    #[test]
    fn a_line_says_what_happened_and_what_is_next() {
        let line = line(&attempt(0, "evt_1"));
        let wanted =
            "1970-01-01T00:00:00.000Z 503 4ms acme evt_1 a.b -> ep_1 attempt=1 dead (exhausted)";
        assert_eq!(line, wanted);
        let more = text(&attempt(0, "evt_1"), true, Output::Table);
        assert!(more.ends_with("| busy") && more.starts_with(wanted));
    }

    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        tail: TailArgs,
    }

    #[test]
    fn an_attempt_is_wanted_by_type_and_outcome() {
        use clap::Parser as _;
        let parse = |line: &str| Only::try_parse_from(line.split(' '));
        for (line, wanted) in [
            ("x", true),
            ("x --type a.* --outcome dead", true),
            ("x --outcome failed", true),
            ("x --type b.*", false),
            ("x --outcome delivered", false),
            ("x --outcome retry", false),
        ] {
            let args = parse(line).unwrap().tail;
            assert_eq!(args.wants(&attempt(0, "evt_1")), wanted, "{line}");
        }
        assert!(parse("x --type a..b").is_err() && parse("x --limit 0").is_err());
    }
}
