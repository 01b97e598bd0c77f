//! Every value survives its encoding, the encoding does not change unnoticed, and no bytes
//! make a decoder panic.

use super::*;
use crate::names::Names;
use crate::room::Waiting;
use async_nats::HeaderMap;
use posthorn_delivery::attempt::{AttemptResult, AttemptSummary};
use posthorn_delivery::breaker::{Phase, Probe};
use posthorn_delivery::delivery::{Death, ReleaseMark, ReplayMark};
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::retry::{Preset, RetryPolicyParts};
use posthorn_delivery::*;
use proptest::prelude::*;
use std::fmt::Debug;
use std::time::Duration;

fn event() -> Event {
    Event {
        id: EventId::from_bits(1),
        tenant: Tenant::parse("acme").unwrap(),
        event_type: EventType::parse("invoice.paid").unwrap(),
        payload: Bytes::from_static(b"{\"n\":1}"),
        content_type: "application/json".to_owned(),
        headers: vec![("ce-source".to_owned(), "/billing".to_owned())],
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        accepted_at: UnixMillis(1_700_000_000_000),
        deliver_at: Some(UnixMillis(1_700_000_060_000)),
        only_endpoint: Some(EndpointId::from_bits(2)),
    }
}

fn summary() -> AttemptSummary {
    AttemptSummary {
        at: UnixMillis(1_700_000_000_100),
        number: 1,
        result: AttemptResult::Status(503),
        latency_ms: 12,
        sequence: 9,
    }
}

fn delivery() -> Delivery {
    let failed = AttemptSummary {
        result: AttemptResult::Error(Failure::Tls),
        number: 2,
        ..summary()
    };
    Delivery {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(1),
        event_type: EventType::parse("invoice.paid").unwrap(),
        endpoint_id: EndpointId::from_bits(2),
        payload: Bytes::from_static(b"\x00\xff"),
        content_type: "application/octet-stream".to_owned(),
        headers: vec![],
        traceparent: None,
        accepted_at: UnixMillis(1_700_000_000_000),
        event_seq: 5,
        config_revision: 6,
        attempt: 3,
        hop: 7,
        stale_retries: 1,
        release: ReleaseMark {
            lane_epoch: 4,
            breaker_generation: 8,
            in_order: true,
        },
        not_before: UnixMillis(1_700_000_010_000),
        expires_at: UnixMillis(1_700_100_000_000),
        held: Duration::from_millis(1_500),
        pauses_known: Some(Duration::from_millis(700)),
        replay: Some(ReplayMark {
            generation: 11,
            replay_id: "rpl_1".to_owned(),
            count: 2,
            death: Some(Death {
                reason: Reason::Exhausted,
                at: UnixMillis(1_700_000_005_000),
                entry: 12,
            }),
        }),
        test: true,
        history: vec![summary(), failed],
    }
}

fn attempt() -> Attempt {
    Attempt {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(1),
        event_type: EventType::parse("invoice.paid").unwrap(),
        endpoint_id: EndpointId::from_bits(2),
        number: 1,
        hop: 0,
        replay_generation: 0,
        at: UnixMillis(1_700_000_000_100),
        latency_ms: 12,
        result: AttemptResult::Status(503),
        response_body: Bytes::from_static(b"busy"),
        disposition: Disposition::Retry {
            not_before: UnixMillis(1_700_000_002_000),
            same_attempt: true,
        },
        breaker_generation: 3,
        probe: true,
        breaker_signal: BreakerSignal::Failure,
        hold_until: Some(UnixMillis(1_700_000_020_000)),
        disable_endpoint: true,
        in_order: true,
        detail: "port 25 may not be called".to_owned(),
        exchange: Some(Box::new(posthorn_delivery::Exchange {
            request_headers: vec![("webhook-attempt".to_owned(), "1".to_owned())],
            response_headers: vec![("retry-after".to_owned(), "20".to_owned())],
            detail: "a rule".to_owned(),
            total_ms: 13,
        })),
    }
}

fn breaker() -> BreakerState {
    BreakerState {
        phase: Phase::HalfOpen,
        consecutive_failures: 5,
        opened_at: UnixMillis(1),
        open_until: UnixMillis(2),
        generation: 3,
        probe: Some(Probe {
            delivery: "abc".to_owned(),
            lease_until: UnixMillis(4),
        }),
        reason: "probing".to_owned(),
        failed_probes: 1,
        hold_until: UnixMillis(5),
        target_epoch: 6,
    }
}

