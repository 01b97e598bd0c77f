//! Recovering: an endpoint gets what it has missed, once, and nothing else.

use crate::support::{SOON, Town, counts, shared, text};
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Reply, Role};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Publishes `count` events of `acme` and returns their ids.
async fn publish(town: &Town, event_type: &str, count: usize) -> Vec<String> {
    let item = |n| json!({"type": event_type, "payload": {"n": n}});
    let items: Vec<Value> = (0..count).map(item).collect();
    let path = "/v1/tenants/acme/events";
    let answer = town.api.post(path, &json!(items)).await.unwrap();
    assert_eq!(answer.status, 202, "{}", answer.json());
    let results = answer.json()["results"].as_array().unwrap().clone();
    results.iter().map(|result| text(&result["id"])).collect()
}

/// Asks for what `endpoint` has missed; `more` is laid over it.
async fn recover(town: &Town, endpoint: &str, more: Value) -> Value {
    let mut body = json!({"since": LONG_AGO, "rate_per_second": 1_000});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let path = format!("/v1/tenants/acme/endpoints/{endpoint}/recover");
    let answer = town.api.post(&path, &body).await.unwrap();
    answer.success().unwrap()
}

/// What a dry run counts: to be sent, delivered, under way.
async fn count(town: &Town, endpoint: &str) -> (u64, u64, u64) {
    let counted = recover(town, endpoint, json!({"dry_run": true})).await;
    assert_eq!(counted["dry_run"], true, "{counted}");
    let number = |name: &str| counted[name].as_u64().unwrap();
    (number("matched"), number("delivered"), number("under_way"))
}

async fn job(town: &Town, id: &Value) -> Option<Value> {
    let path = format!("/v1/replays/{}", id.as_str().unwrap());
    town.api.admin_get(&path).await.ok()?.success().ok()
}

/// Waits for the end of a job, and returns how many matched, were sent and skipped.
async fn ends(town: &Town, id: &Value) -> (u64, u64, u64) {
    let done = eventually_some(SOON, "the recovery is done", || async {
        job(town, id)
            .await
            .filter(|job| job["state"] == "completed")
    });
    let done = match done.await {
        Ok(done) => done,
        Err(error) => panic!("{error}: {:?}\n{}", job(town, id).await, town.last_words()),
    };
    assert_eq!(done["kind"], "recover");
    let number = |name: &str| done[name].as_u64().unwrap();
    (number("matched"), number("replayed"), number("skipped"))
}

async fn act(town: &Town, endpoint: &str, action: &str) {
    let path = format!("/v1/tenants/acme/endpoints/{endpoint}/{action}");
    let done = town.api.post(&path, &json!({})).await.unwrap();
    done.success().unwrap();
}

