//! What an event's request says in its headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use posthorn_delivery::UnixMillis;
use posthorn_delivery::event::MAX_DELIVER_AHEAD;
use posthorn_http_api::Problem;
use posthorn_http_api::time::parse_rfc3339;
use posthorn_runtime::trace::Traceparent;

/// The longest idempotency key, in bytes.
pub(crate) const MAX_KEY: usize = 256;
const MAX_ATTRIBUTES: usize = 32;
const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 1_024;
/// What is taken for the media type where none is declared.
pub(crate) const JSON: &str = "application/json";

/// The headers of one event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub content_type: String,
    pub key: Option<String>,
    pub cloud_event: Vec<(String, String)>,
    pub deliver_at: Option<UnixMillis>,
    pub parent: Option<Traceparent>,
}

impl Declared {
    /// Reads the headers at `now`.
    ///
    /// # Errors
    /// 400 that names the header and its rule.
    pub(crate) fn read(headers: &HeaderMap, now: UnixMillis) -> Result<Declared, Problem> {
        refuse_encoded(headers)?;
        Ok(Declared {
            content_type: content_type(headers)?,
            key: idempotency_key(headers)?,
            cloud_event: cloud_event(headers)?,
            deliver_at: deliver_at(headers, now)?,
            parent: traceparent(headers),
        })
    }
}

/// The caller's place in its trace; a malformed one starts a new trace, as its standard says.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<Traceparent> {
    Traceparent::parse(headers.get("traceparent")?.to_str().ok()?)
}

/// An idempotency key, from a header or from an item of a batch.
///
/// # Errors
/// With the rule.
pub(crate) fn check_key(key: &str) -> Result<(), &'static str> {
    let visible = key.bytes().all(|b| b.is_ascii_graphic());
    if key.is_empty() || key.len() > MAX_KEY || !visible {
        return Err("a key is 1 to 256 characters of visible ASCII");
    }
    Ok(())
}

fn bad(name: &str, detail: impl Into<String>) -> Problem {
    Problem::bad_request("header", name, detail)
}

/// Refuses what says something of one event: a batch would not heed it, and its caller would
/// believe to be safe from repeats, or that the events wait.
///
/// # Errors
/// 400 that names the header.
pub(crate) fn refuse_single(headers: &HeaderMap) -> Result<(), Problem> {
    refuse_encoded(headers)?;
    for name in ["idempotency-key", "deliver-at"] {
        if headers.contains_key(name) {
            let detail = match name {
                "deliver-at" => "a batch is not delayed; publish the event on its own",
                _ => "a batch has no key of its own; give its items an id",
            };
            return Err(bad(name, detail));
        }
    }
    Ok(())
}

/// The payload reaches receivers byte for byte and without this header, so they could not tell
/// that it is compressed.
fn refuse_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(value) if value != "identity" => Err(bad(
            "content-encoding",
            "a payload is published as it is, without a content encoding",
        )),
        _ => Ok(()),
    }
}

fn content_type(headers: &HeaderMap) -> Result<String, Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok(JSON.to_owned());
    };
    match printable(value) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(bad(
            "content-type",
            "a content type is 1 to 1024 characters of printable ASCII",
        )),
    }
}

fn printable(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    (plain && text.len() <= MAX_VALUE).then_some(text)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    const NAME: &str = "idempotency-key";
    let Some(value) = single(headers, NAME)? else {
        return Ok(None);
    };
    // What is not ASCII is an empty text here, which no key is.
    let key = value.to_str().unwrap_or_default();
    check_key(key).map_err(|rule| bad(NAME, rule))?;
    Ok(Some(key.to_owned()))
}

/// A header that must not be there twice: whichever was meant, the other would be lost.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(bad(name, "this header may be given once"));
    }
    Ok(first)
}

fn deliver_at(headers: &HeaderMap, now: UnixMillis) -> Result<Option<UnixMillis>, Problem> {
    const NAME: &str = "deliver-at";
    let Some(value) = single(headers, NAME)? else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let at = parse_rfc3339(text).map_err(|rule| bad(NAME, rule.to_string()))?;
    if at > now + MAX_DELIVER_AHEAD {
        return Err(bad(NAME, "a delivery may be delayed by at most 30 days"));
    }
    // What is past is due at once.
    Ok((at > now).then_some(at))
}