fn endpoint() -> Endpoint {
    let mut retry = RetryPolicyParts::of(Preset::Stripe);
    retry.permanent = Some(vec![]);
    let secret = |end| StoredSecret {
        text: Hidden::new("whsec_x".to_owned()),
        expires_at: end,
    };
    Endpoint {
        id: EndpointId::from_bits(2),
        tenant: Tenant::parse("acme").unwrap(),
        url: Hidden::new("https://example.com/hooks".to_owned()),
        event_types: vec![Pattern::parse("invoice.*").unwrap(), Pattern::all()],
        description: "d".to_owned(),
        headers: vec![("x-env".to_owned(), Hidden::new("prod".to_owned()))],
        signatures: vec!["v1".to_owned(), "hub".to_owned()],
        secrets: vec![secret(None), secret(Some(UnixMillis(9)))],
        key_pairs: vec![],
        disabled: Some((DisabledReason::Gone, UnixMillis(8))),
        disabled_before: Duration::from_millis(60),
        ordering: Ordering::Fifo,
        rate_limit: RateLimit::per_second(0.5).ok(),
        max_backlog: 12,
        retry: RetryPolicy::try_new(retry).unwrap(),
        timeout: Duration::from_secs(15),
        max_in_flight: 32,
        breaker: Some(BreakerPolicy::default()),
        target_epoch: 4,
        created_at: UnixMillis(1),
        updated_at: UnixMillis(2),
    }
}

fn lane() -> LaneState {
    LaneState {
        tenant: Tenant::parse("acme").unwrap(),
        reason: LaneReason::BreakerOpen,
        hold_until: UnixMillis(5),
        since: UnixMillis(3),
        epoch: 9,
        owner: 2,
        rate_per_second: 50,
    }
}

fn letter() -> DeadLetter {
    DeadLetter {
        detail: "why".to_owned(),
        entry: 12,
        answer: "no".to_owned(),
        ..DeadLetter::of(&delivery(), Reason::Gone, UnixMillis(7))
    }
}

fn job() -> ReplayJob {
    ReplayJob {
        id: "rpl_1".to_owned(),
        filter: "{}".to_owned(),
        rate_per_second: 50,
        created_at: UnixMillis(1),
        upper: 9,
        cursor: 4,
        matched: 5,
        replayed: 3,
        skipped: 1,
        state: ReplayState::Paused,
        updated_at: UnixMillis(2),
        owner: "o".to_owned(),
        lease_until: UnixMillis(3),
        tenant: "acme".to_owned(),
        recovery: None,
    }
}

fn recovery() -> ReplayJob {
    ReplayJob {
        recovery: Some(Recovery {
            endpoint: EndpointId::from_bits(2),
            since: UnixMillis(1_700_000_000_000),
            until: Some(UnixMillis(1_700_000_060_000)),
            include_delivered: true,
            dry_run: true,
            counted: Some(Counted {
                delivered: 3,
                under_way: 0,
            }),
        }),
        ..job()
    }
}

fn survives<T: Wire + PartialEq + Debug>(value: &T) {
    assert_eq!(&T::from_wire(value.to_wire()).unwrap(), value);
}

#[test]
fn every_value_survives_its_encoding() {
    survives(&event());
    survives(&recovery());
    survives(&ReplayJob {
        recovery: recovery().recovery.map(|found| Recovery {
            until: None,
            counted: None,
            ..found
        }),
        ..job()
    });
    survives(&Delivery {
        replay: Some(ReplayMark {
            death: None,
            ..delivery().replay.unwrap()
        }),
        ..delivery()
    });
    survives(&delivery());
    survives(&Waiting::Delivery(Box::new(delivery())));
    survives(&Waiting::Event(Box::new(event()), 77));
    survives(&attempt());
    survives(&Attempt {
        disposition: Disposition::Dead(Reason::Expired),
        ..attempt()
    });
    survives(&Attempt {
        disposition: Disposition::Complete,
        ..attempt()
    });
    survives(&Attempt {
        disposition: Disposition::Skipped,
        ..attempt()
    });
    survives(&breaker());
    survives(&endpoint());
    survives(&letter());
    survives(&LetterEntry::of(&letter()));
    survives(&LetterEntry {
        last: None,
        endpoint_id: None,
        ..LetterEntry::of(&letter())
    });
    survives(&job());
    survives(&lane());
    survives(&IdempotencyMark {
        event_id: EventId::from_bits(1),
        fingerprint: 0xabc,
    });
    survives(&DispatcherBeat { concurrency: 256 });
    survives(&api_key());
    survives(&ApiKey {
        tenant: None,
        rate_per_second: None,
        expires_at: None,
        scopes: vec![Scope::Operate],
        ..api_key()
    });
    survives(&audit_entry());
    survives(&AuditEntry {
        tenant: None,
        result: AuditResult::Asked,
        status: None,
        ..audit_entry()
    });
}

