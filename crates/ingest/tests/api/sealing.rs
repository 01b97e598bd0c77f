use super::harness::{Answer, Api, ENDPOINTS, SECRET_KEYS, answer_of, request};
use axum::Router;
use axum::body::Body;
use posthorn_broker::Wire;
use posthorn_delivery::endpoint::Hidden;
use posthorn_vault::Vault;
use serde_json::{Value, json};

const K2: &str = "k2://///////////////////////////////////////v8=";
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const URL: &str = "https://user:pass-word@example.com/path-token?key=query-token";
const PRIVATE: [&str; 6] = [
    "pass-word",
    "path-token",
    "query-token",
    "header-token",
    "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "whsk_",
];

fn path(endpoint: &Value, tail: &str) -> String {
    format!("{ENDPOINTS}/{}{tail}", endpoint["id"].as_str().unwrap())
}

fn document() -> Value {
    json!({"url": URL, "secret": SECRET, "headers": {"X-Token": "header-token"},
           "signatures": ["v1", "v1a"]})
}

async fn reseal(router: &Router, query: &str) -> Answer {
    let path = format!("/v1/secrets/reseal{query}");
    answer_of(
        router,
        request("POST", &path, &[]).body(Body::empty()).unwrap(),
    )
    .await
}

fn assert_resealed(answer: &Answer, key: &str, counts: [u64; 3]) {
    assert_eq!(answer.status, 200, "{}", answer.json);
    assert_eq!(answer.json["key"], key);
    let names = ["resealed", "current", "unreadable"];
    assert_eq!(
        names.map(|name| answer.json[name].as_u64().unwrap()),
        counts
    );
}

/// The key's id of every sealed text of an endpoint, and whether there is any plain one.
fn keys_of(wire: &str) -> Vec<&str> {
    let texts = wire.split("sealed:v1:").skip(1);
    texts.map(|text| text.split(':').next().unwrap()).collect()
}

#[tokio::test]
async fn dlq_06_whatever_writes_an_endpoint_stores_nothing_of_it_in_plain() {
    let api = Api::start().await;
    let endpoint = api.endpoint(document()).await;
    let at = path(&endpoint, "");
    let other = json!({"headers": {"X-Other": "header-token-2"}, "timeout": "9s"});
    let steps = [
        ("PATCH", at.clone(), Some(other)),
        ("POST", path(&endpoint, "/pause"), None),
        ("POST", path(&endpoint, "/resume"), None),
        ("POST", path(&endpoint, "/secret/rotate"), None),
    ];
    let mut fields = 4;
    for (method, path, body) in [("GET", at, None)].into_iter().chain(steps) {
        let answer = api.call(method, &path, body).await;
        assert_eq!(answer.status, 200, "{}", answer.json);
        fields += usize::from(method == "PATCH") + 2 * usize::from(path.ends_with("rotate"));
        let stored = api.stored_endpoint(&endpoint).await.unwrap().to_wire();
        let stored = String::from_utf8_lossy(&stored).into_owned();
        assert!(stored.contains(endpoint["id"].as_str().unwrap()));
        for private in PRIVATE {
            assert!(
                !stored.contains(private),
                "{method} {path} stores {private}"
            );
        }
        assert_eq!(keys_of(&stored).len(), fields, "{method} {path}");
    }
    assert_eq!(api.opened_endpoint(&endpoint).await.url.reveal(), URL);
}

