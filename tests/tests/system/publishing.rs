//! What publishers hand in reaches receivers as it was.

use crate::support::{Town, shared};
use async_nats::HeaderMap;
use posthorn_tests::api::send;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const CLOUD_EVENT: [(&str, &str); 5] = [
    ("ce-specversion", "1.0"),
    ("ce-id", "A234-1234-1234"),
    ("ce-source", "/shop/orders"),
    ("ce-type", "com.example.order.paid"),
    ("ce-subject", "order/7"),
];

#[tokio::test(flavor = "multi_thread")]
async fn cloud_events_in_binary_mode_go_through_by_both_doors() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let mut request = town.api.publishing("acme", "order.paid", "{\"a\" : 1.0}");
    for (name, value) in CLOUD_EVENT {
        request = request.header(name, value);
    }
    assert_eq!(send(request).await.unwrap().status, 202);
    let mut headers = HeaderMap::new();
    for (name, value) in CLOUD_EVENT {
        headers.insert(name, value);
    }
    headers.insert("Content-Type", "application/json");
    let context = async_nats::jetstream::new(town.cluster.nats.client().await.unwrap());
    let payload = "{\"a\" : 1.0}".into();
    let subject = "posthorn.events.acme.order.paid";
    let sent = context
        .publish_with_headers(subject, headers, payload)
        .await;
    sent.unwrap().await.unwrap();
    for got in town.got("/hook", 2).await {
        for (name, value) in CLOUD_EVENT {
            assert_eq!(got.header(name), Some(value));
        }
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(got.body(), "{\"a\" : 1.0}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_with_a_time_is_delivered_then_and_matched_then() {
    let _machine = shared().await;
    let town = Town::start().await;
    let due = SystemTime::now() + Duration::from_secs(3);
    let at = OffsetDateTime::from(due).format(&Rfc3339).unwrap();
    let request = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("deliver-at", &at);
    assert_eq!(send(request).await.unwrap().status, 202);
    // Made after the event was accepted and before it is due.
    town.endpoint("acme", "/hook", json!({})).await;
    let got = town.got("/hook", 1).await;
    let due = due
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let late = i128::from(got[0].unix_ms()) - i128::try_from(due).unwrap();
    assert!((-1..10_000).contains(&late), "{late} ms after it was due");
    for bad in ["soon", "2199-01-01T00:00:00Z"] {
        let request = town
            .api
            .publishing("acme", "a.b", "{}")
            .header("deliver-at", bad);
        assert_eq!(send(request).await.unwrap().status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_the_bytes_of_each_payload() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let payloads = [
        "{\"a\" : 1.0}",
        "{ \"b\":1e2,\t\"a\":\"\\u00e9\" }",
        "12345678901234567890123",
        "\"plain\"",
        "null",
    ];
    let items = payloads.map(|payload| format!("{{\"type\":\"a.b\",\"payload\":{payload}}}"));
    for (content_type, body) in [
        ("application/json", format!("[{}]", items.join(",\n"))),
        ("application/x-ndjson", items.join("\n")),
    ] {
        let request = town
            .api
            .ingest(reqwest::Method::POST, "/v1/tenants/acme/events")
            .header("content-type", content_type)
            .body(body);
        let answer = send(request).await.unwrap();
        assert_eq!(answer.status, 202, "{}", answer.json());
        assert_eq!(
            answer.json()["results"].as_array().unwrap().len(),
            payloads.len()
        );
        let got = town.got("/hook", payloads.len()).await;
        let bodies: BTreeSet<_> = got.iter().map(|r| r.body().to_vec()).collect();
        let wanted: BTreeSet<_> = payloads.iter().map(|p| p.as_bytes().to_vec()).collect();
        assert_eq!(bodies, wanted, "{content_type}");
        town.settled().await;
        assert_eq!(town.receiver.count(), payloads.len());
        town.receiver.clear();
    }
}
