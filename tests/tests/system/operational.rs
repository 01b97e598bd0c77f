//! What operators are told: events of the reserved tenant, each once, bounded in a storm, and
//! none that is about itself.

use crate::support::{SOON, Town, metric, ops, shared, text};
use posthorn_broker::{Broker, BucketName, ConnectSettings, Topology};
use posthorn_delivery::breaker::{close_by_hand, open_by_hand};
use posthorn_delivery::{BreakerState, DisabledReason, Endpoint};
use posthorn_tests::{Cluster, Reply, Role, eventually};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const OPENS_AT_ONCE: &str = r#"{"failure_threshold": 1, "cooldown": "1s", "max_cooldown": "1s"}"#;

fn breaker() -> Value {
    serde_json::from_str(OPENS_AT_ONCE).unwrap()
}

/// What came to the alert endpoint, by the id that a receiver drops repeats by.
fn told(town: &Town) -> BTreeMap<String, Value> {
    let got = town.receiver.requests_to("/alerts");
    got.iter()
        .map(|request| {
            let body = serde_json::from_slice(request.body()).unwrap();
            (request.webhook_id().to_owned(), body)
        })
        .collect()
}

fn of_type(town: &Town, kind: &str) -> Vec<Value> {
    let all = told(town).into_values();
    all.filter(|event| event["type"] == kind).collect()
}

async fn wait_for(town: &Town, kind: &str, count: usize) -> Vec<Value> {
    let what = format!("{count} of {kind}");
    let there = eventually(SOON, &what, || async { of_type(town, kind).len() >= count }).await;
    if let Err(error) = there {
        panic!("{error}: {:#?}\n{}", told(town), town.last_words());
    }
    of_type(town, kind)
}

/// How many events of the reserved tenant there have been.
async fn archived(town: &Town) -> usize {
    let client = town.cluster.nats.client().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("POSTHORN_ARCHIVE").await.unwrap();
    let subjects = stream
        .info_with_subjects("posthorn.archive._posthorn.>")
        .await
        .unwrap();
    use futures_util::StreamExt;
    let counts = subjects.map(|subject| subject.unwrap().1);
    counts
        .fold(0, |sum, count| async move { sum + count })
        .await
}