/// A bucket takes no bytes for a deleted key: a breaker that was reset could then never be
/// written again.
#[test]
fn no_value_of_a_bucket_is_encoded_as_nothing() {
    survives(&BreakerState::default());
    assert!(!BreakerState::default().to_wire().is_empty());
    assert!(!DispatcherBeat { concurrency: 0 }.to_wire().is_empty());
}

fn hex(bytes: &Bytes) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A field that changes its number or type changes these bytes: messages of an older version
/// that still wait in a stream could then not be read any more.
#[test]
fn golden_bytes() {
    let golden = include_str!("golden.txt");
    let values = [
        ("Event", event().to_wire()),
        ("Delivery", delivery().to_wire()),
        ("Waiting", Waiting::Event(Box::new(event()), 77).to_wire()),
        ("Attempt", attempt().to_wire()),
        ("BreakerState", breaker().to_wire()),
        ("EndpointConfig", endpoint().to_wire()),
        ("DeadLetter", letter().to_wire()),
        ("LetterEntry", LetterEntry::of(&letter()).to_wire()),
        ("ReplayJob", job().to_wire()),
        ("LaneState", lane().to_wire()),
        ("ApiKey", api_key().to_wire()),
        ("AuditEntry", audit_entry().to_wire()),
    ];
    let now: String = values
        .iter()
        .map(|(name, bytes)| format!("{name} {}\n", hex(bytes)))
        .collect();
    assert_eq!(now, golden, "the wire format has changed");
}

fn api_key() -> ApiKey {
    ApiKey {
        id: "00000000000000ff".to_owned(),
        name: "billing".to_owned(),
        secret_sha256: [7; 32],
        tenant: Some(Tenant::parse("acme").unwrap()),
        scopes: Scope::ALL.to_vec(),
        rate_per_second: std::num::NonZeroU32::new(50),
        created_at: UnixMillis(1_700_000_000_000),
        created_by: "admin".to_owned(),
        expires_at: Some(UnixMillis(1_700_000_060_000)),
    }
}

fn audit_entry() -> AuditEntry {
    AuditEntry {
        id: "act_1".to_owned(),
        at: UnixMillis(1_700_000_000_000),
        key_id: "00000000000000ff".to_owned(),
        key_name: "billing".to_owned(),
        action: EventType::parse("endpoint.create").unwrap(),
        tenant: Some(Tenant::parse("acme").unwrap()),
        object: "ep_1".to_owned(),
        result: AuditResult::Failed,
        status: Some(409),
    }
}

/// Half of a hash must not compare as a whole one, nor a missing id as a key of its own.
#[test]
fn a_damaged_key_is_no_key() {
    let broken = |change: &dyn Fn(&mut v1::ApiKey)| {
        let mut message = v1::ApiKey::decode(api_key().to_wire()).unwrap();
        change(&mut message);
        ApiKey::from_wire(encode(&message))
    };
    assert!(broken(&|key| key.secret_sha256.truncate(16)).is_err());
    assert!(broken(&|key| key.secret_sha256.clear()).is_err());
    assert!(broken(&|key| key.id.clear()).is_err());
    assert!(broken(&|key| key.tenant = "a.b".to_owned()).is_err());
    assert!(broken(&|key| key.tenant = "_posthorn".to_owned()).is_err());
    let newer = broken(&|key| key.scopes = vec![1, 99, 0]).unwrap();
    assert_eq!(newer.scopes, [Scope::Publish]);
}

