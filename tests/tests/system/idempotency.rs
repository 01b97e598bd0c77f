//! The same key is the same event, whatever lies between the two requests.

use crate::support::{SOON, Town, metric, shared};
use futures_util::future::join_all;
use posthorn_tests::api::Api;
use posthorn_tests::fault_proxy::FaultProxy;
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Role};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn js_10_two_tenants_may_use_the_same_key() {
    let _machine = shared().await;
    let town = Town::start().await;
    for tenant in ["a", "b"] {
        for n in 0..3 {
            let path = format!("/{tenant}{n}");
            town.endpoint(tenant, &path, json!({})).await;
        }
    }
    let publish = |tenant: &'static str| town.api.publish_with_key(tenant, "a.b", "order-1", "{}");
    let (a, b) = (publish("a").await.unwrap(), publish("b").await.unwrap());
    assert!(!a.duplicate && !b.duplicate);
    assert_ne!(a.id, b.id);
    assert!(publish("a").await.unwrap().duplicate);
    town.receiver.wait_for(6, SOON).await.unwrap();
    town.settled().await;
    let got = town.receiver.requests();
    let pairs: HashSet<_> = got
        .iter()
        .map(|r| (r.path().to_owned(), r.webhook_id()))
        .collect();
    assert_eq!((got.len(), pairs.len()), (6, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn js_12_a_key_is_known_after_the_window_of_the_broker_and_after_a_restart_of_everything() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().env("POSTHORN_DEDUPE_WINDOW", "1s")).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let first = town
        .api
        .publish_with_key("acme", "a.b", "k", "{}")
        .await
        .unwrap();
    assert!(!first.duplicate);
    // The broker's own memory of a bare id shows that the window has passed.
    let context = async_nats::jetstream::new(town.cluster.nats.client().await.unwrap());
    let store = || async {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", "other:1");
        let subject = "posthorn.events.other.x";
        let sent = context
            .publish_with_headers(subject, headers, "{}".into())
            .await;
        sent.unwrap().await.unwrap().duplicate
    };
    assert!(!store().await && store().await);
    eventually(SOON, "the broker has forgotten", || async {
        !store().await
    })
    .await
    .unwrap();
    let again = town
        .api
        .publish_with_key("acme", "a.b", "k", "{}")
        .await
        .unwrap();
    assert_eq!((&again.id, again.duplicate), (&first.id, true));
    for role in [
        Role::Ingest,
        Role::Scheduler,
        Role::Dispatcher,
        Role::DlqAdmin,
    ] {
        town.cluster.service(role, 0).unwrap().kill().unwrap();
    }
    town.cluster.nats.kill().await.unwrap();
    town.cluster.nats.restart().await.unwrap();
    for role in [
        Role::Ingest,
        Role::Scheduler,
        Role::Dispatcher,
        Role::DlqAdmin,
    ] {
        town.cluster.restart(role, 0).await.unwrap();
    }
    let again = town
        .api
        .publish_with_key("acme", "a.b", "k", "{}")
        .await
        .unwrap();
    assert_eq!((&again.id, again.duplicate), (&first.id, true));
    let other = town
        .api
        .publish_with_key("acme", "a.b", "k2", "{}")
        .await
        .unwrap();
    assert!(!other.duplicate);
    town.receiver.wait_for(2, SOON).await.unwrap();
    town.settled().await;
    assert_eq!(town.receiver.requests_to("/hook").len(), 2);
    let reused = town
        .api
        .publish_with_key("acme", "a.b", "k", "{\"another\":1}")
        .await;
    assert!(
        reused.unwrap_err().to_string().contains("422"),
        "a key is of one event"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_02_a_key_whose_publish_failed_is_no_duplicate_of_nothing() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Ingest, 0)).await;
    let proxy = FaultProxy::start(town.cluster.nats.port()).await.unwrap();
    let through = [("POSTHORN_NATS_URL", proxy.nats_url())];
    let through: Vec<_> = through.iter().map(|(k, v)| (*k, v.as_str())).collect();
    town.cluster.add(Role::Ingest, &through).await.unwrap();
    town.api = std::sync::Arc::new(town.cluster.api().unwrap());
    town.endpoint("acme", "/hook", json!({})).await;
    let mut accepted = HashSet::new();
    let mut refused = 0;
    for round in 0..12 {
        let key = format!("key-{round}");
        let api = town.api.clone();
        let publishing = {
            let key = key.clone();
            tokio::spawn(async move { api.publish_with_key("acme", "a.b", &key, "{}").await })
        };
        // At another place of the exchange in each round: before, in the middle, after.
        for _ in 0..round * 40 {
            tokio::task::yield_now().await;
        }
        if round % 2 == 0 {
            proxy.cut();
        } else {
            proxy.refuse();
        }
        let first = publishing.await.unwrap();
        proxy.resume();
        let again = eventually_some(SOON, "the key is accepted", || async {
            town.api
                .publish_with_key("acme", "a.b", &key, "{}")
                .await
                .ok()
        });
        let again = again.await.unwrap();
        match first {
            Ok(first) => assert_eq!(first.id, again.id, "round {round}"),
            Err(_) => refused += 1,
        }
        accepted.insert(again.id);
    }
    println!("{refused} of 12 publishes were cut off");
    assert!(refused > 0, "no publish met its fault");
    assert_eq!(accepted.len(), 12);
    town.receiver.wait_for(12, SOON).await.unwrap();
    town.settled().await;
    let got = town.receiver.requests();
    let ids: HashSet<_> = got.iter().map(|r| r.webhook_id().to_owned()).collect();
    assert_eq!(ids, accepted);
    assert_eq!(got.len(), 12, "each was delivered once");
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_02_without_nats_a_publisher_is_told_to_come_again() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    town.cluster.nats.kill().await.unwrap();
    let request = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("idempotency-key", "k");
    let refused = posthorn_tests::api::send(request).await.unwrap();
    assert_eq!(refused.status, 503);
    let after = refused
        .headers
        .get("retry-after")
        .unwrap()
        .to_str()
        .unwrap();
    assert!(after.parse::<u64>().unwrap() >= 1);
    assert_eq!(
        refused.headers.get("content-type").unwrap(),
        "application/problem+json"
    );
    town.cluster.nats.restart().await.unwrap();
    let accepted = eventually_some(SOON, "the key is accepted", || async {
        town.api
            .publish_with_key("acme", "a.b", "k", "{}")
            .await
            .ok()
    });
    let accepted = accepted.await.unwrap();
    let got = town.got("/hook", 1).await;
    assert_eq!(got[0].webhook_id(), accepted.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_03_the_same_key_at_once_and_in_turn_is_one_event() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Ingest, 2)).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let publish = || town.api.publish_with_key("acme", "a.b", "same", "{}");
    let answers = join_all((0..50).map(|_| publish())).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let ids: HashSet<_> = answers.iter().map(|answer| answer.id.clone()).collect();
    assert_eq!(ids.len(), 1);
    let fresh = answers.iter().filter(|answer| !answer.duplicate).count();
    assert_eq!(fresh, 1, "one of fifty is the first");
    assert!(publish().await.unwrap().duplicate);
    town.got("/hook", 1).await;
    town.settled().await;
    assert_eq!(town.receiver.count(), 1);
    let mut accepted = 0.0;
    for copy in 0..2 {
        let metrics = town.metrics(Role::Ingest, copy).await;
        accepted += metric(&metrics, "posthorn_events_accepted_total", "").unwrap_or(0.0);
    }
    assert_eq!(accepted, 1.0);
}

