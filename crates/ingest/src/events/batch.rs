//! Reading a batch: each item on its own, so that one that is wrong does not stop the others.
//!
//! A payload is kept as the slice of text that it is. It is not parsed beyond finding its end,
//! so its numbers, escapes and spaces reach receivers as they were written.

use super::headers::{JSON, check_key};
use crate::config::MAX_ITEMS;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use posthorn_delivery::EventType;
use posthorn_http_api::Problem;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An item that may be published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub event_type: EventType,
    pub key: Option<String>,
    pub payload: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    r#type: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// How the items are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON array.
    Array,
    /// One JSON object a line.
    Lines,
}

impl Form {
    /// By the `Content-Type`; nothing said is an array.
    ///
    /// # Errors
    /// 400 for any other media type.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Form, Problem> {
        let Some(declared) = headers.get(header::CONTENT_TYPE) else {
            return Ok(Form::Array);
        };
        let text = declared.to_str().unwrap_or_default().to_ascii_lowercase();
        match text.split(';').next().unwrap_or_default().trim() {
            JSON => Ok(Form::Array),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Form::Lines),
            _ => {
                let detail = "a batch is application/json or application/x-ndjson";
                Err(Problem::bad_request("content-type", "content-type", detail))
            }
        }
    }
}

/// The items of a batch; what is wrong with one is in its place.
///
/// # Errors
/// Where the batch as a whole cannot be read or has too many items or none: 400 or 422.
pub(crate) fn read(
    body: &Bytes,
    form: Form,
    max_payload: usize,
) -> Result<Vec<Result<Item, Problem>>, Problem> {
    let parts: Vec<&[u8]> = match form {
        Form::Array => elements(body)?,
        Form::Lines => lines(body),
    };
    if parts.is_empty() || parts.len() > MAX_ITEMS {
        let detail = format!(
            "a batch has 1 to {MAX_ITEMS} items, and this has {}",
            parts.len()
        );
        return Err(Problem::unprocessable("batch-size", "items", detail));
    }
    let items = parts.iter().enumerate();
    Ok(items
        .map(|(index, part)| item(body, part, index, max_payload))
        .collect())
}