async fn alerts(town: &Town) -> String {
    let more = json!({"event_types": ["posthorn.>"], "retry": {"base": "50ms"}});
    town.endpoint("_posthorn", "/alerts", more).await
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_each_thing_is_told_once_over_several_copies_and_nothing_secret() {
    let _machine = shared().await;
    let builder = Cluster::builder()
        .copies(Role::Dispatcher, 2)
        .copies(Role::Scheduler, 2)
        .env("POSTHORN_ALARM_FAILING_AFTER", "2s")
        .env("POSTHORN_ALARM_DLQ_GROWTH", "3");
    let town = Town::of(builder).await;
    alerts(&town).await;
    let patient = json!({"base": "50ms", "max_delay": "200ms", "max_attempts": 60});
    let down = json!({"breaker": breaker(), "retry": patient});
    let down = town.endpoint("acme", "/down", down).await;
    let gone = town
        .endpoint("acme", "/gone", json!({"event_types": ["a.gone"]}))
        .await;
    town.receiver
        .answer("/down", Reply::status(500).body("stack trace"));
    town.receiver.answer("/gone", Reply::status(410));
    town.publish("acme", r#"{"card":"4242"}"#).await;

    let opened = wait_for(&town, "posthorn.breaker.opened", 1).await;
    assert_eq!(opened[0]["data"]["endpoint_id"], down.as_str());
    assert_eq!(opened[0]["data"]["tenant"], "acme");
    let failing = wait_for(&town, "posthorn.endpoint.failing", 1).await;
    assert_eq!(failing[0]["data"]["endpoint_id"], down.as_str());
    assert_eq!(
        failing[0]["data"]["failing_since"], opened[0]["data"]["opened_at"],
        "failed probes in between are nothing new"
    );
    town.receiver.answer("/down", Reply::ok());
    let closed = wait_for(&town, "posthorn.breaker.closed", 1).await;
    assert_eq!(
        closed[0]["data"]["opened_at"],
        opened[0]["data"]["opened_at"]
    );

    town.api.publish("acme", "a.gone", "{}").await.unwrap();
    let disabled = wait_for(&town, "posthorn.endpoint.disabled", 1).await;
    assert_eq!(disabled[0]["data"]["endpoint_id"], gone.as_str());
    assert_eq!(disabled[0]["data"]["reason"], "gone");
    let letter = town.letters("&tenant=acme&reason=gone", 1).await.remove(0);
    let letters = wait_for(&town, "posthorn.dead_letter.created", 1).await;
    let data = letters
        .iter()
        .map(|event| &event["data"])
        .find(|data| data["letter_id"] == letter["id"])
        .unwrap();
    assert_eq!(
        (&data["reason"], &data["count"]),
        (&json!("gone"), &json!(1))
    );
    assert_eq!(data["event_id"], letter["event_id"]);

    let refuses = json!({"event_types": ["a.refused"]});
    town.endpoint("acme", "/refuses", refuses).await;
    town.receiver.answer("/refuses", Reply::status(400));
    for _ in 0..4 {
        town.api.publish("acme", "a.refused", "{}").await.unwrap();
    }
    let growing = wait_for(&town, "posthorn.dlq.growing", 1).await;
    assert!(growing[0]["data"]["more"].as_u64() >= Some(3));
    town.settled().await;
    for (kind, count) in [
        ("posthorn.breaker.opened", 1),
        ("posthorn.breaker.closed", 1),
        ("posthorn.endpoint.disabled", 1),
        ("posthorn.endpoint.failing", 1),
        ("posthorn.dead_letter.created", 5),
    ] {
        assert_eq!(
            of_type(&town, kind).len(),
            count,
            "{kind}: {:#?}",
            told(&town)
        );
    }
    let all = serde_json::to_string(&told(&town)).unwrap();
    for secret in ["127.0.0.1", "/down", "4242", "stack trace", "whsec"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_is_moved_by_hand_is_told_of() {
    let _machine = shared().await;
    let town = Town::start().await;
    alerts(&town).await;
    let id = town
        .endpoint("acme", "/hook", json!({"breaker": breaker()}))
        .await;
    for (verb, kind) in [
        ("open", "posthorn.breaker.opened"),
        ("close", "posthorn.breaker.closed"),
    ] {
        let path = format!("/v1/breakers/{id}/{verb}");
        town.api.admin_post(&path, &json!({})).await.unwrap();
        let told = wait_for(&town, kind, 1).await;
        assert_eq!(told[0]["data"]["endpoint_id"], id.as_str());
        let by_hand = told[0]["data"]["reason"].as_str().unwrap();
        assert!(by_hand.contains("by hand"), "{by_hand}");
    }
}

/// The alert endpoints are down, cut off, gone and disabled, and their own events become dead
/// letters: nobody is told of any of it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_about_what_tells() {
    let _machine = shared().await;
    let town = Town::start().await;
    let once = json!({"retry": {"max_attempts": 1}, "breaker": breaker()});
    town.endpoint("_posthorn", "/dead", once).await;
    let gone = town.endpoint("_posthorn", "/gone", json!({})).await;
    town.receiver.answer("/dead", Reply::status(500));
    town.receiver.answer("/gone", Reply::status(410));
    town.endpoint("acme", "/refuses", json!({})).await;
    town.receiver.answer("/refuses", Reply::status(400));

    town.publish("acme", "{}").await;
    town.letters("&tenant=acme", 1).await;
    let own = town.letters("&tenant=_posthorn", 2).await;
    let reasons: BTreeSet<String> = own.iter().map(|letter| text(&letter["reason"])).collect();
    let expected = ["exhausted", "gone"].map(str::to_owned);
    assert_eq!(reasons, BTreeSet::from(expected));
    let path = format!("/v1/tenants/_posthorn/endpoints/{gone}");
    eventually(SOON, "the alert endpoint is disabled", || async {
        let shown = town.api.get(&path).await.unwrap().json();
        shown["disabled_reason"] == "gone"
    })
    .await
    .unwrap();
    // A second letter comes behind whatever the first ones could have led to.
    town.publish("acme", "{}").await;
    town.letters("&tenant=acme", 2).await;
    eventually(SOON, "two events, of the two letters", || async {
        archived(&town).await == 2
    })
    .await
    .unwrap();
    assert_eq!(town.receiver.requests_to("/gone").len(), 1);
    town.streams_empty(&["POSTHORN_EVENTS", "POSTHORN_DELIVERIES"])
        .await;
    assert_eq!(archived(&town).await, 2, "{}", town.last_words());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_dead_letters_is_told_in_numbers() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    alerts(&town).await;
    town.endpoint("acme", "/refuses", json!({})).await;
    town.receiver.answer("/refuses", Reply::status(400));
    let batch: Vec<Value> = (0..300)
        .map(|n| json!({"type": "a.b", "payload": {"n": n}}))
        .collect();
    let answer = town
        .api
        .post("/v1/tenants/acme/events", &json!(batch))
        .await;
    assert_eq!(answer.unwrap().status, 202);
    town.letters("&tenant=acme", 300).await;
    // It sums up what it has counted when it ends.
    let dispatcher = town.cluster.service(Role::Dispatcher, 0).unwrap();
    dispatcher.terminate(SOON).await.unwrap();
    town.cluster.restart(Role::Dispatcher, 0).await.unwrap();
    let sum = |town: &Town| -> u64 {
        let events = of_type(town, "posthorn.dead_letter.created");
        let counts = events
            .iter()
            .map(|event| event["data"]["count"].as_u64().unwrap());
        counts.sum()
    };
    eventually(SOON, "every letter is counted", || async {
        sum(&town) == 300
    })
    .await
    .unwrap_or_else(|error| panic!("{error}: {} {:#?}", sum(&town), told(&town)));
    let events = of_type(&town, "posthorn.dead_letter.created");
    // A minute may have ended meanwhile.
    assert!(events.len() <= 18, "{}", events.len());
    let many = events
        .iter()
        .find(|event| event["data"]["count"] != 1)
        .unwrap();
    assert_eq!(many["data"]["reason"], "permanent_status");
    assert!(many["data"]["letter_id"].is_null());
}

/// What a dispatcher writes into the buckets and dies over, before it tells.
#[tokio::test(flavor = "multi_thread")]
async fn ops_06_what_its_maker_died_over_is_told_all_the_same() {
    let _machine = shared().await;
    let town = Town::start().await;
    alerts(&town).await;
    let id = town
        .endpoint("acme", "/hook", json!({"breaker": breaker()}))
        .await;
    let settings = ConnectSettings::plain(town.cluster.nats.url(), "test");
    let broker = Broker::connect(&settings, Topology::new("posthorn"))
        .await
        .unwrap();
    let now = posthorn_wiring::now();
    let state = open_by_hand(&BreakerState::default(), now + SOON, now);
    let breakers = broker.bucket(BucketName::Breakers).await.unwrap();
    breakers.put(&id, &state).await.unwrap();
    let told = wait_for(&town, "posthorn.breaker.opened", 1).await;
    assert_eq!(told[0]["data"]["endpoint_id"], id.as_str());
    let endpoints = broker
        .bucket::<Endpoint>(BucketName::Endpoints)
        .await
        .unwrap();
    let key = format!("acme.{id}");
    let mut endpoint = endpoints.get(&key).await.unwrap().unwrap().value;
    endpoint.disabled = Some((DisabledReason::Breaker, now));
    endpoints.put(&key, &endpoint).await.unwrap();
    let told = wait_for(&town, "posthorn.endpoint.disabled", 1).await;
    assert_eq!(told[0]["data"]["reason"], "breaker");
    breakers.put(&id, &close_by_hand(&state)).await.unwrap();
    wait_for(&town, "posthorn.breaker.closed", 1).await;
}

/// Everything is up but those who send: that it is late is told as soon as it can be.
#[tokio::test(flavor = "multi_thread")]
async fn ops_04_work_that_nobody_does_is_told_of() {
    let _machine = shared().await;
    let builder = Cluster::builder()
        .copies(Role::Dispatcher, 0)
        .copies(Role::Scheduler, 2)
        .env("POSTHORN_ALARM_LATE_AFTER", "2s");
    let mut town = Town::of(builder).await;
    alerts(&town).await;
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    eventually(SOON, "it is told", || async { archived(&town).await >= 1 })
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", town.last_words()));
    town.cluster.add(Role::Dispatcher, &[]).await.unwrap();
    let told = wait_for(&town, "posthorn.due.late", 1).await;
    assert!(told[0]["data"]["oldest_due_seconds"].as_u64() >= Some(2));
    town.got("/hook", 1).await;
    // The clock may have struck in between.
    assert!(of_type(&town, "posthorn.due.late").len() <= 2);
}

/// Where there is no room for what is told, it is counted, and no delivery waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn ops_06_what_cannot_be_told_keeps_no_letter_from_being_written() {
    let _machine = shared().await;
    let builder = Cluster::builder().env("POSTHORN_EVENT_MAX_BYTES", "64KiB");
    let mut town = Town::of(builder).await;
    town.endpoint("acme", "/slow", json!({})).await;
    let refusal = Reply::status(400).delay(Duration::from_secs(5));
    town.receiver.answer("/slow", refusal);
    town.publish("acme", "{}").await;
    town.got("/slow", 1).await;
    // Nobody fans out any more, so that the intake fills up.
    let scheduler = town.cluster.service(Role::Scheduler, 0).unwrap();
    scheduler.kill().unwrap();
    for size in [4_000, 100, 1] {
        let filler = "x".repeat(size);
        eventually(SOON, "the intake refuses", || async {
            let answer = town.api.publish("acme", "a.b", filler.clone()).await;
            answer.is_err()
        })
        .await
        .unwrap();
    }
    town.letters("&reason=permanent_status", 1).await;
    let dispatcher = town.cluster.service(Role::Dispatcher, 0).unwrap();
    let port = dispatcher.ops_port().unwrap();
    eventually(SOON, "it is counted", || async {
        let (_, metrics) = ops(port, "/metrics").await;
        metric(&metrics, "posthorn_operational_event_failures_total", "") == Some(1.0)
    })
    .await
    .unwrap();
    // What was accepted meanwhile comes, and there is room again.
    town.receiver.answer("/slow", Reply::ok());
    town.cluster.restart(Role::Scheduler, 0).await.unwrap();
    town.settled().await;
    let events = archived(&town).await;
    assert_eq!(events, 0, "what was given up is not told later");
}
