use super::harness::{Api, connect, request, settings};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::join_all;
use posthorn_broker::codec::IdempotencyMark;
use posthorn_broker::{BucketName, Topology};
use posthorn_delivery::{EventId, Tenant};
use std::time::Duration;

fn streamed(parts: Vec<Vec<u8>>) -> Body {
    let parts = parts
        .into_iter()
        .map(|part| Ok::<_, std::io::Error>(Bytes::from(part)));
    Body::from_stream(futures_util::stream::iter(parts))
}

#[tokio::test]
async fn an_event_is_stored_as_it_was_published() {
    let api = Api::start().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [
        ("content-type", "text/plain; charset=utf-8"),
        ("traceparent", parent),
        ("CE-Source", "/shop"),
    ];
    let answer = api.publish(&headers, "hello").await;
    let event = api.events().await.remove(0);
    assert_eq!(answer.id(), event.id.as_str());
    assert!(!answer.duplicate());
    assert_eq!(event.payload, "hello");
    assert_eq!(event.content_type, "text/plain; charset=utf-8");
    assert_eq!(
        event.headers,
        [("ce-source".to_owned(), "/shop".to_owned())]
    );
    let trace = event.traceparent.unwrap();
    assert_eq!(trace[..36], parent[..36]);
    assert_ne!(trace, parent);
    assert_eq!(event.event_type.as_str(), "invoice.paid");
    let empty = api.publish(&[], Body::empty()).await;
    assert_ne!(empty.id(), answer.id());
    let empty = api.events().await.remove(1);
    assert!(empty.payload.is_empty() && empty.traceparent.is_some());
    assert_eq!(empty.content_type, "application/json");
}

#[tokio::test]
async fn sig_07_sig_08_bytes_are_accepted_unchanged() {
    let api = Api::start().await;
    let emoji = "\u{1f3ba}".as_bytes();
    let bodies = [
        b"\xef\xbb\xbf{}".to_vec(),
        b"caf\xe9".to_vec(),
        b"\x00\xff".to_vec(),
        br#"{"s":"a\u0000b"}"#.to_vec(),
        br#"{"s":"\ud800"}"#.to_vec(),
        "[".repeat(10_000).into_bytes(),
        emoji.to_vec(),
    ];
    for body in &bodies {
        api.publish(&[], body.clone()).await.id();
    }
    let halves = vec![emoji[..2].to_vec(), emoji[2..].to_vec()];
    api.publish(&[], streamed(halves)).await.id();
    let stored: Vec<Bytes> = api.events().await.into_iter().map(|e| e.payload).collect();
    assert_eq!(stored[..7], bodies);
    assert_eq!(stored[7], emoji);
}

#[tokio::test]
async fn js_15_the_payload_limit_is_exact_and_said() {
    let mut small = settings();
    small.max_payload = 2_000;
    let api = Api::with(small, Topology::new("posthorn")).await;
    for (length, status) in [(1_999, 202), (2_000, 202), (2_001, 413), (50_000, 413)] {
        let whole = api.publish(&[], vec![b'x'; length]).await;
        assert_eq!(whole.status, status, "{length}");
        let parts = vec![vec![b'x'; length / 2], vec![b'x'; length - length / 2]];
        let chunked = api.publish(&[], streamed(parts)).await;
        assert_eq!(chunked.status, status, "{length}");
        if status == 413 {
            assert!(chunked.json["detail"].as_str().unwrap().contains("2000"));
        }
    }
    assert_eq!(api.events().await.len(), 4);
}

#[tokio::test]
async fn js_15_the_largest_payload_with_the_largest_headers_fits_the_broker() {
    let mut large = settings();
    large.max_payload = 960 * 1024;
    let api = Api::with(large, Topology::new("posthorn")).await;
    let value = "v".repeat(1_024);
    let names: Vec<String> = (0..32)
        .map(|n| format!("ce-{}{n:02}", "a".repeat(59)))
        .collect();
    let mut headers: Vec<(&str, &str)> = names.iter().map(|n| (&**n, &*value)).collect();
    headers.push(("content-type", &value));
    api.publish(&headers, vec![b'x'; 960 * 1024]).await.id();
    let mut over = settings();
    over.max_payload = 961 * 1024;
    let refused = posthorn_ingest::App::open(&over, api.broker.clone(), api.shutdown.token());
    let error = refused.await.err().unwrap();
    assert_eq!(error.kind().code(), 64);
}

