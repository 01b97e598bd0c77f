use super::harness::{Api, ENDPOINTS, request};
use axum::body::Body;
use futures_util::future::join_all;
use posthorn_broker::BucketName;
use posthorn_delivery::BreakerState;
use serde_json::{Value, json};

fn path(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap())
}

#[tokio::test]
async fn an_endpoint_is_shown_as_the_contract_says() {
    let api = Api::start().await;
    let created = api
        .endpoint(json!({"event_types": ["invoice.*"], "headers": {"X-Env": "prod"}}))
        .await;
    assert!(created["secret"].as_str().unwrap().starts_with("whsec_"));
    let shown = api.get(&path(&created)).await.json;
    let expected = json!({
        "id": created["id"], "tenant": "acme", "url": "https://example.com/hook",
        "event_types": ["invoice.*"], "description": "", "headers": {"X-Env": "***"},
        "signatures": ["v1"], "public_keys": [], "enabled": true, "disabled_reason": null,
        "disabled_since": null, "ordering": "none",
        "retry": {"preset": "exponential", "base": "2s", "factor": 2, "max_delay": "1h",
                  "jitter": "full", "max_attempts": 16, "max_age": "3d", "schedule": null,
                  "permanent_statuses": null},
        "timeout": "15s", "rate_limit": null, "max_in_flight": 32, "max_backlog": 1_000_000,
        "breaker": {"failure_threshold": 5, "cooldown": "30s", "max_cooldown": "15m"},
        "created_at": created["created_at"], "updated_at": created["updated_at"],
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_broken_rule_is_named_and_nothing_is_stored() {
    let api = Api::start().await;
    let url = "https://example.com/hook";
    for (document, field) in [
        (json!({}), "url"),
        (json!({"url": "ftp://example.com"}), "url"),
        (json!({"url": "http://127.0.0.1/"}), "url"),
        (json!({"url": "http://[::ffff:10.0.0.5]/"}), "url"),
        (json!({"url": "http://localhost./"}), "url"),
        (json!({"url": url, "event_types": []}), "event_types"),
        (
            json!({"url": url, "event_types": ["a.**"]}),
            "event_types[0]",
        ),
        (json!({"url": url, "description": 1}), "description"),
        (
            json!({"url": url, "headers": {"Host": "x"}}),
            "headers.Host",
        ),
        (json!({"url": url, "signatures": ["v9"]}), "signatures[0]"),
        (json!({"url": url, "secret": "whsec_"}), "secret"),
        (json!({"url": url, "enabled": 1}), "enabled"),
        (json!({"url": url, "ordering": "lifo"}), "ordering"),
        (json!({"url": url, "retry": {"base": "0s"}}), "retry.base"),
        (
            json!({"url": url, "retry": {"schedule": ["x"]}}),
            "retry.schedule[0]",
        ),
        (json!({"url": url, "timeout": "1h"}), "timeout"),
        (
            json!({"url": url, "rate_limit": {"per_second": 0}}),
            "rate_limit.per_second",
        ),
        (json!({"url": url, "max_in_flight": 0}), "max_in_flight"),
        (json!({"url": url, "max_backlog": 0}), "max_backlog"),
        (
            json!({"url": url, "breaker": {"cooldown": "1y"}}),
            "breaker.cooldown",
        ),
        (json!({"url": url, "nonsense": true}), "nonsense"),
    ] {
        api.post(ENDPOINTS, document).await.refuses(422, field);
    }
    let not_json = request("POST", ENDPOINTS, &[])
        .body(Body::from("{"))
        .unwrap();
    assert_eq!(api.send(not_json).await.status, 400);
    assert_eq!(api.endpoint_revision().await, 0);
}

#[tokio::test]
async fn hdr_01_hdr_03_headers_that_cannot_be_sent_are_refused_at_write_time() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let before = api.endpoint_revision().await;
    for (name, value) in [
        ("X-A", json!("v\r\nX-B: 1")),
        ("X A", json!("v")),
        ("", json!("v")),
        ("X-A", json!("a\u{0}b")),
        ("X-A", json!(7)),
        ("Content-Length", json!("1")),
        ("Transfer-Encoding", json!("chunked")),
        ("Host", json!("other.example")),
        ("Connection", json!("upgrade")),
        ("Expect", json!("100-continue")),
        ("Content-Encoding", json!("gzip")),
        ("content-encoding", json!("identity")),
        ("webhook-id", json!("x")),
    ] {
        let document = json!({"url": "https://example.com/", "headers": {name: value}});
        let field = format!("headers.{name}");
        api.post(ENDPOINTS, document).await.refuses(422, &field);
        let patch = json!({"headers": {name: value}});
        let answer = api.call("PATCH", &path(&endpoint), Some(patch)).await;
        answer.refuses(422, &field);
    }
    assert_eq!(api.endpoint_revision().await, before);
}

#[tokio::test]
async fn a_patch_is_merged_and_a_change_of_target_raises_the_epoch() {
    let api = Api::start().await;
    let more = json!({"headers": {"A": "1", "B": "2"}, "retry": {"max_attempts": 3}});
    let endpoint = api.endpoint(more).await;
    let at = path(&endpoint);
    let patch = json!({"headers": {"A": null, "C": "3"}, "timeout": "9s", "breaker": null});
    let changed = api.call("PATCH", &at, Some(patch)).await;
    assert_eq!(changed.status, 200, "{}", changed.json);
    assert_eq!(changed.json["headers"], json!({"B": "***", "C": "***"}));
    assert_eq!(changed.json["timeout"], "9s");
    assert_eq!(changed.json["breaker"], Value::Null);
    assert_eq!(changed.json["retry"]["max_attempts"], 3);
    assert_eq!(changed.json, api.get(&at).await.json);
    assert_eq!(
        api.stored_endpoint(&endpoint).await.unwrap().target_epoch,
        0
    );
    let kept = api.opened_endpoint(&endpoint).await;
    let headers = kept.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(headers, [("B", "2"), ("C", "3")]);
    let patch = json!({"url": "https://example.org/", "retry": {"preset": "stripe"}});
    let moved = api.call("PATCH", &at, Some(patch)).await.json;
    assert_eq!(moved["retry"]["max_attempts"], 9);
    assert_eq!(moved["retry"]["schedule"][0], "1m");
    let stored = api.opened_endpoint(&endpoint).await;
    assert_eq!((stored.target_epoch, stored.secrets), (1, kept.secrets));
    // What was shown can be sent back.
    let whole = api.get(&at).await.json;
    let same = api.call("PATCH", &at, Some(whole)).await;
    assert_eq!(same.status, 200, "{}", same.json);
    assert_eq!(api.opened_endpoint(&endpoint).await.headers, kept.headers);
    let id = api.call("PATCH", &at, Some(json!({"id": "ep_1"}))).await;
    id.refuses(422, "id");
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let api = Api::start().await;
    let at = path(&api.endpoint(json!({})).await);
    let patches = (0..8).map(|n| {
        let name = format!("X-{n}");
        let patch = json!({"headers": {name: "v"}});
        api.call("PATCH", &at, Some(patch))
    });
    let patches: Vec<_> = patches.collect();
    for answer in join_all(patches).await {
        assert_eq!(answer.status, 200, "{}", answer.json);
    }
    let headers = api.get(&at).await.json["headers"].clone();
    assert_eq!(headers.as_object().unwrap().len(), 8);
}

#[tokio::test]
async fn pause_and_resume_are_one_state_with_enabled() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({"enabled": false})).await;
    assert_eq!(endpoint["disabled_reason"], "paused");
    let at = path(&endpoint);
    let resumed = api.call("POST", &format!("{at}/resume"), None).await.json;
    assert_eq!(resumed["enabled"], true);
    let paused = api.call("POST", &format!("{at}/pause"), None).await.json;
    assert_eq!(paused["disabled_reason"], "paused");
    assert!(paused["disabled_since"].is_string());
    let enabled = api
        .call("PATCH", &at, Some(json!({"enabled": true})))
        .await
        .json;
    assert_eq!(enabled["disabled_reason"], Value::Null);
}

