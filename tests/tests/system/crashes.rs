//! Processes that die at the worst moment, and again at the next.

use crate::support::{SOON, Town, counts, shared, text};
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Reply, Role};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn bo_02_the_limit_holds_when_the_dispatcher_dies_between_answer_and_record() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let limit = json!({"retry": {"base": "50ms", "max_delay": "50ms", "max_attempts": 3}});
    town.endpoint("acme", "/hook", limit).await;
    town.receiver.answer("/hook", Reply::status(403));
    town.publish("acme", "{}").await;
    let mut kills = 0;
    for requests in [1, 2] {
        town.got("/hook", requests).await;
        // At a random moment after the request was complete.
        for _ in 0..rand::random_range(0..2_000) {
            tokio::task::yield_now().await;
        }
        town.cluster
            .service(Role::Dispatcher, 0)
            .unwrap()
            .kill()
            .unwrap();
        kills += 1;
        if kills == 1 {
            town.cluster.nats.stop().await.unwrap();
            town.cluster.nats.restart().await.unwrap();
        }
        town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    }
    let letter = &town.letters("", 1).await[0];
    assert_eq!(letter["reason"], "exhausted");
    assert_eq!(letter["attempt_count"], 3);
    town.settled().await;
    let posts = town.receiver.count();
    assert!(
        (3..=3 + kills).contains(&posts),
        "{posts} POSTs, {kills} kills"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn js_05_js_06_what_kills_its_dispatcher_each_time_is_not_stranded() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::DlqAdmin, 0)).await;
    town.endpoint("acme", "/good", json!({"timeout": "30s"}))
        .await;
    town.endpoint("acme", "/bad", json!({"timeout": "30s"}))
        .await;
    town.receiver.answer("/good", Reply::hang());
    town.receiver.answer("/bad", Reply::hang());
    let events = 5;
    for _ in 0..events {
        town.publish("acme", "{}").await;
    }
    // Every delivery is met by the process that dies, three times over.
    for round in 1..=3 {
        town.receiver
            .wait_for(round * 2 * events, SOON)
            .await
            .unwrap();
        town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    }
    town.cluster.nats.kill().await.unwrap();
    town.cluster.nats.restart().await.unwrap();
    town.receiver.answer("/good", Reply::ok());
    town.receiver.answer("/bad", Reply::status(400));
    town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    // Nobody was there to listen while they died.
    town.cluster.add(Role::DlqAdmin, &[]).await.unwrap();
    town.api = std::sync::Arc::new(town.cluster.api().unwrap());
    let letters = town.letters("", events).await;
    assert!(
        letters
            .iter()
            .all(|letter| letter["reason"] == "permanent_status")
    );
    town.settled().await;
    let answered = town.receiver.requests_to("/good");
    let ok: Vec<_> = answered
        .into_iter()
        .filter(|r| r.answered() == Some(200))
        .collect();
    let times = counts(&ok);
    assert_eq!(times.len(), events, "each is delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_06_a_kill_at_each_kind_of_follow_up_loses_nothing() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    // One endpoint retries, one dies at once, one is cut off by its breaker.
    let retry = json!({"retry": {"base": "100ms", "max_delay": "200ms", "max_attempts": 30}});
    town.endpoint("acme", "/retry", retry).await;
    town.endpoint("acme", "/dead", json!({})).await;
    let breaker = json!({
        "retry": {"base": "100ms", "max_delay": "200ms", "max_attempts": 60},
        "breaker": {"failure_threshold": 2, "cooldown": "1s", "max_cooldown": "1s"},
    });
    town.endpoint("acme", "/breaker", breaker).await;
    town.receiver.answer_by("/retry", |request| {
        let first: u32 = request.header("webhook-attempt").unwrap().parse().unwrap();
        Reply::status(if first < 3 { 500 } else { 200 })
    });
    town.receiver.answer("/dead", Reply::status(400));
    town.receiver.answer("/breaker", Reply::status(500));
    const EVENTS: usize = 100;
    for round in 0..5 {
        for _ in 0..EVENTS / 5 {
            town.publish("acme", "{}").await;
        }
        for _ in 0..rand::random_range(0..5_000) {
            tokio::task::yield_now().await;
        }
        let role = if round % 2 == 0 {
            Role::Dispatcher
        } else {
            Role::Scheduler
        };
        town.cluster.restart(role, 0).await.unwrap();
    }
    town.receiver.answer("/breaker", Reply::ok());
    let delivered = |path: &'static str| {
        let mut got = town.receiver.requests_to(path);
        got.retain(|request| request.answered() == Some(200));
        counts(&got).len()
    };
    eventually(Duration::from_secs(90), "all is delivered", || async {
        delivered("/retry") == EVENTS && delivered("/breaker") == EVENTS
    })
    .await
    .unwrap_or_else(|error| {
        let counts = (delivered("/retry"), delivered("/breaker"));
        panic!("{error} {counts:?}\n{}", town.last_words())
    });
    let letters = town.letters("", EVENTS).await;
    assert!(letters.iter().all(|l| l["reason"] == "permanent_status"));
    let ids: std::collections::HashSet<_> = letters.iter().map(|l| text(&l["id"])).collect();
    assert_eq!(ids.len(), EVENTS);
    town.settled().await;
}
