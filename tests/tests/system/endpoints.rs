//! What changes to an endpoint do to events that are under way.

use crate::support::{SOON, Town, metric, shared, text};
use posthorn_tests::receiver::Received;
use posthorn_tests::wait::eventually_some;
use posthorn_tests::{Reply, Role};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// One retry that comes after two to three seconds: time to change something meanwhile.
fn slow_retry() -> Value {
    json!({"retry": {"schedule": ["2s"], "jitter": "none", "max_attempts": 5}})
}

fn path(tenant: &str, id: &str, tail: &str) -> String {
    format!("/v1/tenants/{tenant}/endpoints/{id}{tail}")
}

fn ids(requests: &[Arc<Received>]) -> HashSet<String> {
    let ids = requests.iter().map(|got| got.webhook_id().to_owned());
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_04_a_paused_endpoint_gets_its_events_after_it_is_resumed() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town.endpoint("acme", "/hook", slow_retry()).await;
    town.receiver.script("/hook", [Reply::status(500)]);
    let mut published = HashSet::from([town.publish("acme", "{}").await]);
    town.got("/hook", 1).await;
    let pause = town
        .api
        .post(&path("acme", &id, "/pause"), &json!({}))
        .await;
    let paused = pause.unwrap().success().unwrap();
    assert_eq!(
        (&paused["enabled"], &paused["disabled_reason"]),
        (&json!(false), &json!("paused"))
    );
    for _ in 0..5 {
        published.insert(town.publish("acme", "{}").await);
    }
    // The retry comes due in here, and another endpoint shows that time has passed.
    town.endpoint("other", "/other", slow_retry()).await;
    town.receiver
        .script("/other", [Reply::status(500), Reply::status(500)]);
    town.publish("other", "{}").await;
    town.got("/other", 3).await;
    assert_eq!(
        town.receiver.requests_to("/hook").len(),
        1,
        "FAN-03: nothing is sent while paused"
    );
    let resume = town
        .api
        .post(&path("acme", &id, "/resume"), &json!({}))
        .await;
    assert_eq!(resume.unwrap().success().unwrap()["enabled"], true);
    let got = town.got("/hook", 7).await;
    assert_eq!(ids(&got), published);
    town.settled().await;
    assert_eq!(town.receiver.requests_to("/hook").len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_03_a_deleted_endpoint_gets_no_retry_and_its_letter_cannot_be_replayed() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town.endpoint("acme", "/hook", slow_retry()).await;
    town.receiver.answer("/hook", Reply::status(500));
    town.publish("acme", "{}").await;
    town.got("/hook", 1).await;
    let deleted = town.api.delete(&path("acme", &id, "")).await.unwrap();
    assert_eq!(deleted.status, 204);
    let letter = &town.letters("", 1).await[0];
    assert_eq!(letter["reason"], "endpoint_deleted");
    assert_eq!(town.replay(&text(&letter["id"])).await.status, 409);
    assert_eq!(town.receiver.count(), 1);
    assert_eq!(
        town.api.get(&path("acme", &id, "")).await.unwrap().status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_03_a_retry_goes_to_the_url_that_is_set_when_it_is_sent() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town.endpoint("acme", "/old", slow_retry()).await;
    town.receiver.answer("/old", Reply::status(500));
    let event = town.publish("acme", "{}").await;
    town.got("/old", 1).await;
    let patch = json!({"url": town.receiver.url("/new")});
    let patched = town
        .api
        .patch(&path("acme", &id, ""), &patch)
        .await
        .unwrap();
    assert_eq!(patched.status, 200);
    let got = town.got("/new", 1).await;
    assert_eq!(got[0].webhook_id(), event);
    assert_eq!(got[0].header("webhook-attempt"), Some("2"));
    town.settled().await;
    assert_eq!(town.receiver.requests_to("/old").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_03_a_type_that_is_no_longer_wanted_is_not_fanned_out() {
    let _machine = shared().await;
    let town = Town::start().await;
    let types = json!({"event_types": ["invoice.*"]});
    let id = town.endpoint("acme", "/hook", types).await;
    let publish = |event_type: &'static str| town.api.publish("acme", event_type, "{}");
    let first = publish("invoice.paid").await.unwrap().id;
    publish("order.paid").await.unwrap();
    town.got("/hook", 1).await;
    let patch = json!({"event_types": ["order.>"]});
    let patched = town
        .api
        .patch(&path("acme", &id, ""), &patch)
        .await
        .unwrap();
    assert_eq!(patched.status, 200);
    publish("invoice.paid").await.unwrap();
    let last = publish("order.paid.twice").await.unwrap().id;
    town.got("/hook", 2).await;
    town.settled().await;
    assert_eq!(ids(&town.receiver.requests()), HashSet::from([first, last]));
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_05_gone_disables_and_says_so_and_resume_ends_it() {
    let _machine = shared().await;
    let mut town = Town::start().await;
    let id = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 1}))
        .await;
    town.receiver.script("/hook", [Reply::status(410)]);
    town.publish("acme", "{}").await;
    let letter = &town.letters("", 1).await[0];
    assert_eq!(
        (&letter["reason"], &letter["last_status"]),
        (&json!("gone"), &json!(410))
    );
    let shown = eventually_some(SOON, "the endpoint is disabled", || async {
        let shown = town.api.get(&path("acme", &id, "")).await.ok()?.json();
        (shown["enabled"] == false).then_some(shown)
    });
    assert_eq!(shown.await.unwrap()["disabled_reason"], "gone");
    for _ in 0..3 {
        town.publish("acme", "{}").await;
    }
    town.settled().await;
    assert_eq!(town.receiver.count(), 1, "nothing is sent to who is gone");
    let attempts = town
        .api
        .admin_list(&format!("/v1/attempts?endpoint={id}"))
        .await;
    let skipped = attempts.unwrap();
    let skipped = skipped.iter().filter(|a| a["disposition"] == "skipped");
    assert_eq!(skipped.count(), 3, "FAN-04: what was skipped is on record");
    let metrics = town.metrics(Role::Scheduler, 0).await;
    assert_eq!(
        metric(&metrics, "posthorn_skipped_total", "gone"),
        Some(3.0)
    );
    let resume = town
        .api
        .post(&path("acme", &id, "/resume"), &json!({}))
        .await;
    assert_eq!(resume.unwrap().status, 200);
    let after = town.publish("acme", "{}").await;
    let got = town.got("/hook", 2).await;
    assert_eq!(got[1].webhook_id(), after);
    let letter_id = text(&letter["id"]);
    assert_eq!(town.replay(&letter_id).await.status, 202);
    town.letter_is(&letter_id, "delivered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_05_a_404_is_no_promise_and_disables_nothing() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town.endpoint("acme", "/hook", json!({})).await;
    town.receiver.script("/hook", [Reply::status(404)]);
    town.publish("acme", "{}").await;
    let letter = &town.letters("", 1).await[0];
    assert_eq!(letter["reason"], "permanent_status");
    let shown = town.api.get(&path("acme", &id, "")).await.unwrap().json();
    assert_eq!(shown["enabled"], true);
    town.publish("acme", "{}").await;
    town.got("/hook", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_05_what_is_queued_behind_a_410_waits_until_the_owner_resumes() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town
        .endpoint("acme", "/hook", json!({"max_in_flight": 1}))
        .await;
    let gone = Reply::status(410).delay(std::time::Duration::from_millis(500));
    town.receiver.script("/hook", [gone]);
    for _ in 0..31 {
        town.publish("acme", "{}").await;
    }
    let letters = town.letters("", 1).await;
    assert_eq!(letters[0]["reason"], "gone");
    // Another tenant's slow retries show that time has passed without a request.
    town.endpoint("other", "/other", slow_retry()).await;
    town.receiver.script("/other", [Reply::status(500)]);
    town.publish("other", "{}").await;
    town.got("/other", 2).await;
    // What left before the endpoint was disabled, a few milliseconds after the answer.
    let before = town.receiver.requests_to("/hook").len();
    assert!(before <= 10, "{before} requests to who is gone");
    let resume = town
        .api
        .post(&path("acme", &id, "/resume"), &json!({}))
        .await;
    assert_eq!(resume.unwrap().status, 200);
    let got = town.got("/hook", 31).await;
    assert_eq!(ids(&got).len(), 31);
    town.settled().await;
    assert_eq!(town.receiver.requests_to("/hook").len(), 31);
    town.letters("", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_03_a_delete_while_a_request_is_running_ends_the_delivery_after_it() {
    let _machine = shared().await;
    let town = Town::start().await;
    let id = town.endpoint("acme", "/hook", json!({})).await;
    let slow = Reply::status(500).delay(std::time::Duration::from_secs(1));
    town.receiver.answer("/hook", slow);
    town.publish("acme", "{}").await;
    town.got("/hook", 1).await;
    let deleted = town.api.delete(&path("acme", &id, "")).await.unwrap();
    assert_eq!(deleted.status, 204);
    let listed = town.letters("", 1).await;
    assert_eq!(listed[0]["reason"], "endpoint_deleted");
    let letter = town.letter(&text(&listed[0]["id"])).await;
    assert_eq!(
        letter["attempts"][0]["status"], 500,
        "the request is on record"
    );
    assert_eq!(town.receiver.count(), 1);
    town.settled().await;
}
