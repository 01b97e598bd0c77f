//! How an endpoint flows and when it does not: order, rate, backlog; pause and resume.

use super::harness::{Api, ENDPOINTS};
use posthorn_delivery::{DisabledReason, Ordering};
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn path(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap())
}

fn flow(shown: &Value) -> Value {
    json!([
        shown["ordering"],
        shown["rate_limit"],
        shown["max_in_flight"],
        shown["max_backlog"]
    ])
}

#[tokio::test]
async fn order_rate_and_backlog_are_stored_shown_and_reset_by_null() {
    let api = Api::start().await;
    let said = json!({"ordering": "fifo", "rate_limit": {"per_second": 12.5},
                      "max_in_flight": 3, "max_backlog": 500});
    let endpoint = api.endpoint(said.clone()).await;
    let at = path(&endpoint);
    let expected = json!(["fifo", {"per_second": 12.5}, 3, 500]);
    assert_eq!(flow(&endpoint), expected);
    assert_eq!(flow(&api.get(&at).await.json), expected);
    assert_eq!(
        flow(&api.get(ENDPOINTS).await.json["items"][0]),
        expected,
        "in the list"
    );
    let stored = api.stored_endpoint(&endpoint).await.unwrap();
    assert_eq!(stored.ordering, Ordering::Fifo);
    assert_eq!(stored.rate_limit.unwrap().milli(), 12_500);
    assert_eq!(stored.max_backlog, 500);
    // What was shown can be sent back, and another field leaves these alone.
    let whole = api.get(&at).await.json;
    let same = api.call("PATCH", &at, Some(whole)).await;
    assert_eq!((same.status, flow(&same.json)), (200, expected.clone()));
    let other = api
        .call("PATCH", &at, Some(json!({"description": "x"})))
        .await;
    assert_eq!(flow(&other.json), expected);
    let changed = json!({"rate_limit": {"per_second": 50}, "max_backlog": 1});
    let changed = api.call("PATCH", &at, Some(changed)).await.json;
    assert_eq!(flow(&changed), json!(["fifo", {"per_second": 50}, 3, 1]));
    for (name, was) in said.as_object().unwrap() {
        let reset = api.call("PATCH", &at, Some(json!({ name: null }))).await;
        assert_eq!(reset.status, 200, "{}", reset.json);
        assert_ne!(reset.json[name], *was, "{name}");
    }
    let default = json!(["none", null, 32, 1_000_000]);
    assert_eq!(flow(&api.get(&at).await.json), default);
    let first = json!({"rate_limit": {"per_second": 0.01}});
    let first = api.call("PATCH", &at, Some(first)).await.json;
    assert_eq!(first["rate_limit"], json!({"per_second": 0.01}));
}

#[tokio::test]
async fn each_rule_of_order_rate_and_backlog_is_named_by_create_and_change() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let before = api.endpoint_revision().await;
    for (name, value, field, rule) in [
        ("ordering", json!("lifo"), "ordering", "is none or fifo"),
        ("ordering", json!(["fifo"]), "ordering", "is none or fifo"),
        ("rate_limit", json!(50), "rate_limit", "is an object"),
        (
            "rate_limit",
            json!({}),
            "rate_limit.per_second",
            "is needed",
        ),
        (
            "rate_limit",
            json!({"per_second": 0.009}),
            "rate_limit.per_second",
            "is a number from 0.01 to 10000, kept to the thousandth",
        ),
        (
            "rate_limit",
            json!({"per_second": 10_001}),
            "rate_limit.per_second",
            "is a number from 0.01 to 10000, kept to the thousandth",
        ),
        (
            "rate_limit",
            json!({"per_second": 5, "per_minute": 5}),
            "rate_limit.per_minute",
            "there is no such field",
        ),
        (
            "max_backlog",
            json!(0),
            "max_backlog",
            "is a whole number from 1 to 1000000",
        ),
        (
            "max_backlog",
            json!(1_000_001),
            "max_backlog",
            "is a whole number from 1 to 1000000",
        ),
    ] {
        let mut document = json!({"url": "https://example.com/"});
        document[name] = value.clone();
        let patch = json!({ name: value });
        for answer in [
            api.post(ENDPOINTS, document).await,
            api.call("PATCH", &path(&endpoint), Some(patch)).await,
        ] {
            answer.refuses(422, field);
            assert_eq!(answer.json["errors"][0]["detail"], rule, "{field}");
        }
    }
    assert_eq!(api.endpoint_revision().await, before);
}