/// Waits until nothing waits to be fanned out or attempted.
async fn handled(town: &Town) {
    town.streams_empty(&["POSTHORN_EVENTS", "POSTHORN_DELIVERIES"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_04_an_endpoint_that_was_gone_gets_what_was_skipped_and_nothing_twice() {
    let _machine = shared().await;
    let town = Town::start().await;
    let endpoint = town.endpoint("acme", "/hook", json!({})).await;
    let delivered = publish(&town, "a.b", 5).await;
    town.got("/hook", 5).await;
    town.receiver.script("/hook", [Reply::status(410)]);
    publish(&town, "a.b", 1).await;
    town.letters("&reason=gone", 1).await;
    let path = format!("/v1/tenants/acme/endpoints/{endpoint}");
    eventually(SOON, "the endpoint is disabled", || async {
        let shown = town.api.get(&path).await.unwrap().json();
        shown["disabled_reason"] == "gone"
    })
    .await
    .unwrap();
    publish(&town, "a.b", 20).await;
    handled(&town).await;
    assert_eq!(town.receiver.count(), 6);
    act(&town, &endpoint, "resume").await;
    // What was skipped, and the one that got the 410, by its letter.
    assert_eq!(count(&town, &endpoint).await, (21, 5, 0));
    let asked = recover(&town, &endpoint, json!({})).await;
    assert!(asked["oldest_retained"].is_string(), "{asked}");
    assert_eq!(ends(&town, &asked["id"]).await, (21, 21, 0));
    let got = town.got("/hook", 27).await;
    town.letters("", 0).await;
    town.settled().await;
    let times = counts(&got);
    assert_eq!(times.len(), 26);
    assert!(delivered.iter().all(|event| times[event] == 1));
    let again: Vec<_> = got[6..]
        .iter()
        .map(|r| r.header("webhook-attempt"))
        .collect();
    assert!(again.iter().all(|attempt| *attempt == Some("1")));

    // All of it has been delivered now: a second one sends nothing, unless it is asked to.
    assert_eq!(count(&town, &endpoint).await, (0, 26, 0));
    let second = recover(&town, &endpoint, json!({})).await;
    assert_eq!(ends(&town, &second["id"]).await, (0, 0, 0));
    let third = recover(&town, &endpoint, json!({"include_delivered": true})).await;
    assert_eq!(ends(&town, &third["id"]).await, (26, 26, 0));
    town.got("/hook", 53).await;
    town.settled().await;
    assert_eq!(town.receiver.count(), 53);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_came_later_gets_what_matches_it_for_the_first_time() {
    let _machine = shared().await;
    let town = Town::start().await;
    publish(&town, "invoice.paid", 3).await;
    publish(&town, "invoice.sent", 3).await;
    publish(&town, "user.created", 4).await;
    town.api
        .publish("globex", "invoice.paid", "{}")
        .await
        .unwrap();
    handled(&town).await;
    let only = json!({"event_types": ["invoice.*"]});
    let endpoint = town.endpoint("acme", "/late", only).await;
    assert_eq!(count(&town, &endpoint).await, (6, 0, 0));
    // A test send is nobody's miss.
    act(&town, &endpoint, "test").await;
    town.got("/late", 1).await;
    let first = town.got("/late", 1).await[0].clone();
    let asked = recover(&town, &endpoint, json!({})).await;
    assert_eq!(ends(&town, &asked["id"]).await, (6, 6, 0));
    let got = town.got("/late", 7).await;
    town.settled().await;
    assert_eq!(town.receiver.count(), 7);
    assert_eq!(counts(&got).len(), 7);
    assert!(
        got[1..]
            .iter()
            .all(|r| r.webhook_id() != first.webhook_id())
    );
    // Nothing became a dead letter on the way, delivered or not.
    let path = format!("/v1/dead-letters?endpoint={endpoint}");
    assert_eq!(town.api.admin_list(&path).await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_what_is_under_way_is_left_to_the_line() {
    let _machine = shared().await;
    let town = Town::start().await;
    let slowly = json!({"retry": {"base": "30s", "max_delay": "30s", "jitter": "none",
                                  "max_attempts": 3}});
    let retrying = town.endpoint("acme", "/retrying", slowly).await;
    let paused = town.endpoint("acme", "/paused", json!({})).await;
    town.receiver
        .script("/retrying", vec![Reply::status(500); 4]);
    act(&town, &paused, "pause").await;
    let waiting = publish(&town, "a.b", 4).await;
    town.got("/retrying", 4).await;
    handled(&town).await;
    assert_eq!(count(&town, &paused).await, (0, 0, 4));
    assert_eq!(count(&town, &retrying).await, (0, 0, 4));
    for endpoint in [&paused, &retrying] {
        let asked = recover(&town, endpoint, json!({"include_delivered": true})).await;
        assert_eq!(ends(&town, &asked["id"]).await, (0, 0, 0));
    }
    act(&town, &paused, "resume").await;
    let got = town.got("/paused", 4).await;
    let times = counts(&got);
    assert!(waiting.iter().all(|event| times[event] == 1));
    assert_eq!(count(&town, &paused).await, (0, 4, 0));
    assert_eq!(town.receiver.requests_to("/paused").len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_what_waits_in_the_replay_lane_is_not_put_there_again() {
    let _machine = shared().await;
    let town = Town::start().await;
    publish(&town, "a.b", 10).await;
    handled(&town).await;
    let endpoint = town.endpoint("acme", "/hook", json!({})).await;
    act(&town, &endpoint, "pause").await;
    for (wanted, counted) in [(10, (10, 0, 0)), (0, (0, 0, 10))] {
        assert_eq!(count(&town, &endpoint).await, counted);
        let asked = recover(&town, &endpoint, json!({"include_delivered": true})).await;
        assert_eq!(ends(&town, &asked["id"]).await, (wanted, wanted, 0));
    }
    act(&town, &endpoint, "resume").await;
    let got = town.got("/hook", 10).await;
    town.settled().await;
    assert_eq!((counts(&got).len(), town.receiver.count()), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_what_died_is_recovered_by_its_letter_which_dies_again_or_leaves() {
    let _machine = shared().await;
    let town = Town::start().await;
    let once = json!({"retry": {"max_attempts": 1}});
    let endpoint = town.endpoint("acme", "/hook", once).await;
    town.receiver.script("/hook", vec![Reply::status(500); 7]);
    publish(&town, "a.b", 3).await;
    town.letters("", 3).await;
    let half = time::OffsetDateTime::now_utc();
    publish(&town, "a.b", 3).await;
    town.letters("", 6).await;
    let purged = text(&town.letters("", 6).await[0]["id"]);
    let path = format!("/v1/dead-letters/{purged}");
    assert_eq!(town.api.admin_delete(&path).await.unwrap().status, 204);
    // The one that was thrown away is owed as well: it was asked for.
    assert_eq!(count(&town, &endpoint).await, (6, 0, 0));
    let half = half
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap();
    let later = recover(&town, &endpoint, json!({"since": half})).await;
    assert_eq!(ends(&town, &later["id"]).await, (3, 3, 0));
    // One of the three has died again.
    let left = town.letters("&state=dead", 4).await;
    let again = left
        .iter()
        .find(|letter| letter["replay_id"] == later["id"]);
    assert_eq!(again.unwrap()["replays"], 1);
    let asked = recover(&town, &endpoint, json!({})).await;
    assert_eq!(ends(&town, &asked["id"]).await, (4, 4, 0));
    town.letters("", 0).await;
    town.settled().await;
    assert_eq!(counts(&town.receiver.requests()).len(), 6);
    assert_eq!(town.receiver.count(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_recovery_whose_worker_is_killed_misses_none_and_sends_none_twice() {
    const EVENTS: usize = 400;
    let _machine = shared().await;
    let mut town = Town::start().await;
    let published: HashSet<String> = publish(&town, "a.b", EVENTS).await.into_iter().collect();
    handled(&town).await;
    let endpoint = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 256}))
        .await;
    let asked = recover(&town, &endpoint, json!({"rate_per_second": 100})).await;
    for already in [60, 200] {
        town.got("/hook", already).await;
        town.cluster.restart(Role::DlqAdmin, 0).await.unwrap();
    }
    let all = EVENTS as u64;
    assert_eq!(ends(&town, &asked["id"]).await, (all, all, 0));
    let got = town.got("/hook", EVENTS).await;
    town.settled().await;
    let times = counts(&got);
    assert_eq!(times.keys().cloned().collect::<HashSet<_>>(), published);
    assert_eq!(town.receiver.count(), EVENTS, "0 twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_is_paused_within_a_second_goes_on_and_is_cancelled() {
    const EVENTS: usize = 300;
    let _machine = shared().await;
    let town = Town::start().await;
    publish(&town, "a.b", EVENTS).await;
    handled(&town).await;
    let endpoint = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 256}))
        .await;
    let asked = recover(&town, &endpoint, json!({"rate_per_second": 50})).await;
    let steer = |verb: &'static str| {
        let path = format!("/v1/replays/{}/{verb}", asked["id"].as_str().unwrap());
        let api = town.api.clone();
        async move { api.admin_post(&path, &json!({})).await.unwrap().status }
    };
    town.got("/hook", 20).await;
    assert_eq!(steer("pause").await, 200);
    let paused = Instant::now();
    let standing = quiet(&town).await;
    let last = town.receiver.requests()[standing - 1].at();
    let after = last.saturating_duration_since(paused);
    assert!(
        after <= Duration::from_millis(1_100),
        "{after:?} after the pause"
    );
    assert_eq!(steer("resume").await, 200);
    town.got("/hook", standing + 20).await;
    assert_eq!(steer("cancel").await, 200);
    let end = quiet(&town).await;
    assert!(end < EVENTS);
    let cancelled = job(&town, &asked["id"]).await.unwrap();
    assert_eq!(
        (&cancelled["state"], &cancelled["replayed"]),
        (&json!("cancelled"), &json!(end))
    );
    // The rest is still there for another one.
    let rest = recover(&town, &endpoint, json!({})).await;
    let left = (EVENTS - end) as u64;
    assert_eq!(ends(&town, &rest["id"]).await, (left, left, 0));
    let got = town.got("/hook", EVENTS).await;
    assert!(counts(&got).values().all(|count| *count == 1));
}

/// Waits until the receiver has had nothing for a second, and says how many it had.
async fn quiet(town: &Town) -> usize {
    let mut last = (town.receiver.count(), Instant::now());
    eventually_some(SOON, "nothing arrives for a second", || {
        let now = town.receiver.count();
        if now != last.0 {
            last = (now, Instant::now());
        }
        std::future::ready((last.1.elapsed() >= Duration::from_secs(1)).then_some(now))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_two_recoveries_at_once_take_turns() {
    const EVENTS: usize = 200;
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.cluster.add(Role::DlqAdmin, &[]).await.unwrap();
    publish(&town, "a.b", EVENTS).await;
    handled(&town).await;
    let endpoint = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 256}))
        .await;
    let rate = || json!({"rate_per_second": 200});
    let (first, second) = tokio::join!(
        recover(&town, &endpoint, rate()),
        recover(&town, &endpoint, rate())
    );
    let (first, second) = tokio::join!(ends(&town, &first["id"]), ends(&town, &second["id"]));
    town.settled().await;
    assert_eq!(first.1 + second.1, EVENTS as u64, "{first:?} {second:?}");
    assert_eq!(town.receiver.count(), EVENTS, "0 twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn js_17_an_event_that_no_client_can_read_stops_no_recovery() {
    let _machine = shared().await;
    let town = Town::start().await;
    publish(&town, "a.b", 3).await;
    publish_raw(
        &town,
        &[
            b"NATS/1.0\r\nX: \xff\r\n\r\n",
            b"NATS/1.0 204\r\nA: b\r\n\r\n",
            b"NATS/1.0\r\nNats-Num-Pending: 0\r\nNats-Sequence: 1\r\n\r\n",
        ],
    )
    .await;
    publish(&town, "a.b", 3).await;
    town.letters("&reason=invalid_event", 1).await;
    // Those that were handed out with it come again after their ack wait.
    handled(&town).await;
    let endpoint = town.endpoint("acme", "/hook", json!({})).await;
    let asked = recover(&town, &endpoint, json!({})).await;
    assert_eq!(ends(&town, &asked["id"]).await, (8, 8, 0));
    let got = town.got("/hook", 8).await;
    assert_eq!(counts(&got).len(), 8);
}

/// Publishes events of `acme` with these header bytes, which no client library would send.
async fn publish_raw(town: &Town, heads: &[&[u8]]) {
    let address = town.cluster.nats.url().replace("nats://", "");
    let stream = TcpStream::connect(address).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let mut sent = b"CONNECT {\"headers\":true,\"verbose\":false}\r\n".to_vec();
    for head in heads {
        let (size, whole) = (head.len(), head.len() + 2);
        let line = format!("HPUB posthorn.events.acme.a.b {size} {whole}\r\n");
        sent.extend([line.as_bytes(), head, b"{}\r\n"].concat());
    }
    sent.extend(b"PING\r\n");
    writer.write_all(&sent).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let heard = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.starts_with("-ERR"), "{line}");
            if line == "PONG" {
                return;
            }
        }
        panic!("the server has closed the connection");
    };
    tokio::time::timeout(SOON, heard).await.unwrap();
}
