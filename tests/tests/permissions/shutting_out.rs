//! A publisher over NATS that wants the events of another tenant to be lost. Who uses a message id
//! first decides what it is of, so no event that is published by HTTP may have an id that anybody
//! else can make.

use crate::raw::Raw;
use crate::site::{SOON, Site};
use posthorn_delivery::{EventId, Tenant};
use posthorn_tests::Receiver;
use posthorn_tests::api::send;
use reqwest::Method;
use serde_json::json;
use std::collections::HashSet;

/// The `Idempotency-Key`s that the other tenant will use, which can be guessed.
const KEYS: [&str; 4] = ["order-1", "order-2", "1", "globex:1"];

/// What an id could be made of by whoever knows tenant and key, and how we make the event's id.
fn guesses(key: &str) -> Vec<String> {
    let event = EventId::from_key(&Tenant::parse("globex").unwrap(), key);
    vec![
        format!("globex:{event}"),
        format!("globex:{key}"),
        format!("globex.{event}"),
        event.to_string(),
        key.to_owned(),
        format!("globex:{}", event.as_str().trim_start_matches("evt_")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn js_10_nobody_over_nats_can_make_an_event_of_http_a_duplicate() {
    let site = Site::start().await;
    let receiver = Receiver::start().await.unwrap();
    let endpoint = json!({"url": receiver.url("/theirs")});
    let made = site.api.create_endpoint("globex", &endpoint).await;
    made.unwrap();
    let mut acme = Raw::connect(site.sample.port(), site.sample.key("ACME")).await;
    let mut used = HashSet::new();
    for guess in KEYS.into_iter().flat_map(guesses) {
        if !used.insert(guess.clone()) {
            continue;
        }
        let head = format!("NATS/1.0\r\nNats-Msg-Id: {guess}\r\n\r\n");
        let subject = "posthorn.events.acme.a";
        let answer = acme.request(subject, "_INBOX.mine", head.as_bytes()).await;
        assert!(answer["seq"].is_u64(), "{answer}");
    }
    for key in &KEYS[..2] {
        let sent = site.api.publish_with_key("globex", "a", key, "{}").await;
        assert!(!sent.unwrap().duplicate, "{key}");
    }
    let items: Vec<_> = KEYS[2..]
        .iter()
        .map(|key| json!({"type": "a", "id": key, "payload": {}}))
        .collect();
    let batch = site.api.ingest(Method::POST, "/v1/tenants/globex/events");
    let batch = batch.header("content-type", "application/json");
    let answer = send(batch.body(json!(items).to_string())).await.unwrap();
    let answer = answer.success().unwrap();
    for result in answer["results"].as_array().unwrap() {
        assert_eq!(result["duplicate"], false, "{result}");
    }
    let got = receiver.wait_for(KEYS.len(), SOON).await.unwrap();
    let ids: HashSet<_> = got.iter().map(|request| request.webhook_id()).collect();
    assert_eq!(ids.len(), KEYS.len());
    // Its own repeats are still found.
    for key in KEYS {
        let sent = site.api.publish_with_key("globex", "a", key, "{}").await;
        assert!(sent.unwrap().duplicate, "{key}");
    }
    assert_eq!(receiver.count(), KEYS.len());
}