#[tokio::test]
async fn dlq_06_no_answer_shows_a_header_value_or_a_password() {
    let api = Api::start().await;
    let created = api.endpoint(document()).await;
    let masked = "https://user:***@example.com/path-token?key=query-token";
    let answers = [
        created.clone(),
        api.get(&path(&created, "")).await.json,
        api.get(ENDPOINTS).await.json["items"][0].clone(),
        api.call("POST", &path(&created, "/pause"), None).await.json,
    ];
    for answer in answers {
        assert_eq!(answer["url"], masked);
        assert_eq!(answer["headers"], json!({"X-Token": "***"}));
        let text = answer.to_string();
        assert!(
            !text.contains("pass-word") && !text.contains("header-token"),
            "{text}"
        );
        assert_eq!(answer["public_keys"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_mask_that_comes_back_leaves_what_is_stored() {
    let api = Api::start().await;
    let endpoint = api.endpoint(document()).await;
    let at = path(&endpoint, "");
    let before = api.opened_endpoint(&endpoint).await;
    let whole = api.get(&at).await.json;
    let same = api.call("PATCH", &at, Some(whole)).await;
    assert_eq!(same.status, 200, "{}", same.json);
    let after = api.opened_endpoint(&endpoint).await;
    assert_eq!((&after.url, &after.headers), (&before.url, &before.headers));
    assert_eq!((after.target_epoch, after.secrets), (0, before.secrets));
    let moved = json!({"url": "https://user:***@example.com/elsewhere",
                       "headers": {"X-Token": "***", "X-New": "value"}});
    assert_eq!(api.call("PATCH", &at, Some(moved)).await.status, 200);
    let after = api.opened_endpoint(&endpoint).await;
    assert_eq!(
        after.url.reveal(),
        "https://user:pass-word@example.com/elsewhere"
    );
    let headers = after.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (name.as_str(), value.reveal()))
        .collect();
    assert_eq!(headers, [("X-New", "value"), ("X-Token", "header-token")]);
    for (patch, field) in [
        (json!({"url": "https://user:***@example.org/"}), "url"),
        (json!({"headers": {"X-Else": "***"}}), "headers.X-Else"),
        (
            json!({"headers": {"X-Else": "sealed:v1:k1:AAAA"}}),
            "headers.X-Else",
        ),
    ] {
        let answer = api.call("PATCH", &at, Some(patch)).await;
        answer.refuses(422, field);
    }
    let url = json!({"url": "https://user:***@example.com/"});
    api.post(ENDPOINTS, url).await.refuses(422, "url");
}

#[tokio::test]
async fn an_endpoint_that_was_stored_in_plain_is_read_and_sealed_at_the_next_write() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let endpoint = api.endpoint(document()).await;
        let plain = api.opened_endpoint(&endpoint).await;
        api.store_endpoint(&plain).await;
        ids.push(endpoint);
    }
    for endpoint in &ids {
        let shown = api.get(&path(endpoint, "/secret")).await.json;
        assert_eq!(shown["secret"], SECRET);
        let stored = api.stored_endpoint(endpoint).await.unwrap();
        assert_eq!(stored.url.reveal(), URL);
    }
    // One by any change, the other by a rotation of the keys.
    let paused = api.call("POST", &path(&ids[0], "/pause"), None).await;
    assert_eq!(paused.status, 200);
    assert_eq!(api.opened_endpoint(&ids[0]).await.url.reveal(), URL);
    assert_resealed(&reseal(&api.router, "").await, "k1", [1, 1, 0]);
    assert_eq!(api.opened_endpoint(&ids[1]).await.url.reveal(), URL);
    assert_resealed(&reseal(&api.router, "").await, "k1", [0, 2, 0]);
}

#[tokio::test]
async fn everything_is_stored_under_the_newest_key_page_by_page_and_nothing_else_changes() {
    let api = Api::start().await;
    let mut endpoints = Vec::new();
    for _ in 0..5 {
        endpoints.push(api.endpoint(document()).await);
    }
    let before = api.opened_endpoint(&endpoints[0]).await;
    let both = api.with_keys(&format!("{K2},{SECRET_KEYS}")).await;
    let first = reseal(&both, "?limit=2").await;
    assert_resealed(&first, "k2", [2, 0, 0]);
    // Whoever was interrupted begins again and finds what is left.
    assert!(first.json["next_cursor"].is_string());
    let again = reseal(&both, "?limit=2").await;
    assert_resealed(&again, "k2", [2, 2, 0]);
    let cursor = again.json["next_cursor"].as_str().unwrap();
    let last = reseal(&both, &format!("?limit=2&cursor={cursor}")).await;
    assert_resealed(&last, "k2", [1, 0, 0]);
    assert_eq!(last.json["next_cursor"], Value::Null);
    assert_resealed(&reseal(&both, "").await, "k2", [0, 5, 0]);
    let vault = Vault::from_setting(Some(K2)).unwrap();
    for endpoint in &endpoints {
        let stored = api.stored_endpoint(endpoint).await.unwrap();
        assert!(vault.holds(&stored));
        let wire = stored.to_wire();
        let wire = String::from_utf8_lossy(&wire).into_owned();
        assert!(keys_of(&wire).iter().all(|key| *key == "k2"));
    }
    let after = api.stored_endpoint(&endpoints[0]).await.unwrap();
    assert_eq!(vault.opened(&after).unwrap(), before);
}

#[tokio::test]
async fn only_the_admin_key_stores_secrets_anew() {
    let api = Api::start().await;
    let wrong = request("POST", "/v1/secrets/reseal?limit=0", &[]);
    let wrong = api.send(wrong.body(Body::empty()).unwrap()).await;
    wrong.refuses(400, "limit");
    let other = axum::http::Request::post("/v1/secrets/reseal").header("authorization", "Bearer x");
    assert_eq!(
        api.send(other.body(Body::empty()).unwrap()).await.status,
        401
    );
}

#[tokio::test]
async fn what_cannot_be_opened_is_shown_without_it_and_can_be_steered_and_deleted() {
    let api = Api::start().await;
    let endpoint = api.endpoint(document()).await;
    let other = api.with_keys(K2).await;
    let call = |method: &'static str, tail: &str, body: Option<Value>| {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request(method, &path(&endpoint, tail), &[]).body(body);
        let other = other.clone();
        async move { answer_of(&other, request.unwrap()).await }
    };
    let shown = call("GET", "", None).await.json;
    assert_eq!(
        (&shown["url"], &shown["public_keys"]),
        (&json!("***"), &json!([]))
    );
    for (method, tail, body) in [
        ("GET", "/secret", None),
        ("POST", "/secret/rotate", None),
        ("PATCH", "", Some(json!({"timeout": "9s"}))),
    ] {
        let answer = call(method, tail, body).await;
        assert_eq!(answer.status, 409, "{method} {tail} {}", answer.json);
        assert!(answer.json["detail"].as_str().unwrap().contains("`k1`"));
    }
    assert_resealed(&reseal(&other, "").await, "k2", [0, 0, 1]);
    let before = api.opened_endpoint(&endpoint).await;
    for tail in ["/pause", "/resume"] {
        assert_eq!(call("POST", tail, None).await.status, 200, "{tail}");
    }
    assert_eq!(api.opened_endpoint(&endpoint).await.url, before.url);
    assert_eq!(call("DELETE", "", None).await.status, 204);
}