#[tokio::test]
async fn an_endpoint_from_before_these_fields_has_their_defaults() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let mut old = api.stored_endpoint(&endpoint).await.unwrap();
    // On the wire nothing is written for any of these values.
    old.ordering = Ordering::None;
    old.rate_limit = None;
    old.max_backlog = 0;
    old.disabled_before = Duration::ZERO;
    api.store_endpoint(&old).await;
    let default = json!(["none", null, 32, 1_000_000]);
    assert_eq!(flow(&api.get(&path(&endpoint)).await.json), default);
    let patch = json!({"description": "x"});
    let changed = api.call("PATCH", &path(&endpoint), Some(patch)).await.json;
    assert_eq!(flow(&changed), default);
    let stored = api.stored_endpoint(&endpoint).await.unwrap();
    assert_eq!(stored.max_backlog, 1_000_000);
}

#[tokio::test]
async fn fan_04_every_way_of_enabling_adds_to_the_time_that_does_not_count() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let at = path(&endpoint);
    let mut before = Duration::ZERO;
    for enable in ["resume", "patch"] {
        let paused = api.call("POST", &format!("{at}/pause"), None).await;
        assert_eq!(paused.status, 200, "{}", paused.json);
        // It has been paused for an hour.
        let mut stored = api.stored_endpoint(&endpoint).await.unwrap();
        let (reason, since) = stored.disabled.unwrap();
        let since = posthorn_delivery::UnixMillis(since.0 - 3_600_000);
        stored.disabled = Some((reason, since));
        api.store_endpoint(&stored).await;
        let enabled = match enable {
            "resume" => api.call("POST", &format!("{at}/resume"), None).await,
            _ => {
                let patch = json!({"enabled": true});
                api.call("PATCH", &at, Some(patch)).await
            }
        };
        assert_eq!(enabled.json["enabled"], true, "{}", enabled.json);
        let stored = api.stored_endpoint(&endpoint).await.unwrap();
        before += since.until(stored.updated_at);
        assert_eq!((stored.disabled, stored.disabled_before), (None, before));
    }
    assert!(before >= 2 * HOUR, "{before:?}");
    // Resuming what is enabled counts nothing twice.
    api.call("POST", &format!("{at}/resume"), None).await;
    let stored = api.stored_endpoint(&endpoint).await.unwrap();
    assert_eq!(stored.disabled_before, before);
}

#[tokio::test]
async fn a_pause_leaves_an_endpoint_that_is_disabled_to_its_reason_and_time() {
    let api = Api::start().await;
    for reason in [DisabledReason::Breaker, DisabledReason::Gone] {
        let endpoint = api.endpoint(json!({})).await;
        let at = path(&endpoint);
        let mut stored = api.stored_endpoint(&endpoint).await.unwrap();
        let since = posthorn_delivery::UnixMillis(stored.created_at.0 - 5_000);
        stored.disabled = Some((reason, since));
        api.store_endpoint(&stored).await;
        let shown = api.get(&at).await.json;
        let off = json!({"enabled": false});
        for answer in [
            api.call("POST", &format!("{at}/pause"), None).await,
            api.call("PATCH", &at, Some(off)).await,
        ] {
            assert_eq!(answer.status, 200, "{}", answer.json);
            assert_eq!(answer.json["disabled_reason"], reason.as_str());
            assert_eq!(answer.json["disabled_since"], shown["disabled_since"]);
        }
        let resumed = api.call("POST", &format!("{at}/resume"), None).await;
        assert_eq!(resumed.json["disabled_reason"], Value::Null);
        let stored = api.stored_endpoint(&endpoint).await.unwrap();
        assert_eq!(stored.disabled_before, since.until(stored.updated_at));
    }
}