fn intake<'a>(
    subject: &'a str,
    headers: Option<&'a HeaderMap>,
    payload: &'static [u8],
) -> Intake<'a> {
    Intake {
        subject,
        headers,
        payload: Bytes::from_static(payload),
        sequence: 3,
        stored_at: UnixMillis(1_700_000_000_000),
        stream_created: 1,
    }
}

#[test]
fn raw_bytes_with_any_spelling_of_headers_are_an_event() {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "text/plain");
    headers.insert("CE-Source", "/billing");
    headers.insert("Nats-Msg-Id", "acme:1");
    headers.insert("DELIVER-AT", "2023-11-14T22:14:20Z");
    let names = Names::new("posthorn");
    let read = |sequence| {
        let intake = Intake {
            sequence,
            ..intake(
                "posthorn.events.acme.invoice.paid",
                Some(&headers),
                b"\xef\xbb\xbf\xe9",
            )
        };
        read_event(&names, &intake).unwrap()
    };
    let event = read(3);
    assert_eq!(
        (event.content_type.as_str(), &event.payload[..]),
        ("text/plain", &b"\xef\xbb\xbf\xe9"[..])
    );
    assert_eq!(
        event.headers,
        [("ce-source".to_owned(), "/billing".to_owned())]
    );
    assert_eq!(event.deliver_at, Some(UnixMillis(1_700_000_060_000)));
    assert_eq!(
        event.id,
        read(9).id,
        "the id follows the publisher's key, not the place"
    );
}

#[test]
fn js_17_what_is_no_event_is_refused_with_the_rule() {
    let names = Names::new("posthorn");
    let mut protobuf = HeaderMap::new();
    protobuf.insert("Content-Type", crate::outbox::EVENT_PROTOBUF);
    let mut late = HeaderMap::new();
    late.insert("Deliver-At", "2033-11-14T22:14:20Z");
    let mut broken = HeaderMap::new();
    broken.insert("ce-source", "a\u{7f}b");
    let refused = |subject, headers: Option<&HeaderMap>, payload| {
        read_event(&names, &intake(subject, headers, payload)).unwrap_err()
    };
    let good = "posthorn.events.acme.a";
    assert_eq!(
        refused("posthorn.events.ACME.a", None, b""),
        IntakeError::Tenant
    );
    assert_eq!(
        refused("posthorn.events.acme.a$b", None, b""),
        IntakeError::EventType
    );
    assert_eq!(
        refused("posthorn.events.acme", None, b""),
        IntakeError::EventType
    );
    assert!(matches!(
        refused(good, Some(&protobuf), b"\xff\xff\xff"),
        IntakeError::Protobuf(_)
    ));
    assert_eq!(
        refused(good, Some(&protobuf), b""),
        IntakeError::OtherSubject
    );
    assert_eq!(refused(good, Some(&late), b""), IntakeError::DeliverAt);
    assert_eq!(refused(good, Some(&broken), b""), IntakeError::Header);
}