#[tokio::test]
async fn what_was_altered_or_moved_in_the_bucket_is_refused() {
    let api = Api::start().await;
    let (one, two) = (
        api.endpoint(document()).await,
        api.endpoint(document()).await,
    );
    let original = api.stored_endpoint(&one).await.unwrap();
    let theirs = api.stored_endpoint(&two).await.unwrap();
    let mut moved = original.clone();
    moved.secrets = theirs.secrets;
    let mut swapped = original.clone();
    swapped.headers[0].1 = swapped.url.clone();
    let mut altered = original.clone();
    let text = altered.url.reveal();
    let last = if text.ends_with('A') { "Q" } else { "A" };
    altered.url = Hidden::new(format!("{}{last}", &text[..text.len() - 1]));
    for broken in [moved, swapped, altered] {
        api.store_endpoint(&broken).await;
        let answer = api.get(&path(&one, "/secret")).await;
        assert_eq!(answer.status, 409, "{}", answer.json);
        let text = answer.json.to_string();
        assert!(
            !text.contains("pass-word") && !text.contains("sealed:"),
            "{text}"
        );
    }
    api.store_endpoint(&original).await;
    assert_eq!(api.get(&path(&one, "/secret")).await.status, 200);
}

#[tokio::test]
async fn without_keys_everything_is_stored_in_plain_where_that_was_asked_for() {
    let api = Api::start().await;
    let plain = api.with_keys("none").await;
    let body = Body::from(document().to_string());
    let made = answer_of(&plain, request("POST", ENDPOINTS, &[]).body(body).unwrap()).await;
    assert_eq!(made.status, 201, "{}", made.json);
    let stored = api.stored_endpoint(&made.json).await.unwrap();
    assert_eq!(stored.url.reveal(), URL);
    let answer = reseal(&plain, "").await;
    assert_eq!(
        (&answer.json["key"], &answer.json["current"]),
        (&Value::Null, &json!(1))
    );
}