#[tokio::test]
async fn a_list_is_read_page_by_page_and_holds_what_was_just_written() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(api.endpoint(json!({})).await["id"].clone());
    }
    let other = "/v1/tenants/acme-2/endpoints";
    api.post(other, json!({"url": "https://example.com/"}))
        .await;
    ids.sort_by_key(|id| id.as_str().unwrap().to_owned());
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api
            .get(&format!("{ENDPOINTS}?limit=2&cursor={cursor}"))
            .await
            .json;
        assert_eq!(page["total"], 5);
        let items = page["items"].as_array().unwrap();
        assert_eq!(page["count"], items.len());
        seen.extend(items.iter().map(|item| item["id"].clone()));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    api.get(&format!("{ENDPOINTS}?limit=0"))
        .await
        .refuses(400, "limit");
    api.get(&format!("{ENDPOINTS}?cursor=!"))
        .await
        .refuses(400, "cursor");
    api.get(&format!("{ENDPOINTS}?page=1"))
        .await
        .refuses(400, "page");
}

#[tokio::test]
async fn a_deleted_endpoint_is_gone_with_its_breaker() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let id = endpoint["id"].as_str().unwrap();
    let breakers = api
        .broker
        .bucket::<BreakerState>(BucketName::Breakers)
        .await
        .unwrap();
    breakers.create(id, &BreakerState::default()).await.unwrap();
    let at = path(&endpoint);
    assert_eq!(api.call("DELETE", &at, None).await.status, 204);
    assert_eq!(api.call("DELETE", &at, None).await.status, 404);
    assert_eq!(api.get(&at).await.status, 404);
    assert_eq!(api.get(ENDPOINTS).await.json["count"], 0);
    assert!(breakers.get(id).await.unwrap().is_none());
}