/// Taken for bytes, the envelope itself would go to receivers.
#[test]
fn js_17_the_media_type_of_an_event_is_known_in_any_case_and_with_parameters() {
    for (content_type, is_event) in [
        ("application/vnd.posthorn.event.v1+protobuf", true),
        ("Application/Vnd.Posthorn.Event.v1+Protobuf", true),
        (" application/vnd.posthorn.event.v1+protobuf ;proto=x", true),
        ("application/vnd.posthorn.event.v1+protobuf2", false),
        ("application/vnd.posthorn.event.v2+protobuf", false),
        ("application/protobuf", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("Content-Type", content_type);
        let whole = intake("posthorn.events.acme.a", Some(&headers), b"\xff");
        let read = read_event(&Names::new("posthorn"), &whole);
        assert_eq!(read.is_err(), is_event, "{content_type}");
    }
}

/// The message of an event as a publisher may write it, at the subject where it belongs.
fn in_protobuf(change: impl FnOnce(&mut v1::Event)) -> Event {
    let mut message = v1::Event::decode(event().to_wire()).unwrap();
    message.only_endpoint.clear();
    change(&mut message);
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", crate::outbox::EVENT_PROTOBUF);
    let whole = Intake {
        payload: encode(&message),
        ..intake("posthorn.events.acme.invoice.paid", Some(&headers), b"")
    };
    read_event(&Names::new("posthorn"), &whole).unwrap()
}

#[test]
fn a_publishers_clock_makes_an_event_neither_young_nor_ancient() {
    const STORED: i64 = 1_700_000_000_000;
    for (said, taken) in [
        (0, STORED),
        (STORED - 1_000, STORED - 1_000),
        (STORED + 1, STORED),
        (i64::MAX, STORED),
        (1, STORED - 600_000),
        (i64::MIN, STORED - 600_000),
    ] {
        let event = in_protobuf(|message| message.accepted_at_ms = said);
        assert_eq!(event.accepted_at, UnixMillis(taken), "{said}");
    }
}

/// Every later hop carries it, beside a payload that leaves it no such room.
#[test]
fn js_15_what_is_longer_than_a_trace_context_is_left_behind() {
    let (fits, long) = ("a".repeat(512), "a".repeat(513));
    let names = Names::new("posthorn");
    for (text, kept) in [(&fits, true), (&long, false)] {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", text.as_str());
        let raw = intake("posthorn.events.acme.a", Some(&headers), b"{}");
        let raw = read_event(&names, &raw).unwrap();
        assert_eq!(raw.traceparent.as_ref(), kept.then_some(text));
        let typed = in_protobuf(|message| message.traceparent.clone_from(text));
        assert_eq!(typed.traceparent.as_ref(), kept.then_some(text));
    }
}

/// What passes by lane, breaker and switch is of a type that publishers may be kept from.
#[test]
fn only_a_test_send_is_for_one_endpoint() {
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", crate::outbox::EVENT_PROTOBUF);
    let names = Names::new("posthorn");
    for (event_type, expected) in [
        ("invoice.paid", Err(IntakeError::OnlyEndpoint)),
        ("posthorn.testing", Err(IntakeError::OnlyEndpoint)),
        ("posthorn.test", Ok(Some(EndpointId::from_bits(2)))),
    ] {
        let sent = Event {
            event_type: EventType::parse(event_type).unwrap(),
            ..event()
        };
        let subject = names.event(&sent.tenant, &sent.event_type);
        let whole = Intake {
            payload: sent.to_wire(),
            ..intake(&subject, Some(&headers), b"")
        };
        let read = read_event(&names, &whole).map(|event| event.only_endpoint);
        assert_eq!(read, expected, "{event_type}");
    }
}

#[test]
fn dlq_05_an_event_cannot_claim_another_tenant() {
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", crate::outbox::EVENT_PROTOBUF);
    let for_all = Event {
        only_endpoint: None,
        ..event()
    };
    let wire: &'static [u8] = Box::leak(for_all.to_wire().to_vec().into_boxed_slice());
    let names = Names::new("posthorn");
    let read = |subject| read_event(&names, &intake(subject, Some(&headers), wire));
    assert!(read("posthorn.events.acme.invoice.paid").is_ok());
    assert_eq!(
        read("posthorn.events.other.invoice.paid").unwrap_err(),
        IntakeError::OtherSubject
    );
    assert_eq!(
        read("posthorn.events.acme.invoice.void").unwrap_err(),
        IntakeError::OtherSubject
    );
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let _ = Event::from_wire(bytes.clone());
        let _ = Delivery::from_wire(bytes.clone());
        let _ = Waiting::from_wire(bytes.clone());
        let _ = Attempt::from_wire(bytes.clone());
        let _ = DeadLetter::from_wire(bytes.clone());
        let _ = Endpoint::from_wire(bytes.clone());
        let _ = BreakerState::from_wire(bytes.clone());
        let _ = ReplayJob::from_wire(bytes.clone());
        let _ = IdempotencyMark::from_wire(bytes.clone());
        let _ = ApiKey::from_wire(bytes.clone());
        let _ = AuditEntry::from_wire(bytes.clone());
        let _ = DispatcherBeat::from_wire(bytes);
    }

    #[test]
    fn damaged_messages_do_not_panic(at in 0_usize..200, byte in any::<u8>()) {
        let mut wire = delivery().to_wire().to_vec();
        let at = at % wire.len();
        wire[at] = byte;
        let _ = Delivery::from_wire(Bytes::from(wire));
    }
}
