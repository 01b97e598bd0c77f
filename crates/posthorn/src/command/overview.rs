//! `posthorn overview`: the installation at one glance.

use super::listing::{Look, WatchArgs, watch};
use crate::address::{ConnectArgs, Service};
use crate::client::{Call, Client};
use crate::failure::Failure;
use crate::output::Output;
use crate::view::{cell, of_list};
use clap::Args;
use reqwest::Method;
use serde_json::Value;

/// Columns of a line of bars.
const BARS: usize = 60;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Of what.
#[derive(Debug, Args)]
pub(crate) struct OverviewArgs {
    /// Of this tenant.
    #[arg(long)]
    tenant: Option<String>,

    #[command(flatten)]
    watch: WatchArgs,

    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows it.
pub(crate) async fn run(args: &OverviewArgs, output: Output) -> Result<(), Failure> {
    let client = Client::new(&args.connect)?;
    let call = Call::new(Service::Admin, Method::GET, &["v1", "overview"])
        .query("tenant", args.tenant.clone());
    watch(&args.watch, output, async || {
        let reply = client.call(call.clone()).await?;
        Ok(Look::at(&reply, output, overview))
    })
    .await
}

fn overview(answer: &Value) -> String {
    let mut lines = Vec::new();
    if answer.get("streams").is_some_and(Value::is_object) {
        let fields = [
            ("due", "due"),
            ("waiting", "waiting"),
            ("held", "held"),
            ("dead letters", "dead_letters"),
            ("oldest due", "oldest_due_seconds"),
        ];
        let fields = fields.map(|(word, key)| {
            let unit = if key.ends_with("_seconds") { " s" } else { "" };
            format!("{word} {}{unit}", cell(answer, &format!("/streams/{key}")))
        });
        lines.push(fields.join("   "));
    }
    lines.push(format!(
        "endpoints {}   disabled {}   breakers open {}",
        cell(answer, "/endpoints/total"),
        cell(answer, "/endpoints/disabled"),
        cell(answer, "/endpoints/breakers_open"),
    ));
    lines.push(lanes(answer.get("lanes").unwrap_or(&Value::Null)));
    lines.push(String::new());
    let series = of_list(answer.get("series").unwrap_or(&Value::Null));
    for (word, unit, key) in [
        ("accepted", "/s", "accepted"),
        ("delivered", "/s", "delivered"),
        ("failed", "/s", "failed"),
        ("p95", " ms", "latency_p95_ms"),
        ("held", "", "held"),
        ("dead", "", "dead_letters"),
    ] {
        lines.extend(bars(word, unit, &numbers(series, key)));
    }
    lines.join("\n").trim_end().to_owned()
}

fn lanes(lanes: &Value) -> String {
    let reasons = lanes.get("by_reason").and_then(Value::as_object);
    let reasons: Vec<String> = reasons
        .into_iter()
        .flatten()
        .map(|(reason, count)| format!("{count} {}", crate::output::printable(reason)))
        .collect();
    let active = cell(lanes, "/active");
    match reasons.is_empty() {
        true => format!("lanes {active}"),
        false => format!("lanes {active}: {}", reasons.join(", ")),
    }
}

fn numbers(series: &[Value], key: &str) -> Vec<Option<f64>> {
    let number = |point: &Value| point.get(key).and_then(Value::as_f64);
    series.iter().map(number).collect()
}

/// The newest figure and its past as bars; nothing where nothing is known.
fn bars(word: &str, unit: &str, numbers: &[Option<f64>]) -> Option<String> {
    let newest = numbers.iter().rev().flatten().next()?;
    let highest = numbers.iter().flatten().copied().fold(0.0, f64::max);
    let width = numbers.len().div_ceil(BARS).max(1);
    let shown: String = numbers
        .chunks(width)
        .map(|chunk| bar(chunk.iter().flatten().copied().reduce(f64::max), highest))
        .collect();
    let figure = format!("{}{unit}", rounded(*newest));
    Some(format!("{word:<10}{figure:>12}  {shown}"))
}

fn bar(number: Option<f64>, highest: f64) -> char {
    let Some(number) = number else {
        return ' ';
    };
    if highest <= 0.0 {
        return HEIGHTS[0];
    }
    let step = (number / highest * (HEIGHTS.len() - 1) as f64).ceil();
    HEIGHTS[(step as usize).min(HEIGHTS.len() - 1)]
}

fn rounded(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_shown_and_what_is_not_is_left_out() {
        let shown = overview(&json!({
            "streams": {"due": 1, "waiting": 2, "held": 3, "dead_letters": 4,
                        "oldest_due_seconds": 0.5},
            "endpoints": {"total": 5, "disabled": 0, "breakers_open": 1},
            "lanes": {"active": 2, "by_reason": {"breaker_open": 1, "ramp": 1}},
            "series": [
                {"delivered": 1.25, "failed": null, "latency_p95_ms": 40},
                {"delivered": 2.5, "failed": null, "latency_p95_ms": 80},
            ],
        }));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = shown.lines().map(words).collect();
        let wanted = [
            "due 1 waiting 2 held 3 dead letters 4 oldest due 0.5 s",
            "endpoints 5 disabled 0 breakers open 1",
            "lanes 2: 1 breaker_open, 1 ramp",
            "",
            "delivered 2.5/s ▅█",
            "p95 80 ms ▅█",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn an_overview_of_one_tenant_has_no_streams() {
        let shown = overview(&json!({"streams": null, "endpoints": {"total": 1},
            "lanes": {"active": 0, "by_reason": {}}, "series": []}));
        assert!(shown.starts_with("endpoints 1") && shown.ends_with("lanes 0"));
    }

    #[test]
    fn a_long_series_fits_a_line_and_gaps_stay_gaps() {
        let many: Vec<Option<f64>> = (0..180).map(|n| (n > 90).then_some(f64::from(n))).collect();
        let line = bars("x", "", &many).unwrap();
        assert_eq!(line.chars().count(), 24 + BARS);
        assert!(
            line.ends_with('█') && line.contains(&" ".repeat(30)),
            "{line}"
        );
        assert_eq!(bar(Some(0.0), 0.0), '▁');
        assert_eq!(bars("x", "", &[None]), None);
    }
}