#[tokio::test]
async fn hdr_05_names_that_would_change_a_subject_are_refused() {
    let api = Api::start().await;
    let long = "x".repeat(300);
    let types = [
        "*",
        "%3E",
        "..",
        "a%20b",
        "x.%0D%0APUB%20y%201",
        "%F0%9F%8E%BA",
        "a%2Fb",
        &long,
    ];
    for kind in types {
        let path = format!("/v1/tenants/acme/events/{kind}");
        api.call("POST", &path, None).await.refuses(400, "type");
    }
    for tenant in ["t1.other", "*", "%3E", "A", "_x", "a%0Ab"] {
        let path = format!("/v1/tenants/{tenant}/events/a");
        api.call("POST", &path, None).await.refuses(400, "tenant");
    }
    let path = "/v1/tenants/%FF/events/a";
    api.call("POST", path, None).await.refuses(400, "path");
    let reserved = api
        .call("POST", "/v1/tenants/_posthorn/events/a", None)
        .await;
    assert_eq!(reserved.status, 403);
    assert!(api.events().await.is_empty());
}

#[tokio::test]
async fn hdr_04_sig_06_a_key_never_becomes_part_of_an_id_or_a_header() {
    let api = Api::start().await;
    let dotted = api
        .publish(&[("idempotency-key", "evt.1700000000.{}")], "x")
        .await;
    assert!(EventId::parse(&dotted.id()).is_ok());
    let long = "k".repeat(10_240);
    for bad in ["", "a b", "a\tb", &long] {
        let answer = api.publish(&[("idempotency-key", bad)], "x").await;
        answer.refuses(400, "idempotency-key");
    }
    assert_eq!(api.events().await.len(), 1);
}

#[tokio::test]
async fn headers_that_break_their_rule_are_named() {
    let api = Api::start().await;
    for (name, value) in [
        ("deliver-at", "tomorrow"),
        ("deliver-at", "2999-01-01T00:00:00Z"),
        ("ce-a_b", "x"),
        ("content-encoding", "gzip"),
    ] {
        let answer = api.publish(&[(name, value)], "x").await;
        answer.refuses(400, name);
    }
    let past = api
        .publish(&[("deliver-at", "2001-01-01T00:00:00Z")], "x")
        .await;
    past.id();
    assert_eq!(api.events().await[0].deliver_at, None);
}

#[tokio::test]
async fn js_12_a_key_is_good_beyond_the_brokers_own_window() {
    let mut topology = Topology::new("posthorn");
    // The shortest that the server takes; what is older than this it does not know any more.
    topology.retention.dedupe_window = Duration::from_millis(100);
    let api = Api::with(settings(), topology).await;
    let key = [("idempotency-key", "order-1")];
    let first = api.publish(&key, "one").await;
    assert!(!first.duplicate());
    // When an id is forgotten that came after it, the window has passed for it as well.
    let event = api.events().await.remove(0);
    let patience = posthorn_broker::Patience::CALLER;
    let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
    let store = async || {
        let stored = api.broker.publish_event(&event, "acme:later", patience);
        stored.await.unwrap()
    };
    store().await;
    loop {
        if !store().await.duplicate {
            break;
        }
        assert!(
            tokio::time::Instant::now() < give_up,
            "the window does not pass"
        );
    }
    let before = api.events().await.len();
    let again = api.publish(&key, "one").await;
    assert!(again.duplicate());
    assert_eq!(again.id(), first.id());
    assert_eq!(api.events().await.len(), before);
}