fn cloud_event(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    let given = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("ce-"));
    for (name, value) in given {
        if attributes.iter().any(|(have, _)| have == name.as_str()) {
            return Err(bad(name.as_str(), "this header may be given once"));
        }
        if attributes.len() == MAX_ATTRIBUTES {
            return Err(bad(name.as_str(), "an event has at most 32 ce- headers"));
        }
        attributes.push(attribute(name, value)?);
    }
    Ok(attributes)
}

fn attribute(name: &HeaderName, value: &HeaderValue) -> Result<(String, String), Problem> {
    let text = name.as_str();
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !plain || text.len() <= 3 || text.len() > MAX_NAME {
        let detail = "a ce- header has a name of 4 to 64 letters, digits and '-'";
        return Err(bad(text, detail));
    }
    let Some(value) = printable(value) else {
        let detail = "a ce- header has a value of at most 1024 printable ASCII characters";
        return Err(bad(text, detail));
    };
    Ok((text.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_http_api::time::to_rfc3339;
    use std::time::Duration;

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);

    fn read(pairs: &[(&str, &[u8])]) -> Result<Declared, Problem> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::try_from(*name).unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        Declared::read(&headers, NOW)
    }

    fn refused(name: &str, value: &[u8]) -> Problem {
        let problem = read(&[(name, value)]).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
        assert_eq!(problem.field(), Some(name));
        problem
    }

    #[test]
    fn nothing_said_is_json() {
        let declared = read(&[]).unwrap();
        assert_eq!(declared.content_type, "application/json");
        assert_eq!((declared.key, declared.deliver_at), (None, None));
    }

    #[test]
    fn the_declared_content_type_is_kept_as_it_is() {
        let declared = read(&[("content-type", b"text/plain; charset=\"latin1\"")]).unwrap();
        assert_eq!(declared.content_type, "text/plain; charset=\"latin1\"");
        refused("content-type", b"text/\xe9");
        refused("content-type", b"");
        refused("content-encoding", b"gzip");
    }

    #[test]
    fn hdr_04_a_key_is_visible_ascii() {
        for good in [&b"order-1"[..], b"a.b:c/d", &[b'x'; 256]] {
            let key = read(&[("idempotency-key", good)]).unwrap().key.unwrap();
            assert_eq!(key.as_bytes(), good);
        }
        for bad in [&b""[..], b"a b", b"caf\xc3\xa9", b"a\tb", &[b'x'; 257]] {
            refused("idempotency-key", bad);
        }
        assert!(check_key("a\nb").is_err() && check_key("a\r\nb").is_err());
        assert!(read(&[("idempotency-key", b"a"), ("idempotency-key", b"b")]).is_err());
    }

    #[test]
    fn deliver_at_is_at_most_thirty_days_ahead() {
        let at = |ahead: u64| to_rfc3339(NOW + Duration::from_secs(ahead));
        let read_at = |text: &str| read(&[("deliver-at", text.as_bytes())]);
        let due = read_at(&at(60)).unwrap().deliver_at;
        assert_eq!(due, Some(NOW + Duration::from_secs(60)));
        assert!(read_at(&at(30 * 86_400)).is_ok());
        assert!(read_at(&at(30 * 86_400 + 1)).is_err());
        assert_eq!(read_at("2001-01-01T00:00:00Z").unwrap().deliver_at, None);
        refused("deliver-at", b"tomorrow");
        refused("deliver-at", b"60");
    }

    #[test]
    fn cloud_event_attributes_go_through_in_lower_case() {
        let declared = read(&[("CE-Id", b"1"), ("ce-source", b"/shop"), ("x-other", b"y")]);
        let expected = [("ce-id", "1"), ("ce-source", "/shop")];
        let got = declared.unwrap().cloud_event;
        let got: Vec<(&str, &str)> = got.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(got, expected);
        refused("ce-subject", b"caf\xc3\xa9");
        refused("ce-", b"x");
        refused("ce-a_b", b"x");
        refused("ce-long", &[b'x'; 1_025]);
        let many: Vec<String> = (0..33).map(|n| format!("ce-a{n}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (&**name, &b"v"[..])).collect();
        assert!(read(&many[..32]).is_ok());
        assert!(read(&many).is_err());
    }

    #[test]
    fn a_malformed_traceparent_starts_a_new_trace() {
        let example = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(read(&[("traceparent", example)]).unwrap().parent.is_some());
        assert!(read(&[("traceparent", b"x")]).unwrap().parent.is_none());
    }
}
