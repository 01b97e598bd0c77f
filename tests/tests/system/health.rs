//! What the system says about itself, well and unwell.

use crate::support::{SOON, Town, alone, metric, ops, shared};
use nix::sys::signal::Signal;
use posthorn_tests::fault_proxy::FaultProxy;
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Reply, Role};
use serde_json::{Value, json};

const ROLES: [Role; 4] = [
    Role::Ingest,
    Role::Scheduler,
    Role::Dispatcher,
    Role::DlqAdmin,
];

fn port(town: &mut Town, role: Role) -> u16 {
    let service = town.cluster.service(role, 0).unwrap();
    service.ops_port().unwrap()
}

/// Waits until `/readyz` has a status, and returns what it says.
async fn readyz(port: u16, status: u16) -> Value {
    let what = format!("/readyz is {status}");
    let found = eventually_some(SOON, &what, || async {
        let (found, body) = ops(port, "/readyz").await;
        (found == status).then_some(body)
    });
    serde_json::from_str(&found.await.unwrap()).unwrap()
}

/// The parts that are not ready, and why.
fn broken(body: &Value) -> Vec<(String, String)> {
    let parts = body["components"].as_array().unwrap().iter();
    parts
        .filter(|part| part["ready"] == false)
        .map(|part| {
            let word = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
            (word("name"), word("reason"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_04_without_nats_every_process_is_alive_and_says_what_is_missing() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.cluster.nats.kill().await.unwrap();
    for role in ROLES {
        let port = port(&mut town, role);
        let body = readyz(port, 503).await;
        assert_eq!(body["ready"], false);
        let broken = broken(&body);
        let nats = broken.iter().find(|(name, _)| name == "nats");
        let (_, reason) = nats.unwrap_or_else(|| panic!("{role:?}: {broken:?}"));
        assert!(reason.contains("not connected"), "{role:?}: {reason}");
        assert_eq!(ops(port, "/livez").await.0, 200, "{role:?}");
        assert_eq!(ops(port, "/metrics").await.0, 200, "{role:?}");
    }
    town.cluster.nats.restart().await.unwrap();
    for role in ROLES {
        let port = port(&mut town, role);
        assert_eq!(broken(&readyz(port, 200).await), []);
    }
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    town.got("/hook", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_04_a_loop_that_stalls_on_an_open_connection_is_named() {
    let _machine = shared().await;
    let builder = Cluster::builder()
        .copies(Role::Dispatcher, 0)
        .copies(Role::Scheduler, 0);
    let mut town = Town::of(builder).await;
    let proxy = FaultProxy::start(town.cluster.nats.port()).await.unwrap();
    let url = proxy.nats_url();
    for role in [Role::Dispatcher, Role::Scheduler] {
        let through = [("POSTHORN_NATS_URL", url.as_str())];
        town.cluster.add(role, &through).await.unwrap();
    }
    town.endpoint("acme", "/hook", json!({})).await;
    proxy.pause();
    for _ in 0..5 {
        town.publish("acme", "{}").await;
    }
    for (role, part) in [(Role::Dispatcher, "dispatch"), (Role::Scheduler, "fanout")] {
        let port = port(&mut town, role);
        let what = format!("{role:?} names {part}");
        let reason = eventually_some(SOON, &what, || async {
            let (status, body) = ops(port, "/readyz").await;
            let body = serde_json::from_str(&body).ok().filter(|_| status == 503)?;
            let mut broken = broken(&body).into_iter();
            broken.find(|(name, _)| name == part)
        });
        let (_, reason) = reason.await.unwrap();
        assert!(reason.contains("stalled"), "{role:?}: {reason}");
        assert_eq!(ops(port, "/livez").await.0, 200);
    }
    proxy.resume();
    for role in [Role::Dispatcher, Role::Scheduler] {
        let port = port(&mut town, role);
        readyz(port, 200).await;
    }
    town.publish("acme", "{}").await;
    town.got("/hook", 6).await;
    town.settled().await;
    assert_eq!(town.receiver.count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_04_silence_raises_the_age_of_what_is_due_and_it_falls_again() {
    let _machine = alone().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Dispatcher, 2)).await;
    town.endpoint("acme", "/hook", json!({})).await;
    town.publish("acme", "{}").await;
    town.got("/hook", 1).await;
    let last_success = metric_of_any(&mut town, "posthorn_last_success_timestamp_seconds").await;
    assert!(last_success > 1_700_000_000.0);
    let scheduler = port(&mut town, Role::Scheduler);
    let age = || async {
        let (_, text) = ops(scheduler, "/metrics").await;
        metric(&text, "posthorn_oldest_due_seconds", "")
    };
    for copy in 0..2 {
        let dispatcher = town.cluster.service(Role::Dispatcher, copy).unwrap();
        dispatcher.signal(Signal::SIGSTOP).unwrap();
    }
    for _ in 0..3 {
        town.publish("acme", "{}").await;
    }
    let mut seen = Vec::new();
    for above in [2.0, 8.0] {
        let grown = eventually_some(SOON, "the age grows", || async {
            age().await.filter(|age| *age > above)
        });
        seen.push(grown.await.unwrap());
    }
    assert!(seen[1] > seen[0]);
    for copy in 0..2 {
        let dispatcher = town.cluster.service(Role::Dispatcher, copy).unwrap();
        dispatcher.signal(Signal::SIGCONT).unwrap();
    }
    town.got("/hook", 4).await;
    eventually(SOON, "nothing is due any more", || async {
        age().await.is_some_and(|age| age < 1.0)
    })
    .await
    .unwrap();
}

/// A gauge of whichever dispatcher has it.
async fn metric_of_any(town: &mut Town, name: &str) -> f64 {
    let mut found = 0.0_f64;
    for copy in 0..town.cluster.count(Role::Dispatcher) {
        let text = town.metrics(Role::Dispatcher, copy).await;
        found = found.max(metric(&text, name, "").unwrap_or(0.0));
    }
    found
}

/// A counter that comes with its first count has no rise that an alert could see.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_is_there_before_anything_happens() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let wanted = [
        (Role::Ingest, "posthorn_events_accepted_total", ""),
        (Role::Scheduler, "posthorn_deliveries_created_total", ""),
        (
            Role::Scheduler,
            "posthorn_dead_letters_total",
            "\"invalid_event\"",
        ),
        (Role::Dispatcher, "posthorn_attempts_total", "2xx"),
        (
            Role::Dispatcher,
            "posthorn_dead_letters_total",
            "\"exhausted\"",
        ),
        (
            Role::Dispatcher,
            "posthorn_attempt_duration_seconds_count",
            "",
        ),
        (
            Role::Dispatcher,
            "posthorn_delivery_latency_seconds_count",
            "",
        ),
        (Role::Dispatcher, "posthorn_in_flight", ""),
    ];
    for (role, name, label) in wanted {
        let told = metric(&town.metrics(role, 0).await, name, label);
        assert_eq!(told, Some(0.0), "{name} of {role:?}");
    }
    for role in ROLES {
        let told = town.metrics(role, 0).await;
        let failures = metric(&told, "posthorn_broker_publish_failures_total", "");
        assert!(failures.is_some(), "{role:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counters_tell_what_happened() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    town.endpoint("acme", "/good", json!({})).await;
    town.endpoint("acme", "/bad", json!({})).await;
    town.endpoint("acme", "/weak", json!({})).await;
    town.receiver.answer("/bad", Reply::status(400));
    town.receiver.answer("/weak", Reply::status(503));
    for _ in 0..10 {
        town.publish("acme", "{}").await;
    }
    town.letters("", 20).await;
    town.settled().await;
    let ingest = town.metrics(Role::Ingest, 0).await;
    let scheduler = town.metrics(Role::Scheduler, 0).await;
    let dispatcher = town.metrics(Role::Dispatcher, 0).await;
    let told = [
        metric(&ingest, "posthorn_events_accepted_total", ""),
        metric(&scheduler, "posthorn_deliveries_created_total", ""),
        metric(&dispatcher, "posthorn_attempts_total", "2xx"),
        metric(&dispatcher, "posthorn_attempts_total", "4xx"),
        metric(&dispatcher, "posthorn_attempts_total", "5xx"),
        metric(
            &dispatcher,
            "posthorn_dead_letters_total",
            "\"permanent_status\"",
        ),
        metric(&dispatcher, "posthorn_dead_letters_total", "\"exhausted\""),
        metric(&dispatcher, "posthorn_delivery_latency_seconds_count", ""),
        metric(&dispatcher, "posthorn_attempt_duration_seconds_count", ""),
    ];
    let wanted = [10.0, 30.0, 10.0, 10.0, 30.0, 10.0, 10.0, 10.0, 50.0];
    assert_eq!(told, wanted.map(Some));
    let (at, beside) = (
        port(&mut town, Role::Dispatcher),
        port(&mut town, Role::Scheduler),
    );
    eventually(SOON, "nothing is in flight or waits", || async {
        let dispatcher = ops(at, "/metrics").await.1;
        let scheduler = ops(beside, "/metrics").await.1;
        metric(&dispatcher, "posthorn_in_flight", "") == Some(0.0)
            && metric(&scheduler, "posthorn_retries_waiting", "") == Some(0.0)
    })
    .await
    .unwrap();
    for text in [ingest, scheduler, dispatcher] {
        assert!(!text.contains("acme"), "no metric names a tenant");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_in_json_are_an_object_a_line() {
    let _machine = shared().await;
    let builder = Cluster::builder()
        .env("POSTHORN_LOG_FORMAT", "json")
        .env("POSTHORN_LOG", "info,posthorn=debug");
    let mut town = Town::of(builder).await;
    town.endpoint("acme", "/hook", json!({})).await;
    town.receiver.answer("/hook", Reply::status(400));
    town.publish("acme", "{}").await;
    town.letters("", 1).await;
    for role in ROLES {
        let service = town.cluster.service(role, 0).unwrap();
        service.terminate(SOON).await.unwrap();
        let output = town.cluster.service(role, 0).unwrap().output();
        assert!(!output.is_empty(), "{role:?} says something");
        for line in output.lines() {
            let said: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{role:?}: {error}: {line}"));
            assert!(said["level"].is_string(), "{line}");
            assert!(said["timestamp"].is_string(), "{line}");
            assert!(said["message"].is_string(), "{line}");
            assert!(said["target"].is_string(), "{line}");
        }
    }
}
