//! The largest payload, at every door and through every room.

use crate::support::{Town, shared, text};
use posthorn_tests::api::send;
use posthorn_tests::{Cluster, Reply};
use serde_json::json;

fn body(size: usize) -> String {
    // A JSON string, so that nothing else about it could be the reason.
    format!("\"{}\"", "x".repeat(size - 2))
}

#[tokio::test(flavor = "multi_thread")]
async fn js_15_the_limit_is_exact_and_told() {
    let _machine = shared().await;
    let town = Town::of(Cluster::builder().env("POSTHORN_MAX_PAYLOAD", "4096")).await;
    town.endpoint("acme", "/hook", json!({})).await;
    for size in [4_095, 4_096] {
        let sent = send(town.api.publishing("acme", "a.b", body(size)))
            .await
            .unwrap();
        assert_eq!(sent.status, 202, "{size}");
    }
    let refused = send(town.api.publishing("acme", "a.b", body(4_097)))
        .await
        .unwrap();
    assert_eq!(refused.status, 413);
    assert!(
        text(&refused.json()["detail"]).contains("4096"),
        "{}",
        refused.json()
    );
    let item = |size: usize| format!("{{\"type\":\"a.b\",\"payload\":{}}}\n", body(size));
    let lines = [item(4_096), item(4_097)].concat();
    let batch = town
        .api
        .ingest(reqwest::Method::POST, "/v1/tenants/acme/events")
        .header("content-type", "application/x-ndjson")
        .body(lines);
    let batch = send(batch).await.unwrap();
    assert_eq!(batch.status, 207);
    let results = batch.json()["results"].clone();
    assert_eq!(
        (&results[0]["status"], &results[1]["status"]),
        (&json!(202), &json!(413))
    );
    let mut sizes: Vec<_> = town
        .got("/hook", 3)
        .await
        .iter()
        .map(|r| r.body().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4_095, 4_096, 4_096]);
}

#[tokio::test(flavor = "multi_thread")]
async fn js_15_the_largest_payload_passes_every_room_and_comes_back() {
    let _machine = shared().await;
    let town = Town::of(Cluster::builder().env("POSTHORN_MAX_PAYLOAD", "960KiB")).await;
    let retry = json!({"retry": {"base": "10ms", "max_delay": "10ms", "max_attempts": 64}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver
        .answer("/hook", Reply::status(500).body("r".repeat(8_192)));
    let payload = body(960 * 1024);
    let published = town
        .api
        .publish("acme", "a.b", payload.clone())
        .await
        .unwrap();
    let listed = &town.letters("", 1).await[0];
    let id = text(&listed["id"]);
    let letter = town.letter(&id).await;
    assert_eq!(letter["attempts"].as_array().unwrap().len(), 64);
    assert_eq!(letter["payload"].as_str().unwrap().len(), payload.len());
    town.receiver.answer("/hook", Reply::ok());
    assert_eq!(town.replay(&id).await.status, 202);
    town.letter_is(&id, "delivered").await;
    let last = town.receiver.requests().last().unwrap().clone();
    assert_eq!(last.webhook_id(), published.id);
    assert!(last.body() == payload.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn js_15_by_nats_what_leaves_no_room_is_a_letter_and_hurts_nobody() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let client = town.cluster.nats.client().await.unwrap();
    let most = client.server_info().max_payload;
    let context = async_nats::jetstream::new(client);
    for size in [most - 64 * 1024, most - 64 * 1024 + 1, most - 200] {
        let sent = context
            .publish("posthorn.events.acme.a.b", body(size).into())
            .await;
        sent.unwrap().await.unwrap();
    }
    town.publish("acme", "{}").await;
    let letters = town.letters("", 2).await;
    assert!(
        letters.iter().all(|letter| letter["reason"] == "too_large"),
        "{letters:?}"
    );
    let got = town.got("/hook", 2).await;
    assert!(
        got.iter()
            .any(|request| request.body().len() == most - 64 * 1024)
    );
    town.settled().await;
    assert_eq!(town.receiver.count(), 2);
    for letter in letters {
        let shown = town.letter(&text(&letter["id"])).await;
        let whole = shown["payload"]
            .as_str()
            .is_some_and(|p| p.len() > most - 65 * 1024);
        let said = text(&shown["detail"]).contains("bytes");
        assert!(
            whole || said,
            "the payload is there, or it is said that it is not"
        );
    }
}

/// Beside the largest payload: as many attributes as there may be, each as long as it may be, and
/// for the rest of the message a trace context that is none.
#[tokio::test(flavor = "multi_thread")]
async fn js_15_by_nats_all_that_a_publisher_may_add_finds_room() {
    let _machine = shared().await;
    let town = Town::start().await;
    let fails = json!({"retry": {"base": "10ms", "max_delay": "10ms", "max_attempts": 64}});
    town.endpoint("acme", "/hook", fails).await;
    town.receiver
        .answer("/hook", Reply::status(500).body("r".repeat(8_192)));
    let client = town.cluster.nats.client().await.unwrap();
    let most = client.server_info().max_payload;
    let context = async_nats::jetstream::new(client);
    let mut headers = async_nats::HeaderMap::new();
    for n in 0..32 {
        headers.insert(format!("ce-{n}").as_str(), "v".repeat(1_024).as_str());
    }
    headers.insert("Content-Type", "t".repeat(1_024).as_str());
    headers.insert("traceparent", "0".repeat(28_000).as_str());
    let payload = body(most - 64 * 1024);
    let subject = "posthorn.events.acme.a.b";
    let sent = context.publish_with_headers(subject, headers, payload.clone().into());
    sent.await.unwrap().await.unwrap();
    let letter = town.letters("", 1).await.remove(0);
    assert_eq!(letter["reason"], "exhausted", "{letter}");
    town.settled().await;
    let got = town.receiver.requests();
    assert_eq!(got.len(), 64);
    for request in got {
        assert!(request.body() == payload.as_bytes());
        assert_eq!(request.header("ce-31").map(str::len), Some(1_024));
        assert_eq!(request.header("traceparent").map(str::len), Some(55));
    }
}
