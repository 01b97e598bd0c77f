//! Messages of EVENTS, as anybody with the right to publish may have put them there.
//!
//! The input is a subject's line, lines of headers, an empty line, and the payload.

use super::split_at;
use bytes::Bytes;
use posthorn_broker::codec::{Intake, read_event};
use posthorn_broker::{HeaderMap, Names, Wire};
use posthorn_delivery::event::MAX_DELIVER_AHEAD;
use posthorn_delivery::{Event, UnixMillis};

const STORED: UnixMillis = UnixMillis(1_800_000_000_000);

/// What is read is an event of its subject, that is not accepted later than it was stored, waits
/// no longer than it may, carries headers that HTTP can, and survives its own encoding.
pub(crate) fn run(data: &[u8]) {
    let (subject, rest) = split_at(data, b'\n');
    let (headers, payload) = headers(rest);
    let names = Names::new("posthorn");
    let intake = Intake {
        subject: std::str::from_utf8(subject).unwrap_or_default(),
        headers: Some(&headers),
        payload: Bytes::copy_from_slice(payload),
        sequence: 7,
        stored_at: STORED,
        stream_created: 1_700_000_000_000,
    };
    let Ok(event) = read_event(&names, &intake) else {
        return;
    };
    let suffix = names.event(&event.tenant, &event.event_type);
    let of_archive = suffix.replacen(".events.", ".archive.", 1);
    assert!([suffix.as_str(), &of_archive].contains(&intake.subject));
    assert!(event.accepted_at <= STORED);
    let latest = event.accepted_at + MAX_DELIVER_AHEAD;
    assert!(event.deliver_at.is_none_or(|at| at <= latest));
    let sendable = |text: &str| {
        text.bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    assert!(sendable(&event.content_type));
    for (name, value) in &event.headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(
            name.len() > 3 && name.bytes().all(token),
            "no attribute of CloudEvents"
        );
        assert!(name[..3].eq_ignore_ascii_case("ce-") && sendable(value));
    }
    let again = Event::from_wire(event.to_wire());
    assert_eq!(
        again.as_ref(),
        Ok(&event),
        "another event when it is read again"
    );
}

/// The headers that a client of NATS would hand over: it refuses other names before.
fn headers(mut data: &[u8]) -> (HeaderMap, &[u8]) {
    let mut headers = HeaderMap::new();
    while !data.is_empty() {
        let (line, rest) = split_at(data, b'\n');
        data = rest;
        if line.is_empty() {
            break;
        }
        let (name, value) = split_at(line, b':');
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            continue;
        };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        if is_name && !value.contains(['\r', '\0']) {
            headers.append(name, value);
        }
    }
    (headers, data)
}
