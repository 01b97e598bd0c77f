//! A test send: one request at once, everything that was said, and nothing that follows from it.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::{Reply, eventually};
use serde_json::{Value, json};

async fn tested(town: &Town, id: &str) -> Value {
    let path = format!("/v1/tenants/acme/endpoints/{id}/test");
    let answer = town.api.post(&path, &json!({})).await.unwrap();
    assert_eq!(answer.status, 200, "{}", town.last_words());
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_send_reaches_its_endpoint_alone_and_shows_the_whole_exchange() {
    let _machine = shared().await;
    let town = Town::start().await;
    let more = json!({"event_types": ["invoice.*"], "headers": {"X-Token": "hunter2"}});
    let one = town.endpoint("acme", "/one", more).await;
    town.endpoint("acme", "/two", json!({})).await;
    let reply = Reply::status(201)
        .header("x-request-id", "abc")
        .header("set-cookie", "session=secret")
        .body("thanks");
    town.receiver.script("/one", [reply]);
    let test = tested(&town, &one).await;
    let got = town.got("/one", 1).await;
    assert_eq!(got[0].webhook_id(), text(&test["id"]));
    assert_eq!(test["outcome"], "delivered", "{test}");
    let request = &test["request"];
    assert_eq!(request["method"], "POST");
    assert_eq!(request["url"], town.receiver.url("/one"));
    assert_eq!(
        request["body"].as_str().unwrap().as_bytes(),
        &got[0].body()[..]
    );
    for name in [
        "webhook-id",
        "webhook-timestamp",
        "host",
        "content-type",
        "content-length",
    ] {
        assert_eq!(
            request["headers"][name],
            got[0].header(name).unwrap(),
            "{name}"
        );
    }
    assert_eq!(request["headers"]["x-token"], "***");
    assert_eq!(got[0].header("x-token").unwrap(), "hunter2");
    let signed = got[0].header("webhook-signature").unwrap();
    let shown = request["headers"]["webhook-signature"].as_str().unwrap();
    assert!(signed.starts_with(shown.trim_end_matches('…')), "{shown}");
    assert!(shown.len() < 20, "{shown}");
    let response = &test["response"];
    assert_eq!(
        (&response["status"], &response["body"]),
        (&json!(201), &json!("thanks"))
    );
    assert_eq!(response["headers"]["x-request-id"], "abc");
    assert_eq!(response["headers"]["set-cookie"], "***");
    assert!(test["total_ms"].as_u64() >= test["latency_ms"].as_u64());
    assert!(!test.to_string().contains("hunter2") && !test.to_string().contains("secret"));
    town.settled().await;
    assert_eq!(town.receiver.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_send_that_fails_is_made_once_and_changes_nothing() {
    let _machine = shared().await;
    let town = Town::start().await;
    let breaker = json!({"failure_threshold": 1, "cooldown": "1h", "max_cooldown": "1h"});
    let id = town
        .endpoint("acme", "/hook", json!({"breaker": breaker}))
        .await;
    for (code, outcome) in [(500, "rejected"), (410, "rejected"), (302, "rejected")] {
        town.receiver.script("/hook", [Reply::status(code)]);
        let test = tested(&town, &id).await;
        assert_eq!(test["outcome"], outcome, "{test}");
        assert_eq!(test["response"]["status"], code);
    }
    town.settled().await;
    let shown = town
        .api
        .get(&format!("/v1/tenants/acme/endpoints/{id}"))
        .await;
    assert_eq!(
        shown.unwrap().json()["enabled"],
        true,
        "410 has disabled nothing"
    );
    town.letters("", 0).await;
    // The breaker is closed: what is published arrives at once.
    town.receiver.script("/hook", [Reply::status(200)]);
    town.publish("acme", "{}").await;
    town.got("/hook", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_send_goes_to_an_endpoint_that_gets_nothing_else_now() {
    let _machine = shared().await;
    let town = Town::start().await;
    let breaker = json!({"failure_threshold": 1, "cooldown": "1h", "max_cooldown": "1h"});
    let cut_off = town
        .endpoint("acme", "/cut", json!({"breaker": breaker}))
        .await;
    let paused = town.endpoint("other", "/paused", json!({})).await;
    let path = format!("/v1/tenants/other/endpoints/{paused}");
    town.api
        .post(&format!("{path}/pause"), &json!({}))
        .await
        .unwrap();
    town.receiver
        .script("/cut", [Reply::status(500), Reply::status(200)]);
    town.publish("acme", "{}").await;
    town.got("/cut", 1).await;
    assert_eq!(tested(&town, &cut_off).await["outcome"], "delivered");
    let test = town
        .api
        .post(&format!("{path}/test"), &json!({}))
        .await
        .unwrap();
    assert_eq!(test.json()["outcome"], "delivered");
    let still = "it is for operators to close it, and what waits goes on waiting";
    eventually(SOON, still, || async {
        let breaker = town.api.admin_get(&format!("/v1/breakers/{cut_off}")).await;
        let breaker = breaker.unwrap().success().unwrap();
        breaker["state"] == "open" && breaker["backlog"] == 1
    })
    .await
    .unwrap();
    assert_eq!(town.receiver.requests_to("/cut").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_send_to_nobody_says_so() {
    let _machine = shared().await;
    let town = Town::start().await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let url = json!({"url": format!("http://user:hush@127.0.0.1:{port}/x")});
    let id = town.endpoint("acme", "", url).await;
    let test = tested(&town, &id).await;
    assert_eq!(test["outcome"], "failed", "{test}");
    assert_eq!(test["error"], "connect", "{test}");
    assert!(test["response"].is_null());
    let shown = test.to_string();
    assert!(
        !shown.contains("hush") && shown.contains(":***@"),
        "{shown}"
    );
    assert_eq!(test["request"]["headers"]["authorization"], "***");
}
