//! One dead letter for people: what it is, why it died, what was tried, what was to be sent.

use crate::failure::Failure;
use crate::output::printable;
use crate::timeline::timeline;
use crate::view::{self, of_list};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The letter: its fields, its time line, its payload.
pub(crate) fn letter(letter: &Value) -> String {
    let mut fields = letter.clone();
    let mut take = |name: &str| {
        let fields = fields.as_object_mut();
        fields
            .and_then(|fields| fields.remove(name))
            .unwrap_or_default()
    };
    let (attempts, text, base64) = (take("attempts"), take("payload"), take("payload_base64"));
    let payload = match (text.as_str(), base64.as_str()) {
        (Some(text), _) => pretty(text),
        (None, Some(base64)) => format!("(base64) {}", printable(base64)),
        (None, None) => "(none)".to_owned(),
    };
    format!(
        "{}\n\nattempts\n{}\n\npayload\n{payload}",
        view::record(&fields),
        timeline(of_list(&attempts)),
    )
}

/// JSON is laid out for reading; anything else stays as it is. `--payload` gives the bytes.
fn pretty(text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let laid_out = parsed.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let text = laid_out.as_deref().unwrap_or(text);
    let lines: Vec<String> = text.lines().map(printable).collect();
    lines.join("\n")
}

/// The payload's bytes.
///
/// # Errors
/// [`Failure::Refused`] when the answer holds none that can be read.
pub(crate) fn payload(letter: &Value) -> Result<Vec<u8>, Failure> {
    if let Some(text) = letter.get("payload").and_then(Value::as_str) {
        return Ok(text.as_bytes().to_vec());
    }
    let base64 = letter.get("payload_base64").and_then(Value::as_str);
    let bytes = base64.and_then(|text| STANDARD.decode(text).ok());
    bytes.ok_or_else(|| Failure::refused("the letter has no payload"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_letter_is_its_fields_its_time_line_and_its_payload() {
        let shown = letter(&json!({
            "id": "dl_1", "reason": "exhausted", "payload": "{\"a\":1}", "new_field": {"x": 2},
            "attempts": [{"at": "t1", "number": 1, "status": 503, "latency_ms": 7,
                          "response_body": "no\u{1b}"}],
        }));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = shown.lines().map(words).collect();
        let wanted = [
            "id dl_1",
            "new_field.x 2",
            "reason exhausted",
            "",
            "attempts",
            "#1 t1 503 7 ms",
            "| no\\u{1b}",
            "",
            "payload",
            "{",
            "\"a\": 1",
            "}",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_payload_that_is_no_json_is_shown_as_it_is_and_steers_no_terminal() {
        let shown = letter(&json!({"payload": "plain\u{1b}[2J\ntext"}));
        assert!(shown.ends_with("payload\nplain\\u{1b}[2J\ntext"), "{shown}");
        let binary = letter(&json!({"payload_base64": "/wA="}));
        assert!(binary.ends_with("payload\n(base64) /wA="));
    }

    #[test]
    fn the_bytes_of_a_payload_are_exact() {
        let odd = "{ \"a\" : 1.0 ,\n}";
        assert_eq!(
            payload(&json!({"payload": odd})),
            Ok(odd.as_bytes().to_vec())
        );
        assert_eq!(
            payload(&json!({"payload_base64": "/wA="})),
            Ok(vec![0xff, 0])
        );
        assert!(payload(&json!({})).is_err());
    }
}
