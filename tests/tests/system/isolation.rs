//! One endpoint's trouble is not another's.

use crate::support::{SOON, Town, alone, shared, text};
use posthorn_tests::stats::percentile;
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Reply, Role};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};

async fn batch(town: &Town, tenant: &str, count: usize) {
    let items: Vec<Value> = (0..count)
        .map(|n| json!({"type": "a.b", "payload": {"n": n}}))
        .collect();
    let path = format!("/v1/tenants/{tenant}/events");
    let sent = town.api.post(&path, &json!(items)).await.unwrap();
    assert_eq!(sent.status, 202);
}

/// The most of these moments that lie within any stretch of this length.
fn most_within(moments: &[Instant], stretch: Duration) -> usize {
    let within = |begin: &Instant| {
        let after = moments.iter().filter(|at| **at >= *begin);
        after.filter(|at| **at < *begin + stretch).count()
    };
    moments.iter().map(within).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_06_a_hanging_endpoint_with_a_thousand_queued_does_not_slow_a_healthy_one() {
    let _machine = alone().await;
    let town = Town::of(Cluster::builder().copies(Role::Dispatcher, 2)).await;
    let hanging = json!({"timeout": "10s", "max_in_flight": 32, "retry": {"max_attempts": 16}});
    town.endpoint("slow", "/hang", hanging).await;
    town.endpoint("well", "/well", json!({})).await;
    town.receiver.answer("/hang", Reply::hang());
    town.receiver
        .answer("/well", Reply::ok().delay(Duration::from_millis(5)));
    batch(&town, "slow", 1_000).await;
    town.got("/hang", 32).await;
    let mut sent = HashMap::new();
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..200 {
        tick.tick().await;
        let begun = Instant::now();
        sent.insert(town.publish("well", "{}").await, begun);
    }
    let got = town.got("/well", 200).await;
    let took: Vec<Duration> = got
        .iter()
        .map(|request| request.at() - sent[request.webhook_id()])
        .collect();
    let at = |p| percentile(&took, p).unwrap();
    let (p50, p99, max) = (at(50.0), at(99.0), at(100.0));
    println!("beside 1,000 that hang: publish to arrival p50 {p50:?}, p99 {p99:?}, max {max:?}");
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    // A hanging request occupies its slot for the timeout of 10 s, so of any 9.5 s no more may
    // begin than the cap.
    let begun: Vec<Instant> = town
        .receiver
        .requests_to("/hang")
        .iter()
        .map(|r| r.at())
        .collect();
    let most = most_within(&begun, Duration::from_millis(9_500));
    assert!((16..=32).contains(&most), "{most} at once, the cap is 32");
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_07_a_failing_event_blocks_no_other_and_receivers_can_tell_the_order() {
    let _machine = shared().await;
    let town = Town::start().await;
    let retry = json!({"retry": {"base": "1s", "max_delay": "1s", "max_attempts": 5}});
    town.endpoint("acme", "/hook", retry).await;
    town.receiver.answer_by("/hook", |request| {
        let third = request.body() == "3";
        let attempt: u32 = request.header("webhook-attempt").unwrap().parse().unwrap();
        Reply::status(if third && attempt < 3 { 500 } else { 200 })
    });
    let mut ids = Vec::new();
    for body in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"] {
        ids.push(town.publish("acme", body).await);
    }
    let got = town.got("/hook", 12).await;
    assert_eq!(
        got.last().unwrap().body(),
        "3",
        "the others did not wait for it"
    );
    // 48 bits of the time of acceptance lead each id.
    let times: Vec<&str> = ids.iter().map(|id| &id["evt_".len()..][..12]).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_05_what_was_held_until_one_moment_does_not_arrive_at_one() {
    let _machine = alone().await;
    let town = Town::of(Cluster::builder().copies(Role::Dispatcher, 2)).await;
    let id = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 64}))
        .await;
    town.receiver
        .script("/hook", [Reply::status(429).header("Retry-After", "5")]);
    town.publish("acme", "{}").await;
    let breaker = format!("/v1/breakers/{id}");
    let told = town.got("/hook", 1).await[0].at();
    eventually(SOON, "the hold is known", || async {
        let shown = town.api.admin_get(&breaker).await.unwrap().json();
        shown["hold_until"].is_string()
    })
    .await
    .unwrap();
    batch(&town, "acme", 1_000).await;
    let got = town.got("/hook", 1_002).await;
    let mut late: Vec<Duration> = got[1..].iter().map(|request| request.at() - told).collect();
    late.sort();
    let mut histogram = [0_usize; 200];
    for after in &late {
        let place = after.saturating_sub(Duration::from_secs(5)).as_millis() / 100;
        histogram[usize::try_from(place).unwrap().min(199)] += 1;
    }
    println!("arrivals each 100 ms after the hold: {histogram:?}");
    assert!(
        late[0] >= Duration::from_secs(5),
        "{:?} after the 429",
        late[0]
    );
    let first_second: usize = histogram[..10].iter().sum();
    assert!(first_second <= 20, "{first_second} in the first second");
    let most = histogram.iter().max().unwrap();
    assert!(*most < 400, "{most} of 1,001 within 100 ms: {histogram:?}");
    assert!(town.receiver.most_at_once("/hook") <= 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_05_a_breaker_that_closes_releases_what_it_held_spread_out() {
    let _machine = alone().await;
    let town = Town::of(Cluster::builder().copies(Role::Dispatcher, 2)).await;
    let guarded = json!({
        "breaker": {"failure_threshold": 3, "cooldown": "3s", "max_cooldown": "3s"},
        "retry": {"base": "500ms", "max_delay": "1s", "max_attempts": 20},
        "max_in_flight": 64,
    });
    let id = town.endpoint("acme", "/hook", guarded).await;
    town.receiver.answer("/hook", Reply::status(500));
    batch(&town, "acme", 10).await;
    let breaker = format!("/v1/breakers/{id}");
    let open = eventually_some(SOON, "the breaker is open", || async {
        let shown = town.api.admin_get(&breaker).await.ok()?.json();
        (shown["state"] == "open").then_some(shown)
    });
    assert!(!text(&open.await.unwrap()["open_until"]).is_empty());
    batch(&town, "acme", 500).await;
    let before = town.receiver.count();
    town.receiver
        .answer("/hook", Reply::ok().delay(Duration::from_millis(20)));
    eventually(SOON, "all is delivered", || async {
        let got = town.receiver.requests();
        got.iter()
            .filter(|request| request.answered() == Some(200))
            .count()
            >= 510
    })
    .await
    .unwrap();
    let got = town.receiver.requests();
    let at: Vec<Instant> = got[before..].iter().map(|request| request.at()).collect();
    let busiest = most_within(&at, Duration::from_millis(100));
    println!(
        "busiest 100 ms after the breaker closed: {busiest} of {}",
        at.len()
    );
    assert!(busiest < 250, "{busiest} of {} within 100 ms", at.len());
    assert!(town.receiver.most_at_once("/hook") <= 64);
}