#[tokio::test]
async fn dlq_05_an_endpoint_of_another_tenant_does_not_exist() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let id = endpoint["id"].as_str().unwrap();
    let other = format!("/v1/tenants/globex/endpoints/{id}");
    let before = api.endpoint_revision().await;
    for (method, tail) in [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/test"),
        ("GET", "/secret"),
        ("POST", "/secret/rotate"),
        ("GET", "/attempts"),
    ] {
        for path in [format!("{other}{tail}"), format!("{ENDPOINTS}/ep_1{tail}")] {
            let body = (method != "GET").then(|| json!({}));
            let answer = api.call(method, &path, body).await;
            assert_eq!(answer.status, 404, "{method} {path}");
        }
    }
    assert_eq!(api.endpoint_revision().await, before);
    assert!(api.events().await.is_empty());
}

#[tokio::test]
async fn a_test_event_goes_to_its_endpoint_alone() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({"event_types": ["other"]})).await;
    let answer = api
        .call("POST", &format!("{}/test?wait=0s", path(&endpoint)), None)
        .await;
    assert_eq!(answer.status, 202, "nobody has answered yet");
    assert_eq!(answer.json["outcome"], "pending");
    assert_eq!(answer.json["request"]["url"], endpoint["url"]);
    let event = api.events().await.remove(0);
    assert_eq!(answer.id(), event.id.as_str());
    assert_eq!(event.event_type.as_str(), "posthorn.test");
    assert_eq!(event.only_endpoint.unwrap().as_str(), endpoint["id"]);
    let payload: Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(payload["data"]["endpoint_id"], endpoint["id"]);
    let wrong = format!("{}/test?wait=1h", path(&endpoint));
    api.call("POST", &wrong, None).await.refuses(400, "wait");
    let unknown = format!("{}/test?now=1", path(&endpoint));
    api.call("POST", &unknown, None).await.refuses(400, "now");
}

#[tokio::test]
async fn the_reserved_tenant_has_endpoints() {
    let api = Api::start().await;
    let document = json!({"url": "https://example.com/"});
    let created = api.post("/v1/tenants/_posthorn/endpoints", document).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json["tenant"], "_posthorn");
}