#[tokio::test]
async fn ing_03_fifty_repeats_at_once_are_one_event() {
    let api = Api::start().await;
    let key = [("idempotency-key", "order-1")];
    let answers = join_all((0..50).map(|_| api.publish(&key, "{}"))).await;
    let first = answers[0].id();
    assert!(answers.iter().all(|answer| answer.id() == first));
    let new = answers.iter().filter(|answer| !answer.duplicate()).count();
    assert_eq!(new, 1);
    assert_eq!(api.events().await.len(), 1);
    let later = api.publish(&key, "{}").await;
    assert!(later.duplicate());
    assert_eq!(later.id(), first);
}

#[tokio::test]
async fn a_key_that_comes_with_another_body_is_refused() {
    let api = Api::start().await;
    let key = ("idempotency-key", "order-1");
    api.publish(&[key], "one").await.id();
    api.publish(&[key], "two")
        .await
        .refuses(422, "idempotency-key");
    let other = api
        .publish(&[key, ("content-type", "text/plain")], "one")
        .await;
    other.refuses(422, "idempotency-key");
    let kind = "urn:posthorn:problem:idempotency-key-reused";
    assert_eq!(other.json["type"], kind);
    let path = "/v1/tenants/acme/events/invoice.sent";
    let other = request("POST", path, &[key])
        .body(Body::from("one"))
        .unwrap();
    api.send(other).await.refuses(422, "idempotency-key");
    assert_eq!(api.events().await.len(), 1);
}

#[tokio::test]
async fn js_10_the_same_key_of_two_tenants_is_two_events() {
    let api = Api::start().await;
    let key = [("idempotency-key", "order-1")];
    let mut ids = Vec::new();
    for tenant in ["acme", "globex"] {
        let path = format!("/v1/tenants/{tenant}/events/a");
        let sent = request("POST", &path, &key).body(Body::from("{}")).unwrap();
        let answer = api.send(sent).await;
        assert!(!answer.duplicate());
        ids.push(answer.id());
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(api.events().await.len(), 2);
}

#[tokio::test]
async fn ing_02_a_key_is_not_recorded_before_its_event() {
    let mut tight = Topology::new("posthorn");
    tight.retention.events.1 = Some(64 * 1024);
    let api = Api::with(settings(), tight).await;
    api.publish(&[], vec![b'x'; 40_000]).await.id();
    let key = [("idempotency-key", "order-1")];
    let refused = api.publish(&key, vec![b'y'; 40_000]).await;
    assert_eq!(refused.status, 503, "{}", refused.json);
    assert!(refused.headers.contains_key("retry-after"));
    let marks = api
        .broker
        .bucket::<IdempotencyMark>(BucketName::Idempotency)
        .await;
    let id = EventId::from_key(&Tenant::parse("acme").unwrap(), "order-1");
    assert_eq!(marks.unwrap().get(id.as_str()).await.unwrap(), None);
    // Room again: the stream's limit is raised.
    connect(&api.nats, Topology::new("posthorn")).await;
    let accepted = api.publish(&key, vec![b'y'; 40_000]).await;
    assert!(!accepted.duplicate());
    assert_eq!(api.events().await.len(), 2);
}

#[tokio::test]
async fn ing_02_what_failed_while_the_broker_was_away_is_accepted_after() {
    let mut api = Api::start().await;
    api.nats.kill().await.unwrap();
    let key = [("idempotency-key", "order-1")];
    let away = api.publish(&key, "{}").await;
    assert_eq!(away.status, 503, "{}", away.json);
    assert!(away.headers.contains_key("retry-after"));
    api.nats.restart_same_port().await.unwrap();
    let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
    let accepted = loop {
        let answer = api.publish(&key, "{}").await;
        if answer.status == 202 {
            break answer;
        }
        assert_eq!(answer.status, 503, "{}", answer.json);
        assert!(
            tokio::time::Instant::now() < give_up,
            "it does not come back"
        );
    };
    assert!(!accepted.duplicate());
    assert_eq!(api.events().await.len(), 1);
}
