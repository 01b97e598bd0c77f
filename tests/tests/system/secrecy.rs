//! No credential of an endpoint is found where it was not put.

use crate::support::{Town, alone, text};
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::process::free_port;
use posthorn_tests::{Cluster, Receiver, Reply, Role};
use serde_json::json;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const CANARIES: [&str; 8] = [
    "user-canary",
    "password-canary",
    "path-canary",
    "query-canary",
    "header-canary",
    "payload-canary",
    // Basic authentication made of the first two, and the signing secret.
    "dXNlci1jYW5hcnk6cGFzc3dvcmQtY2FuYXJ5",
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
];

fn assert_clean(what: &str, text: &str, canaries: &[&str]) {
    assert!(!text.is_empty(), "{what} is empty");
    for canary in canaries {
        let leak = text.lines().find(|line| line.contains(canary));
        assert_eq!(leak, None, "{what} holds {canary}");
    }
}

fn url(scheme: &str, address: &str) -> String {
    format!("{scheme}://user-canary:password-canary@{address}/path-canary?key=query-canary")
}

async fn endpoint(town: &Town, url: &str) -> String {
    let document = json!({
        "url": url,
        "headers": {"X-Token": "header-canary"},
        "secret": SECRET,
        "timeout": "1s",
        "retry": {"base": "10ms", "max_delay": "10ms", "max_attempts": 2},
        "breaker": null,
    });
    let made = town.api.create_endpoint("acme", &document).await.unwrap();
    text(&made["id"])
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_no_log_metric_letter_attempt_or_problem_holds_a_credential() {
    let _machine = alone().await;
    let dns = DnsServer::start().await.unwrap();
    dns.script("none.example.com", [DnsAnswer::NoName]);
    let builder = Cluster::builder()
        .env("POSTHORN_LOG", "trace")
        .env("POSTHORN_DNS_SERVERS", &dns.address().to_string());
    let mut town = Town::of(builder).await;
    town.receiver
        .answer("/path-canary", Reply::status(500).body("no"));
    let plain = Receiver::start().await.unwrap();
    let failing = [
        url("http", &town.receiver.address().to_string()),
        // TLS with a server that speaks none, a port where nobody listens, a name that is none.
        url("https", &plain.address().to_string()),
        url("http", &format!("127.0.0.1:{}", free_port().unwrap())),
        url("http", "none.example.com"),
    ];
    let mut ids = Vec::new();
    for target in &failing {
        ids.push(endpoint(&town, target).await);
    }
    town.api
        .publish("acme", "a.b", "{\"a\":\"payload-canary\"}")
        .await
        .unwrap();
    let mut answers = String::new();
    let letters = town.letters("", failing.len()).await;
    for letter in &letters {
        let shown = town.letter(&text(&letter["id"])).await;
        assert_eq!(shown["payload"], "{\"a\":\"payload-canary\"}");
        let mut without_payload = shown.clone();
        without_payload["payload"] = json!(null);
        answers.push_str(&format!("{letter}\n{without_payload}\n"));
    }
    town.receiver.answer("/path-canary", Reply::ok());
    for letter in &letters {
        assert_eq!(town.replay(&text(&letter["id"])).await.status, 202);
    }
    town.letters("", failing.len() - 1).await;
    town.settled().await;
    answers.push_str(&refusals(&town, &ids).await);
    for path in ["/v1/attempts?limit=500", "/v1/breakers", "/v1/dead-letters"] {
        let answer = town.api.admin_get(path).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        answers.push_str(&answer.json().to_string());
        answers.push('\n');
    }
    assert_clean("an answer", &answers, &CANARIES);
    let (mut said, mut metrics) = (0, String::new());
    for role in [
        Role::Ingest,
        Role::Scheduler,
        Role::Dispatcher,
        Role::DlqAdmin,
    ] {
        metrics.push_str(&town.metrics(role, 0).await);
        let log = town.cluster.service(role, 0).unwrap().output();
        said += log.matches("DEBUG").count() + log.matches("TRACE").count();
        let key = [&CANARIES[..], &[posthorn_tests::cluster::ADMIN_KEY]].concat();
        assert_clean(&format!("the log of {role:?}"), &log, &key);
    }
    assert_clean("/metrics", &metrics, &CANARIES);
    assert!(said >= 10, "the logs were verbose: {said} lines");
}

/// Requests that are refused, with credentials in what is wrong.
async fn refusals(town: &Town, ids: &[String]) -> String {
    let mut said = String::new();
    for document in [
        json!({"url": url("ftp", "example.com")}),
        json!({"url": url("http", "10.0.0.1")}),
        json!({"url": "http://user-canary:password-canary@[/path-canary"}),
        json!({"url": url("http", "example.com"), "secret": SECRET.trim_end_matches('w')}),
        json!({"url": url("http", "example.com"), "headers": {"X-Token": "header-canary\r\n"}}),
        json!({"url": url("http", "example.com"), "secret": format!("{SECRET}\n"), "x": 1}),
    ] {
        for answer in [
            town.api.post("/v1/tenants/acme/endpoints", &document).await,
            town.api
                .patch(&format!("/v1/tenants/acme/endpoints/{}", ids[0]), &document)
                .await,
        ] {
            let answer = answer.unwrap();
            assert_eq!(answer.status, 422, "{}", answer.json());
            said.push_str(&format!("{}\n", answer.json()));
        }
    }
    let wrong = town.api.with_key("password-canary");
    let answer = wrong.get("/v1/tenants/acme/endpoints").await.unwrap();
    assert_eq!(answer.status, 401);
    said.push_str(&format!("{}\n", answer.json()));
    said
}
