//! The headers that an endpoint may have sent along.
//!
//! Checked where they are written, because there is nobody to tell later: a name or value that
//! cannot be sent would fail every attempt, and one that frames the message would make receivers
//! read another body than the one that was signed.

use super::fields::{Errors, Object};
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::endpoint::limits::{MAX_HEADER_VALUE, MAX_HEADERS};
use posthorn_vault::is_sealed;

const MAX_NAME: usize = 128;

/// What the transport, the signature or the contract says, and so no endpoint. What says how the
/// payload's bytes are to be read is the publisher's: a receiver that is told of an encoding reads
/// another body than the one that was signed, and fails on what is not encoded.
const RESERVED: [&str; 19] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-webhook-timestamp",
];
const RESERVED_PREFIXES: [&str; 5] = ["ce-", "proxy-", "svix-", "webhook-", "x-hub-signature"];

/// Reads the headers; each error is at `headers.{name}`.
pub(crate) fn read(object: &Object, errors: &mut Errors) -> Vec<(String, Hidden)> {
    if object.len() > MAX_HEADERS {
        errors.add("headers", format!("are at most {MAX_HEADERS}"));
    }
    let mut headers: Vec<(String, Hidden)> = Vec::with_capacity(object.len());
    for (name, value) in object {
        let twice = headers
            .iter()
            .any(|(have, _)| have.eq_ignore_ascii_case(name));
        let broken = check_name(name).or(twice.then_some("is there twice, in another case"));
        if let Some(rule) = broken {
            errors.add(format!("headers.{name}"), rule);
            continue;
        }
        match value.as_str().filter(|text| is_value(text)) {
            Some(text) => headers.push((name.clone(), Hidden::new(text.to_owned()))),
            None => errors.add(
                format!("headers.{name}"),
                "is a string of at most 4096 visible ASCII characters, spaces and tabs, and \
                 does not begin or end with a space or tab, nor begin with `sealed:`",
            ),
        }
    }
    headers
}

fn check_name(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_token) {
        return Some("is no header name: 1 to 128 of letters, digits and !#$%&'*+-.^_`|~");
    }
    let lower = name.to_ascii_lowercase();
    let reserved = RESERVED.contains(&lower.as_str())
        || RESERVED_PREFIXES
            .iter()
            .any(|start| lower.starts_with(start));
    reserved.then_some("is set by Posthorn itself and cannot be replaced")
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_value(text: &str) -> bool {
    let allowed = |b: u8| (0x20..0x7f).contains(&b) || b == b'\t';
    text.len() <= MAX_HEADER_VALUE
        && text.bytes().all(allowed)
        && text.trim_matches([' ', '\t']).len() == text.len()
        // What is stored sealed must be told from what is stored in plain.
        && !is_sealed(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refused(value: serde_json::Value) -> bool {
        let mut errors = Errors::default();
        read(value.as_object().unwrap(), &mut errors);
        !errors.is_empty()
    }

    #[test]
    fn hdr_01_what_cannot_be_sent_is_not_stored() {
        for bad in [
            json!({"X-A": "v\r\nX-B: 1"}),
            json!({"X-A": "v\n"}),
            json!({"X A": "v"}),
            json!({"": "v"}),
            json!({"X-A:": "v"}),
            json!({"X\u{e9}": "v"}),
            json!({"X-A": "a\u{0}b"}),
            json!({"X-A": "caf\u{e9}"}),
            json!({"X-A": 1}),
            json!({"X-A": {}}),
            json!({"X-A": null}),
            json!({"X-A": " v"}),
            json!({"X-A": "sealed:v1:k1:AAAA"}),
            json!({"X-A": "v".repeat(4_097)}),
            json!({"X-A": "1", "x-a": "2"}),
        ] {
            assert!(refused(bad.clone()), "{bad}");
        }
        assert!(!refused(
            json!({"X-A": "a b\tc", "Authorization": "Bearer x", "X-Empty": ""})
        ));
        let many = |n| (0..n).map(|i| (format!("x-{i}"), json!("v"))).collect();
        assert!(!refused(serde_json::Value::Object(many(32))));
        assert!(refused(serde_json::Value::Object(many(33))));
    }

    #[test]
    fn hdr_03_framing_and_contract_headers_are_not_an_endpoints() {
        for name in [
            "Content-Length",
            "Transfer-Encoding",
            "HOST",
            "Connection",
            "Expect",
            "TE",
            "Trailer",
            "Upgrade",
            "Keep-Alive",
            "HTTP2-Settings",
            "Proxy-Authorization",
            "Proxy-Connection",
            "Content-Type",
            "Content-Encoding",
            "content-range",
            "User-Agent",
            "Webhook-Id",
            "webhook-signature",
            "svix-id",
            "X-Hub-Signature-256",
            "X-Webhook-Timestamp",
            "Idempotency-Key",
            "traceparent",
            "tracestate",
            "ce-type",
        ] {
            assert!(refused(json!({name: "1"})), "{name}");
        }
    }

    proptest! {
        #[test]
        fn hdr_01_whatever_passes_can_be_sent(name in ".{0,12}", value in ".{0,12}") {
            let mut errors = Errors::default();
            let object = json!({name: value});
            for (name, value) in read(object.as_object().unwrap(), &mut errors) {
                prop_assert!(axum::http::HeaderName::try_from(name.as_str()).is_ok());
                prop_assert!(axum::http::HeaderValue::try_from(value.reveal()).is_ok());
            }
        }
    }
}
