//! The attempts of one delivery as a time line: when, after how long a wait, what came back and
//! what was decided, with the receiver's own words below.

use crate::output::printable;
use crate::view::cell;
use posthorn_http_api::time::parse_rfc3339;
use serde_json::Value;

/// The most lines of one answer that are shown; the whole of it is in `--output json`.
const MAX_LINES: usize = 12;
/// The most characters of one of these lines.
const MAX_WIDTH: usize = 160;

/// The time line of `attempts`, oldest first; a word where there are none.
pub(crate) fn timeline(attempts: &[Value]) -> String {
    if attempts.is_empty() {
        return "no attempt".to_owned();
    }
    let mut lines = Vec::new();
    let mut before: Option<i64> = None;
    for attempt in attempts {
        let at = cell(attempt, "/at");
        let millis = parse_rfc3339(&at).ok().map(|at| at.0);
        let waited = millis.zip(before).map(|(at, before)| at - before);
        lines.push(head(attempt, &at, waited));
        lines.extend(answer(attempt));
        before = millis.or(before);
    }
    lines.join("\n")
}

fn head(attempt: &Value, at: &str, waited: Option<i64>) -> String {
    let number = format!("#{}", cell(attempt, "/number"));
    let waited = waited.map(wait).unwrap_or_default();
    let took = format!("{} ms", cell(attempt, "/latency_ms"));
    let head = format!(
        "{number:<4} {at}  {waited:>9}  {:<12} {took:>9}  {}",
        result(attempt),
        then(attempt)
    );
    head.trim_end().to_owned()
}

/// The status, or why there is none.
pub(crate) fn result(attempt: &Value) -> String {
    match cell(attempt, "/status") {
        status if status.is_empty() => cell(attempt, "/error"),
        status => status,
    }
}

/// What was decided, where the answer says so.
pub(crate) fn then(attempt: &Value) -> String {
    let then = cell(attempt, "/disposition");
    let more = match (cell(attempt, "/reason"), cell(attempt, "/next_attempt_at")) {
        (reason, _) if !reason.is_empty() => format!(" ({reason})"),
        (_, next) if !next.is_empty() => format!(" at {next}"),
        _ => String::new(),
    };
    let again = match attempt.get("replay").and_then(Value::as_bool) {
        Some(true) => " [sent again]",
        _ => "",
    };
    format!("{then}{more}{again}")
}

/// What the receiver answered, indented.
pub(crate) fn answer(attempt: &Value) -> Vec<String> {
    let text = match cell_raw(attempt, "response_body") {
        Some(text) => text.to_owned(),
        None => match cell_raw(attempt, "response_body_base64") {
            Some(base64) => format!("(base64) {base64}"),
            None => return Vec::new(),
        },
    };
    block(&text, MAX_LINES)
}

/// Lines of a stranger's text, each behind a bar and none of them too long.
pub(crate) fn block(text: &str, max_lines: usize) -> Vec<String> {
    let count = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(max_lines).map(barred).collect();
    if count > max_lines {
        lines.push(format!("     | … {} lines more", count - max_lines));
    }
    lines
}

fn barred(line: &str) -> String {
    let safe = printable(line);
    let cut = console::truncate_str(&safe, MAX_WIDTH, "…");
    format!("     | {cut}").trim_end().to_owned()
}

fn cell_raw<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    let text = value.get(key)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// A wait for people: to the millisecond below a second, to a tenth of a second below a minute,
/// to the second above.
fn wait(millis: i64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        ..1 => format!("+{millis} ms"),
        1..60 => format!("+{}.{} s", seconds, millis.rem_euclid(1_000) / 100),
        60..3_600 => format!("+{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("+{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_attempt_is_a_line_and_the_answer_below_it() {
        let shown = timeline(&[
            json!({"at": "2030-01-31T08:00:00.000Z", "number": 1, "status": 503, "latency_ms": 7,
                   "disposition": "retry", "next_attempt_at": "2030-01-31T08:00:02.100Z",
                   "response_body": "{\n \"busy\": true\u{1b}\n}"}),
            json!({"at": "2030-01-31T08:00:02.150Z", "number": 2, "error": "timeout",
                   "latency_ms": 15000, "disposition": "dead", "reason": "exhausted"}),
        ]);
        let lines: Vec<String> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "#1 2030-01-31T08:00:00.000Z 503 7 ms retry at 2030-01-31T08:00:02.100Z",
                "| {",
                "| \"busy\": true\\u{1b}",
                "| }",
                "#2 2030-01-31T08:00:02.150Z +2.1 s timeout 15000 ms dead (exhausted)",
            ]
        );
    }

    #[test]
    fn waits_are_said_as_people_do() {
        for (millis, said) in [
            (90, "+90 ms"),
            (1_550, "+1.5 s"),
            (59_999, "+59.9 s"),
            (61_000, "+1m 01s"),
            (3_720_000, "+1h 02m"),
        ] {
            assert_eq!(wait(millis), said);
        }
    }

    #[test]
    fn a_long_answer_is_cut_in_both_ways() {
        let long = format!("{}\n{}", "x".repeat(500), "y\n".repeat(40));
        let shown = block(&long, 12);
        assert_eq!(shown.len(), 13);
        assert!(shown[0].chars().count() < 170 && shown[0].ends_with('…'));
        assert!(shown[12].contains("29 lines more"));
    }

    #[test]
    fn nothing_tried_is_said() {
        assert_eq!(timeline(&[]), "no attempt");
    }
}
