//! API keys: shown once, kept as a hash, in force at once, revoked everywhere within a second.

use crate::room::{KEY, RATE, Room, eventually};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use posthorn_broker::codec::ApiKey;
use posthorn_broker::{Bucket, BucketName, Wire};
use posthorn_dlq_admin::api;
use posthorn_dlq_admin::app::App;
use posthorn_dlq_admin::store::Store;
use posthorn_http_api::auth::ready_when_loaded;
use posthorn_http_api::time::to_rfc3339;
use posthorn_runtime::{Readiness, Shutdown};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn status(room: &Room, key: &str) -> StatusCode {
    room.call_as(key, Method::GET, "/v1/dead-letters", "")
        .await
        .0
}

#[tokio::test]
async fn dlq_06_a_key_is_shown_once_and_kept_as_a_hash() {
    let room = Room::open().await;
    let made = room
        .key(json!({"name": "ops", "scopes": ["operate"], "rate_limit": {"per_second": 50}}))
        .await;
    let (id, key) = (text(&made["id"]), text(&made["key"]));
    let secret = key.strip_prefix(&format!("phk_{id}_")).unwrap().to_owned();
    assert_eq!((id.len(), secret.len()), (16, 64));
    assert_eq!(status(&room, &key).await, StatusCode::OK);
    let bucket: Bucket<ApiKey> = room.broker.bucket(BucketName::Keys).await.unwrap();
    let stored = bucket.get(&id).await.unwrap().unwrap().value;
    let wire = stored.to_wire();
    let holds = |needle: &[u8]| wire.windows(needle.len()).any(|part| part == needle);
    assert!(holds(b"ops") && !holds(secret.as_bytes()));
    assert!(!format!("{stored:?}").contains(&secret));
    let shown = room.get(&format!("/v1/api-keys/{id}")).await;
    let list = room.get("/v1/api-keys").await;
    assert_eq!((&list["items"][0], &list["total"]), (&shown, &json!(1)));
    assert!(shown.get("key").is_none() && !list.to_string().contains(&secret));
    assert_eq!(shown["scopes"], json!(["operate"]));
    assert_eq!(shown["rate_limit"], json!({"per_second": 50}));
    assert_eq!(
        (&shown["created_by"], &shown["tenant"]),
        (&json!("admin"), &Value::Null)
    );
    let acts = room.get("/v1/audit").await.to_string();
    assert!(acts.contains(&id) && !acts.contains(&secret));
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_on_any_copy_within_a_second() {
    let room = Room::open().await;
    let copy = room.copy().await;
    let made = room
        .key(json!({"name": "ops", "scopes": ["operate"]}))
        .await;
    let key = text(&made["key"]);
    eventually("the key on the copy", || async {
        (status(&copy, &key).await == StatusCode::OK).then_some(())
    })
    .await;
    let path = format!("/v1/api-keys/{}", text(&made["id"]));
    let (revoked, _) = room.call(Method::DELETE, &path, "").await;
    let since = Instant::now();
    assert_eq!(revoked, StatusCode::NO_CONTENT);
    assert_eq!(status(&room, &key).await, StatusCode::UNAUTHORIZED);
    eventually("the revocation on the copy", || async {
        (status(&copy, &key).await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    let took = since.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (again, _) = room.call(Method::DELETE, &path, "").await;
    assert_eq!(again, StatusCode::NOT_FOUND);
    assert_eq!(room.get("/v1/api-keys").await["total"], 0);
}

#[tokio::test]
async fn a_key_expires_by_itself() {
    let room = Room::open().await;
    let soon = posthorn_wiring::now() + Duration::from_secs(2);
    let made = room
        .key(json!({"name": "ops", "scopes": ["operate"], "expires_at": to_rfc3339(soon)}))
        .await;
    let key = text(&made["key"]);
    assert_eq!(made["expires_at"], to_rfc3339(soon));
    assert_eq!(status(&room, &key).await, StatusCode::OK);
    eventually("the end of the key", || async {
        (status(&room, &key).await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert!(posthorn_wiring::now() >= soon);
    // It is still listed, so that somebody may see why it opens nothing.
    assert_eq!(room.get("/v1/api-keys").await["count"], 1);
}

#[tokio::test]
async fn only_the_admin_key_makes_lists_and_revokes_keys() {
    let room = Room::open().await;
    let all = json!(["publish", "endpoints", "operate"]);
    let made = room.key(json!({"name": "admin", "scopes": all})).await;
    let key = text(&made["key"]);
    let one = format!("/v1/api-keys/{}", text(&made["id"]));
    let document = json!({"name": "x", "scopes": ["publish"]}).to_string();
    for (method, path, body) in [
        (Method::POST, "/v1/api-keys", document.as_str()),
        (Method::GET, "/v1/api-keys", ""),
        (Method::GET, one.as_str(), ""),
        (Method::DELETE, one.as_str(), ""),
    ] {
        let (refused, _) = room.call_as(&key, method.clone(), path, body).await;
        assert_eq!(refused, StatusCode::FORBIDDEN, "{method} {path}");
    }
    assert_eq!(room.get("/v1/api-keys").await["total"], 1);
    assert_eq!(status(&room, &key).await, StatusCode::OK);
}

#[tokio::test]
async fn a_document_that_breaks_a_rule_makes_no_key() {
    let room = Room::open().await;
    for (document, wanted, field) in [
        (json!({"name": "x", "scopes": ["root"]}), 422, "scopes"),
        (
            json!({"name": "x", "scopes": ["publish"], "tenant": "_posthorn"}),
            422,
            "tenant",
        ),
        (
            json!({"name": "x", "scopes": ["publish"], "tenants": []}),
            422,
            "tenants",
        ),
        (json!({"scopes": ["publish"]}), 422, "name"),
    ] {
        let (refused, body) = room.post("/v1/api-keys", &document.to_string()).await;
        assert_eq!(refused.as_u16(), wanted, "{body}");
        assert_eq!(body["field"], field, "{body}");
    }
    assert_eq!(room.get("/v1/api-keys").await["total"], 0);
    let nobody = room.get("/v1/audit").await;
    assert_eq!(nobody["count"], 0);
}

#[tokio::test]
async fn keys_are_paged_oldest_first_and_filtered_by_tenant() {
    let room = Room::open().await;
    for n in 0..5 {
        let tenant = if n % 2 == 0 {
            json!("acme")
        } else {
            Value::Null
        };
        let name = format!("k{n}");
        room.key(json!({"name": name, "scopes": ["publish"], "tenant": tenant}))
            .await;
    }
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = room
            .get(&format!("/v1/api-keys?limit=2&cursor={cursor}"))
            .await;
        let items = page["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| text(&item["name"])));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    names.sort();
    assert_eq!(names, ["k0", "k1", "k2", "k3", "k4"]);
    assert_eq!(room.get("/v1/api-keys?tenant=acme").await["total"], 3);
}

#[tokio::test]
async fn a_key_that_calls_too_often_is_told_when_to_come_again() {
    let room = Room::open().await;
    let made = room
        .key(json!({"name": "slow", "scopes": ["operate"], "rate_limit": {"per_second": 1}}))
        .await;
    let ask = || {
        let key = format!("Bearer {}", text(&made["key"]));
        let request = Request::builder().uri("/v1/dead-letters");
        let request = request.header(header::AUTHORIZATION, key);
        room.response(request.body(Body::empty()).unwrap())
    };
    assert_eq!(ask().await.status(), StatusCode::OK);
    let refused = eventually("a refusal", || async {
        let answer = ask().await;
        (answer.status() == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(
        refused.headers()[header::CONTENT_TYPE],
        "application/problem+json"
    );
    for _ in 0..20 {
        assert_eq!(status(&room, KEY).await, StatusCode::OK);
    }
    // Whoever comes back as it was told is let in.
    eventually("the next second", || async {
        (ask().await.status() == StatusCode::OK).then_some(())
    })
    .await;
}

#[tokio::test]
async fn before_the_keys_are_known_no_key_is_called_wrong_and_nobody_says_ready() {
    let room = Room::open().await;
    let made = room
        .key(json!({"name": "ops", "scopes": ["operate"]}))
        .await;
    let key = text(&made["key"]);
    // A watch that is stopped before it has begun never comes to know them.
    let never = CancellationToken::new();
    never.cancel();
    let store = Store::open(room.broker.clone(), &never).await.unwrap();
    let keys = store.keys().clone();
    let rate = std::num::NonZeroU32::new(RATE);
    let app = App::new(store, KEY.parse().unwrap(), rate, Shutdown::new());
    let router = api::router(app);
    let ask = |key: &str| {
        let request = Request::builder().uri("/v1/audit");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        router.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let unknown = ask(&key).await.unwrap();
    assert_eq!(unknown.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(unknown.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(ask(KEY).await.unwrap().status(), StatusCode::OK);
    let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
    let component = readiness.component("keys");
    let waiting = tokio::spawn(ready_when_loaded(keys, component, shutdown.clone()));
    assert!(!readiness.is_ready());
    shutdown.trigger();
    waiting.await.unwrap();
    assert!(!readiness.is_ready());
}