/// The ids in EVENTS are made with the first of them; the marks are not.
#[tokio::test(flavor = "multi_thread")]
async fn js_12_a_key_outlives_a_change_of_the_secret_keys() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let publish = |api: Arc<Api>, key: &'static str| async move {
        let sent = api.publish_with_key("acme", "a.b", key, "{}").await;
        sent.unwrap()
    };
    let first = publish(town.api.clone(), "k").await;
    let newer = "k2:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let keys = format!("{newer},{}", posthorn_tests::cluster::SECRET_KEYS);
    let changed = [("POSTHORN_SECRET_KEYS", keys.as_str())];
    town.cluster.add(Role::Ingest, &changed).await.unwrap();
    let (ingest, admin) = (Role::Ingest, Role::DlqAdmin);
    let (mut ingest, mut admin) = (town.cluster.urls(ingest), town.cluster.urls(admin));
    let key = posthorn_tests::cluster::ADMIN_KEY;
    let api = Api::new(vec![ingest.remove(1)], admin.remove(0), key).unwrap();
    let api = Arc::new(api);
    let again = publish(api.clone(), "k").await;
    assert_eq!((again.id, again.duplicate), (first.id, true));
    // And the other way round, while old and new copies run side by side.
    let second = publish(api, "l").await;
    let again = publish(town.api.clone(), "l").await;
    assert_eq!((again.id, again.duplicate), (second.id, true));
    town.receiver.wait_for(2, SOON).await.unwrap();
    town.settled().await;
    assert_eq!(town.receiver.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_04_a_batch_reports_each_item_and_a_repeat_after_a_kill_completes_it() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.endpoint("acme", "/hook", json!({"max_in_flight": 256}))
        .await;
    let items: Vec<Value> = (0..100)
        .map(|n| match n {
            57 => json!({"type": "not a type", "id": "item-57", "payload": n}),
            _ => json!({"type": "a.b", "id": format!("item-{n}"), "payload": n}),
        })
        .collect();
    let batch = json!(items);
    let path = "/v1/tenants/acme/events";
    // The first try is cut off by the death of the process, at whatever item it was.
    let api = town.api.clone();
    let (first_path, body) = (path.to_owned(), batch.clone());
    let first = tokio::spawn(async move { api.post(&first_path, &body).await.map(|a| a.status) });
    let stored = || async { town.receiver.count() >= 1 };
    let _ = eventually(
        Duration::from_secs(10),
        "the first items are stored",
        stored,
    )
    .await;
    town.cluster.restart(Role::Ingest, 0).await.unwrap();
    let _ = first.await.unwrap();
    let answer = town.api.post(path, &batch).await.unwrap();
    assert_eq!(answer.status, 207);
    let json = answer.json();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["id"].is_string(), n != 57, "item {n}: {result}");
    }
    town.receiver.wait_for(99, SOON).await.unwrap();
    town.settled().await;
    let bodies: HashSet<_> = town
        .receiver
        .requests()
        .iter()
        .map(|r| String::from_utf8(r.body().to_vec()).unwrap())
        .collect();
    let wanted: HashSet<_> = (0..100)
        .filter(|n| *n != 57)
        .map(|n| n.to_string())
        .collect();
    assert_eq!(bodies, wanted);
    assert_eq!(town.receiver.count(), 99, "no item was delivered twice");
}
