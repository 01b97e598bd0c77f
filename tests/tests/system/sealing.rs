//! Secrets at rest: nothing of them is in the store, and their keys change while deliveries run.

use crate::secrets::verifies;
use crate::support::{SOON, Town, shared, text};
use posthorn_tests::api::Api;
use posthorn_tests::cluster::{ADMIN_KEY, SECRET_KEYS};
use posthorn_tests::wait::{eventually, eventually_some};
use posthorn_tests::{Cluster, Reply, Role, bins};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const K2: &str = "k2://///////////////////////////////////////v8=";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const PRIVATE: [&str; 10] = [
    "user-canary",
    "password-canary",
    "path-canary",
    "query-canary",
    "header-canary",
    "header-other-canary",
    "whsec_",
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "whsk_",
];
const SHOWN: &str = "visible-canary";

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// What of these is in these bytes.
fn found(bytes: &[u8]) -> Vec<&'static str> {
    let found = PRIVATE.into_iter().filter(|text| holds(bytes, text));
    found.collect()
}

/// Every message that is in the bucket of endpoints, as it is stored.
async fn bucket(town: &Town) -> Vec<Vec<u8>> {
    let client = town.cluster.nats.client().await.unwrap();
    let context = async_nats::jetstream::new(client);
    let mut stream = context.get_stream("KV_POSTHORN_ENDPOINTS").await.unwrap();
    let state = stream.info().await.unwrap().state.clone();
    let mut messages = Vec::new();
    for sequence in state.first_sequence..=state.last_sequence {
        if let Ok(message) = stream.get_raw_message(sequence).await {
            messages.push(message.payload.to_vec());
        }
    }
    messages
}

fn files(folder: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_no_secret_of_an_endpoint_is_in_the_store_of_nats() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let address = town.receiver.address();
    let url = |user: &str| format!("http://{user}@{address}/path-canary?key=query-canary");
    let document = json!({
        "url": url("user-canary:password-canary"),
        "description": SHOWN,
        "headers": {"X-Token": "header-canary"},
        "secret": SECRET,
        "signatures": ["v1", "v1a"],
        "retry": {"base": "10ms", "max_delay": "10ms", "max_attempts": 2},
        "breaker": null,
    });
    town.receiver.answer("/path-canary", Reply::status(500));
    let made = town.api.create_endpoint("acme", &document).await.unwrap();
    town.publish("acme", "{}").await;
    let letter = text(&town.letters("", 1).await[0]["id"]);
    let path = format!("/v1/tenants/acme/endpoints/{}", text(&made["id"]));
    let patch = json!({"secret": NEW_SECRET, "headers": {"X-Other": "header-other-canary"}});
    town.api
        .patch(&path, &patch)
        .await
        .unwrap()
        .success()
        .unwrap();
    let rotated = town
        .api
        .post(&format!("{path}/secret/rotate"), &json!({}))
        .await;
    let rotated = text(&rotated.unwrap().success().unwrap()["secret"]);
    town.receiver.answer("/path-canary", Reply::ok());
    assert_eq!(town.replay(&letter).await.status, 202);
    let got = town.got("/path-canary", 3).await;
    let last = got.last().unwrap();
    assert_eq!(last.header("x-token"), Some("header-canary"));
    assert_eq!(last.header("x-other"), Some("header-other-canary"));
    assert!(last.header("authorization").unwrap().starts_with("Basic "));
    assert!(verifies(last, &rotated) && verifies(last, NEW_SECRET));
    town.settled().await;

    let messages = bucket(&town).await;
    assert!(messages.iter().any(|message| holds(message, SHOWN)));
    for message in &messages {
        assert!(
            found(message).is_empty(),
            "the bucket holds {:?}",
            found(message)
        );
        assert!(!holds(message, rotated.trim_start_matches("whsec_")));
    }
    town.cluster.nats.stop().await.unwrap();
    let mut all = Vec::new();
    files(town.cluster.nats.data_dir(), &mut all);
    let shown = all.iter().filter(|(_, bytes)| holds(bytes, SHOWN)).count();
    assert!(shown > 0, "the files are those of the store");
    for (file, bytes) in &all {
        assert!(found(bytes).is_empty(), "{file} holds {:?}", found(bytes));
    }
}

