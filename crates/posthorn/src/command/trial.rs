//! `posthorn endpoints test`: one request to an endpoint, with what was sent and what came back.

use crate::output::printable;
use crate::timeline::block;
use crate::view::{self, cell};
use serde_json::Value;

/// The most lines of a body that are shown; the whole of it is in `--output json`.
const MAX_LINES: usize = 40;

/// The whole record: request, response, and whatever else the answer says.
pub(crate) fn record(answer: &Value) -> String {
    let mut rest = answer.clone();
    let mut take = |name: &str| {
        let fields = rest.as_object_mut();
        fields
            .and_then(|fields| fields.remove(name))
            .unwrap_or_default()
    };
    let (request, response) = (take("request"), take("response"));
    if let Some(fields) = rest.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let mut blocks = vec![view::record(&rest)];
    if request.is_object() {
        let head = format!("{} {}", cell(&request, "/method"), cell(&request, "/url"));
        blocks.push(exchange("request", head.trim(), &request));
    }
    if response.is_object() {
        let head = cell(&response, "/status");
        blocks.push(exchange("response", &head, &response));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

/// What of an exchange has no line of its own.
const KNOWN: [&str; 6] = ["method", "url", "status", "headers", "body", "body_base64"];

fn exchange(title: &str, head: &str, part: &Value) -> String {
    let mut lines = vec![title.to_owned()];
    if !head.is_empty() {
        lines.push(format!("     {head}"));
    }
    lines.extend(headers(part.get("headers").unwrap_or(&Value::Null)));
    let body = ["body", "body_base64"].map(|key| part.get(key).and_then(Value::as_str));
    match body {
        [Some(text), _] => lines.extend(block(text, MAX_LINES)),
        [None, Some(base64)] => lines.extend(block(&format!("(base64) {base64}"), 1)),
        [None, None] => {}
    }
    for (name, value) in part.as_object().into_iter().flatten() {
        if !KNOWN.contains(&name.as_str()) && !value.is_null() {
            let shown = cell(part, &format!("/{name}"));
            lines.push(format!("     {}: {shown}", printable(name)));
        }
    }
    lines.join("\n")
}

/// Headers as an object, as pairs, or as objects of a name and a value.
fn headers(headers: &Value) -> Vec<String> {
    let line = |name: &str, value: &str| format!("     {}: {}", printable(name), printable(value));
    match headers {
        Value::Object(headers) => headers
            .iter()
            .map(|(name, value)| line(name, &plain(value)))
            .collect(),
        Value::Array(headers) => headers
            .iter()
            .map(|header| match header.as_array().map(Vec::as_slice) {
                Some([name, value]) => line(&plain(name), &plain(value)),
                _ => line(&plain(&header["name"]), &plain(&header["value"])),
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn plain(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

/// Why the endpoint did not take it, where it did not.
pub(crate) fn complaint(answer: &Value) -> Option<String> {
    let status = answer.pointer("/response/status").and_then(Value::as_u64);
    if let Some(status) = status {
        let taken = (200..300).contains(&status);
        return (!taken).then(|| format!("the endpoint answered {status}"));
    }
    let outcome = cell(answer, "/outcome");
    if outcome == "pending" {
        let advice = "`posthorn endpoints attempts` shows its answer when there is one";
        return Some(format!("the endpoint has not answered in time; {advice}"));
    }
    let reason = ["/detail", "/error"].map(|pointer| cell(answer, pointer));
    let reason = reason.iter().find(|reason| !reason.is_empty())?;
    Some(match outcome.as_str() {
        "refused" => format!("no request was made: {reason}"),
        _ => format!("the endpoint was not reached: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(answer: &Value) -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        record(answer).lines().map(words).collect()
    }

    #[test]
    fn the_whole_exchange_is_shown() {
        let answer = json!({
            "id": "evt_1", "latency_ms": 12,
            "request": {"method": "POST", "url": "http://h/", "body": "{}",
                        "headers": {"webhook-id": "evt_1", "x-token": "***"}},
            "response": {"status": 503, "headers": [["a", "b"], {"name": "c", "value": "d"}],
                         "body": "busy\u{1b}\nnow", "truncated": false},
        });
        let wanted = [
            "id evt_1",
            "latency_ms 12",
            "",
            "request",
            "POST http://h/",
            "webhook-id: evt_1",
            "x-token: ***",
            "| {}",
            "",
            "response",
            "503",
            "a: b",
            "c: d",
            "| busy\\u{1b}",
            "| now",
            "truncated: false",
        ];
        assert_eq!(lines(&answer), wanted);
        assert_eq!(
            complaint(&answer).as_deref(),
            Some("the endpoint answered 503")
        );
    }

    #[test]
    fn an_answer_without_a_record_is_still_shown() {
        let answer = json!({"id": "evt_1", "duplicate": false});
        assert_eq!(lines(&answer), ["duplicate false", "id evt_1"]);
        assert_eq!(complaint(&answer), None);
    }

    #[test]
    fn no_answer_is_a_complaint_and_a_good_one_is_none() {
        for (outcome, detail, word) in [
            ("failed", None, "not reached: timeout"),
            (
                "refused",
                Some("https is required"),
                "no request was made: https",
            ),
            ("pending", None, "endpoints attempts"),
        ] {
            let answer = json!({"outcome": outcome, "error": "timeout", "detail": detail,
                                "response": null});
            assert!(complaint(&answer).unwrap().contains(word), "{outcome}");
        }
        assert_eq!(complaint(&json!({"response": {"status": 204}})), None);
    }
}
