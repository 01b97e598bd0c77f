//! Orderly ends: SIGTERM finishes what is in flight and repeats nothing.

use crate::turn;
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, DEADLINE, Role};
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

fn most_often(receiver: &Receiver) -> usize {
    let mut times: HashMap<String, usize> = HashMap::new();
    for request in receiver.requests() {
        *times.entry(request.webhook_id().to_owned()).or_default() += 1;
    }
    times.into_values().max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_01_js_07_sigterm_finishes_what_is_in_flight_and_repeats_nothing() {
    let _turn = turn::light().await;
    let mut cluster = Cluster::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/slow", Reply::ok().delay(Duration::from_secs(3)));
    let api = cluster.api().unwrap();
    api.create_endpoint("acme", &json!({"url": receiver.url("/slow")}))
        .await
        .unwrap();
    for _ in 0..20 {
        api.publish("acme", "a", "{}").await.unwrap();
    }
    let all_begun = || async { receiver.most_at_once("/slow") == 20 };
    eventually(DEADLINE, "20 are in flight", all_begun)
        .await
        .unwrap();
    let dispatcher = cluster.service(Role::Dispatcher, 0).unwrap();
    let status = dispatcher.terminate(Duration::from_secs(20)).await.unwrap();
    assert!(status.success(), "{status:?}");
    cluster.restart(Role::Dispatcher, 0).await.unwrap();
    api.publish("acme", "after", "{}").await.unwrap();
    receiver.wait_for(21, DEADLINE).await.unwrap();
    assert_eq!((receiver.count(), most_often(&receiver)), (21, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn js_07_a_burst_that_has_just_been_answered_is_not_sent_again_after_sigterm() {
    let _turn = turn::light().await;
    let mut cluster = Cluster::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let api = cluster.api().unwrap();
    api.create_endpoint("acme", &json!({"url": receiver.url("/hook")}))
        .await
        .unwrap();
    for _ in 0..200 {
        api.publish("acme", "a", "{}").await.unwrap();
    }
    receiver.wait_for(200, DEADLINE).await.unwrap();
    for role in [
        Role::Dispatcher,
        Role::Scheduler,
        Role::Ingest,
        Role::DlqAdmin,
    ] {
        let status = cluster
            .service(role, 0)
            .unwrap()
            .terminate(Duration::from_secs(20))
            .await
            .unwrap();
        assert!(status.success(), "{role:?}: {status:?}");
        cluster.restart(role, 0).await.unwrap();
    }
    cluster
        .api()
        .unwrap()
        .publish("acme", "after", "{}")
        .await
        .unwrap();
    receiver.wait_for(201, DEADLINE).await.unwrap();
    assert_eq!((receiver.count(), most_often(&receiver)), (201, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn js_04_a_slow_receiver_gets_each_delivery_once_from_two_dispatchers() {
    let _turn = turn::light().await;
    let cluster = Cluster::builder()
        .copies(Role::Dispatcher, 2)
        .env("POSTHORN_DISPATCH_CONCURRENCY", "4")
        .start()
        .await
        .unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/slow", Reply::ok().delay(Duration::from_millis(500)));
    let api = cluster.api().unwrap();
    api.create_endpoint("acme", &json!({"url": receiver.url("/slow")}))
        .await
        .unwrap();
    for _ in 0..200 {
        api.publish("acme", "a", "{}").await.unwrap();
    }
    receiver
        .wait_for(200, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!((receiver.count(), most_often(&receiver)), (200, 1));
    assert!(receiver.most_at_once("/slow") <= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn js_08_a_dispatcher_that_was_asleep_changes_nothing_when_it_wakes() {
    use nix::sys::signal::Signal;
    let _turn = turn::light().await;
    let mut cluster = Cluster::builder()
        .copies(Role::Dispatcher, 2)
        .start()
        .await
        .unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hook", Reply::ok().delay(Duration::from_millis(300)));
    let api = cluster.api().unwrap();
    api.create_endpoint("acme", &json!({"url": receiver.url("/hook")}))
        .await
        .unwrap();
    for _ in 0..20 {
        api.publish("acme", "a", "{}").await.unwrap();
    }
    receiver.wait_for(5, DEADLINE).await.unwrap();
    cluster
        .service(Role::Dispatcher, 0)
        .unwrap()
        .signal(Signal::SIGSTOP)
        .unwrap();
    let distinct = || async {
        let ids: std::collections::HashSet<_> = receiver
            .requests()
            .iter()
            .map(|request| request.webhook_id().to_owned())
            .collect();
        ids.len() == 20
    };
    eventually(DEADLINE, "the other one delivers everything", distinct)
        .await
        .unwrap();
    cluster
        .service(Role::Dispatcher, 0)
        .unwrap()
        .signal(Signal::SIGCONT)
        .unwrap();
    let attempts = || async {
        let all = api.admin_list("/v1/attempts?limit=500").await.unwrap();
        all.iter().all(|attempt| attempt["disposition"] != "retry") && all.len() >= 20
    };
    eventually(
        DEADLINE,
        "every attempt is recorded and none leads to a retry",
        attempts,
    )
    .await
    .unwrap();
    assert!(
        most_often(&receiver) <= 2,
        "at most one more POST for what was in flight"
    );
}

/// What was known of the old one has higher revisions than anything in the new one.
#[tokio::test(flavor = "multi_thread")]
async fn ops_03_a_broker_that_comes_back_empty_is_furnished_and_used() {
    let _turn = turn::light().await;
    let mut cluster = Cluster::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let api = cluster.api().unwrap();
    for n in 0..3 {
        let endpoint = json!({"url": receiver.url(&format!("/old/{n}"))});
        api.create_endpoint("acme", &endpoint).await.unwrap();
    }
    api.publish("acme", "a", "{}").await.unwrap();
    receiver.wait_for(3, DEADLINE).await.unwrap();
    cluster.nats.restart_empty().await.unwrap();
    let endpoint = json!({"url": receiver.url("/hook")});
    let created = || async { api.create_endpoint("acme", &endpoint).await.is_ok() };
    eventually(
        Duration::from_secs(60),
        "an endpoint can be created again",
        created,
    )
    .await
    .unwrap();
    let arrived = || async {
        let published = api.publish("acme", "a", "{}").await.is_ok();
        published && !receiver.requests_to("/hook").is_empty()
    };
    eventually(
        Duration::from_secs(60),
        "an event is accepted again and reaches the new endpoint",
        arrived,
    )
    .await
    .unwrap();
    let listed = api.get("/v1/tenants/acme/endpoints").await.unwrap().json();
    assert_eq!(listed["count"], 1, "the old endpoints are gone: {listed}");
    let lines = cluster.output().lines().count();
    assert!(lines < 2_000, "{lines} lines of log for one outage");
}