/// `posthorn secrets rotate` against a copy of ingest.
async fn rotate_keys(ingest: &str) -> String {
    let mut command = tokio::process::Command::new(bins::bin("posthorn").await.unwrap());
    command.args(["secrets", "rotate"]);
    command.env("POSTHORN_INGEST_URL", ingest);
    command.env("POSTHORN_API_KEY", ADMIN_KEY);
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn sig_04_keys_of_the_store_are_rotated_while_deliveries_run() {
    let _machine = shared().await;
    let first = format!("{SECRET_KEYS},{K2}");
    let builder = Cluster::builder().env("POSTHORN_SECRET_KEYS", &first);
    let mut town = Town::of(builder).await;
    for n in 0..4 {
        let more = json!({"secret": SECRET, "headers": {"X-Token": "header-canary"}});
        town.endpoint("acme", &format!("/hook/{n}"), more).await;
    }
    let (going, sent) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicUsize::new(0)),
    );
    let publisher = tokio::spawn({
        let (api, going, sent) = (town.api.clone(), going.clone(), sent.clone());
        async move {
            while going.load(Ordering::Relaxed) {
                api.publish("acme", "a.b", "{}").await.unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let more = async |town: &Town| {
        let enough = town.receiver.count() + 40;
        town.receiver.wait_for(enough, SOON).await.unwrap();
    };
    more(&town).await;
    let newest_first = format!("{K2},{SECRET_KEYS}");
    let keys = [("POSTHORN_SECRET_KEYS", newest_first.as_str())];
    town.cluster.add(Role::Ingest, &keys).await.unwrap();
    let ingest = town.cluster.urls(Role::Ingest).remove(1);
    let said = rotate_keys(&ingest).await;
    assert_eq!(
        said.trim(),
        "4 endpoints sealed with key k2, 0 were already"
    );
    more(&town).await;
    for message in bucket(&town).await {
        assert!(!holds(&message, "sealed:v1:k1:") && holds(&message, "sealed:v1:k2:"));
    }
    // Nobody needs the old key any more.
    let only_new = [("POSTHORN_SECRET_KEYS", K2)];
    town.cluster.add(Role::Dispatcher, &only_new).await.unwrap();
    let old = town.cluster.service(Role::Dispatcher, 0).unwrap();
    assert!(old.terminate(SOON).await.unwrap().success());
    more(&town).await;
    going.store(false, Ordering::Relaxed);
    publisher.await.unwrap();
    town.settled().await;

    let expected = 4 * sent.load(Ordering::Relaxed);
    let requests = town.receiver.wait_for(expected, SOON).await.unwrap();
    assert_eq!(requests.len(), expected);
    for request in &requests {
        assert!(verifies(request, SECRET));
        assert_eq!(request.header("x-token"), Some("header-canary"));
    }
    assert!(town.letters("", 0).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dispatcher_cannot_open_is_dead_as_unsignable_and_its_log_names_the_key() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().copies(Role::Dispatcher, 0)).await;
    let other = [("POSTHORN_SECRET_KEYS", K2)];
    town.cluster.add(Role::Dispatcher, &other).await.unwrap();
    let more = json!({"secret": SECRET, "headers": {"X-Token": "header-canary"}});
    let id = town.endpoint("acme", "/hook", more).await;
    town.publish("acme", "{}").await;
    let letter = town.letters("", 1).await.remove(0);
    assert_eq!(letter["reason"], "unsignable");
    assert_eq!(town.receiver.connections(), 0);
    let dispatcher = town.cluster.service(Role::Dispatcher, 0).unwrap();
    let logged = dispatcher.output();
    let line = logged
        .lines()
        .find(|line| line.contains("ERROR") && line.contains(&id));
    let line = line.unwrap_or_else(|| panic!("{logged}"));
    assert!(line.contains("k1") && !line.contains("sealed:"), "{line}");
    assert!(dispatcher.terminate(SOON).await.unwrap().success());

    town.cluster.add(Role::Dispatcher, &[]).await.unwrap();
    assert_eq!(town.replay(&text(&letter["id"])).await.status, 202);
    let got = town.got("/hook", 1).await;
    assert!(verifies(&got[0], SECRET));
}

/// Everything would be given up, and nobody asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_without_any_key_does_not_start_where_secrets_are_sealed() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder()).await;
    let id = town.endpoint("acme", "/hook", json!({})).await;
    let none = [("POSTHORN_SECRET_KEYS", "none")];
    let refused = town.cluster.add(Role::Dispatcher, &none).await.unwrap_err();
    let said = format!("{refused:#}");
    assert!(
        said.contains("64") && said.contains("POSTHORN_SECRET_KEYS"),
        "{said}"
    );
    assert!(!said.contains(&id), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_stored_in_plain_are_delivered_to_and_sealed_by_a_rotation() {
    let _machine = shared().await;
    let plain = Cluster::builder().env("POSTHORN_SECRET_KEYS", "none");
    let mut town = Town::of(plain).await;
    let more = json!({"secret": SECRET, "headers": {"X-Token": "header-canary"}});
    town.endpoint("acme", "/hook", more).await;
    assert!(
        bucket(&town)
            .await
            .iter()
            .all(|message| holds(message, SECRET))
    );
    for role in [Role::Ingest, Role::Dispatcher] {
        let keys = [("POSTHORN_SECRET_KEYS", SECRET_KEYS)];
        town.cluster.add(role, &keys).await.unwrap();
        let old = town.cluster.service(role, 0).unwrap();
        assert!(old.terminate(SOON).await.unwrap().success());
    }
    let ingest = town.cluster.urls(Role::Ingest).remove(1);
    let api = Api::new(vec![ingest.clone()], String::new(), ADMIN_KEY).unwrap();
    for n in 1..=2 {
        api.publish("acme", "a.b", "{}").await.unwrap();
        let got = town.got("/hook", n).await;
        assert!(verifies(&got[n - 1], SECRET));
        if n == 1 {
            let said = rotate_keys(&ingest).await;
            assert_eq!(
                said.trim(),
                "1 endpoints sealed with key k1, 0 were already"
            );
        }
    }
    let sealed = eventually_some(SOON, "the endpoint is sealed", || async {
        let messages = bucket(&town).await;
        messages
            .iter()
            .all(|message| found(message).is_empty())
            .then_some(messages)
    });
    assert!(!sealed.await.unwrap().is_empty());
    eventually(SOON, "what starts in plain says so", || async {
        town.cluster
            .output()
            .contains("POSTHORN_SECRET_KEYS is none")
    })
    .await
    .unwrap();
}