fn lines(body: &[u8]) -> Vec<&[u8]> {
    body.split(|b| *b == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The elements of a JSON array as they stand in it.
fn elements(body: &[u8]) -> Result<Vec<&[u8]>, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read: Result<Vec<&RawValue>, _> = serde_path_to_error::deserialize(&mut reader);
    let values = read.map_err(|error| {
        let place = error.path().iter().find_map(|segment| match segment {
            serde_path_to_error::Segment::Seq { index } => Some(*index),
            _ => None,
        });
        not_json(place, error.inner())
    })?;
    reader.end().map_err(|error| not_json(None, &error))?;
    Ok(values.iter().map(|value| value.get().as_bytes()).collect())
}

fn not_json(index: Option<usize>, error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let detail = format!("not a JSON array of items; see line {line} column {column}");
    let field = index.map_or_else(|| "items".to_owned(), |index| format!("items[{index}]"));
    Problem::bad_request("json", field, detail)
}

fn item(body: &Bytes, part: &[u8], index: usize, max_payload: usize) -> Result<Item, Problem> {
    let at = |name: &str| format!("items[{index}]{name}");
    let written: Written<'_> = serde_json::from_slice(part).map_err(|error| {
        let field = named_field(&error).map_or_else(|| at(""), |name| at(&format!(".{name}")));
        let detail = "an item is an object of \"type\", \"payload\" and, if it likes, \"id\"";
        Problem::bad_request("item", field, detail)
    })?;
    let event_type = EventType::parse(&written.r#type)
        .map_err(|rule| Problem::bad_request("invalid", at(".type"), rule.to_string()))?;
    if let Some(key) = &written.id {
        check_key(key).map_err(|rule| Problem::bad_request("invalid", at(".id"), rule))?;
    }
    let payload = written.payload.get().as_bytes();
    if payload.len() > max_payload {
        let detail = format!("the payload is larger than {max_payload} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(Problem::new(status, "too-large", detail).about(at(".payload")));
    }
    Ok(Item {
        event_type,
        key: written.id,
        // A view of the body that was read, not a copy.
        payload: body.slice_ref(payload),
    })
}

/// The field that the library's text is about: it keeps no name otherwise.
fn named_field(error: &serde_json::Error) -> Option<String> {
    let text = error.to_string();
    let known = ["missing field `", "unknown field `", "duplicate field `"];
    let rest = known.iter().find_map(|start| text.strip_prefix(start))?;
    rest.split('`').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn array(text: &str) -> Result<Vec<Result<Item, Problem>>, Problem> {
        read(&Bytes::copy_from_slice(text.as_bytes()), Form::Array, 100)
    }

    fn one(text: &str) -> Result<Item, Problem> {
        array(&format!("[{text}]")).unwrap().remove(0)
    }

    #[test]
    fn payload_bytes_are_kept_as_they_came() {
        for payload in [
            r#"{ "b":1.0,  "a":1e2,"é":"\u00e9\ud83d\ude00" }"#,
            "12345678901234567890123",
            r#""a\u0000b""#,
            "null",
            "[ ]",
        ] {
            let text = format!(r#"{{"type":"a.b","payload": {payload} }}"#);
            assert_eq!(one(&text).unwrap().payload, payload, "{payload}");
        }
    }

    #[test]
    fn sig_08_a_lone_surrogate_is_bytes_like_any_other() {
        let item = one(r#"{"type":"a","payload":{"s":"\ud800"}}"#).unwrap();
        assert_eq!(item.payload, r#"{"s":"\ud800"}"#);
        // In a name it would have to be text, and is none.
        let problem = one(r#"{"type":"a","id":"\ud800","payload":1}"#).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
    }

    #[test]
    fn sig_07_a_mark_or_bytes_that_are_no_text_are_refused_by_place() {
        let mark = Bytes::from("\u{feff}[]".as_bytes().to_vec());
        let problem = read(&mark, Form::Array, 100).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
        let good = br#"{"type":"a","payload":1}"#;
        let bad = b"{\"type\":\"a\",\"payload\":\"\xe9\"}";
        let whole = [&b"["[..], good, b",", bad, b"]"].concat();
        let problem = read(&whole.into(), Form::Array, 100).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
        assert_eq!(problem.field(), Some("items[1]"));
        let lines = [&good[..], b"\r\n\n", bad, b"\n"].concat();
        let items = read(&lines.into(), Form::Lines, 100).unwrap();
        assert!(items[0].is_ok());
        assert_eq!(items[1].as_ref().unwrap_err().field(), Some("items[1]"));
    }

    #[test]
    fn a_deep_payload_is_not_recursed_into() {
        let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        let text = format!(r#"[{{"type":"a","payload":{deep}}}]"#);
        let items = read(&text.into(), Form::Array, 200_000).unwrap();
        assert_eq!(items[0].as_ref().unwrap().payload.len(), 100_000);
        let open = format!(r#"[{{"type":"a","payload":{}"#, "[".repeat(100_000));
        assert_eq!(array(&open).unwrap_err().status().as_u16(), 400);
    }

    #[test]
    fn ing_04_what_is_wrong_with_an_item_is_said_in_its_place() {
        for (text, field) in [
            (r#"{"payload":1}"#, "items[0].type"),
            (r#"{"type":"a"}"#, "items[0].payload"),
            (r#"{"type":"a","payload":1,"x":2}"#, "items[0].x"),
            (r#"{"type":"a..b","payload":1}"#, "items[0].type"),
            (r#"{"type":"a","id":"","payload":1}"#, "items[0].id"),
            (r#"{"type":"a","id":"a\nb","payload":1}"#, "items[0].id"),
            (r#"{"type":7,"payload":1}"#, "items[0]"),
            ("7", "items[0]"),
        ] {
            let problem = one(text).unwrap_err();
            assert_eq!(problem.status().as_u16(), 400, "{text}");
            assert_eq!(problem.field(), Some(field), "{text}");
        }
        let large = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(99));
        assert_eq!(one(&large).unwrap_err().status().as_u16(), 413);
        let fits = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(98));
        assert!(one(&fits).is_ok());
    }

    #[test]
    fn a_batch_has_one_to_a_thousand_items() {
        let item = r#"{"type":"a","payload":1}"#;
        let many = |n: usize| format!("[{}]", vec![item; n].join(","));
        assert_eq!(array(&many(1_000)).unwrap().len(), 1_000);
        for count in [0, 1_001] {
            let problem = array(&many(count)).unwrap_err();
            assert_eq!(problem.status().as_u16(), 422);
            assert!(problem.detail().contains("1000"));
        }
        for bad in ["", "{}", "[", "[1,]", "[] x", "null"] {
            let status = array(bad).unwrap_err().status().as_u16();
            assert_eq!(status, 400, "{bad:?}");
        }
    }

    #[test]
    fn the_content_type_says_the_form() {
        let form = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            Form::of(&headers).ok()
        };
        assert_eq!(form("application/json; charset=utf-8"), Some(Form::Array));
        assert_eq!(form("Application/X-NDJSON"), Some(Form::Lines));
        assert_eq!(form("text/plain"), None);
        assert_eq!(Form::of(&HeaderMap::new()).ok(), Some(Form::Array));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for form in [Form::Array, Form::Lines] {
                if let Err(problem) = read(&Bytes::from(bytes.clone()), form, 100) {
                    prop_assert!(problem.status().is_client_error());
                }
            }
        }
    }
}
