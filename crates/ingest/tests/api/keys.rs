//! API keys at the public API: whose they are, what they may, how often, and what is written
//! down of what they did.

use super::harness::{Answer, Api, settings};
use axum::body::Body;
use axum::http::Request;
use posthorn_broker::codec::{ApiKey, AuditEntry, AuditResult, Scope};
use posthorn_broker::{Bucket, BucketName, StreamName, Topology};
use posthorn_delivery::{Tenant, UnixMillis};
use posthorn_http_api::MintedKey;
use posthorn_ingest::{Settings, description};
use posthorn_runtime::rng::rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const EVENTS: &str = "/v1/tenants/acme/events/invoice.paid";

async fn bucket(api: &Api) -> Bucket<ApiKey> {
    api.broker.bucket(BucketName::Keys).await.unwrap()
}

/// Stores a key as the operator's API does, and returns its id and its text.
async fn key(api: &Api, tenant: Option<&str>, scopes: &[Scope]) -> (String, String) {
    let minted = MintedKey::new(UnixMillis(1_700_000_000_000), &mut rng());
    let key = ApiKey {
        id: minted.id.clone(),
        name: "k".to_owned(),
        secret_sha256: minted.secret_sha256,
        tenant: tenant.map(|name| Tenant::parse(name).unwrap()),
        scopes: scopes.to_vec(),
        rate_per_second: None,
        created_at: UnixMillis(1),
        created_by: "admin".to_owned(),
        expires_at: None,
    };
    bucket(api).await.create(&key.id, &key).await.unwrap();
    let text = minted.text.expose().to_owned();
    until(&format!("key {}", key.id), || async {
        ask(api, &text, "GET", "/v1/tenants/nobody/endpoints", "")
            .await
            .status
            != 401
    })
    .await;
    (key.id, text)
}

async fn until<F: Future<Output = bool>>(what: &str, met: impl Fn() -> F) {
    let give_up = Instant::now() + PATIENCE;
    while !met().await {
        assert!(Instant::now() < give_up, "{what} did not come about");
        tokio::task::yield_now().await;
    }
}

async fn ask(api: &Api, key: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {key}"));
    let request = request.header("content-type", "application/json");
    api.send(request.body(Body::from(body.to_owned())).unwrap())
        .await
}

/// Every call of the document that wants a key, with the scope that it needs and a body that is
/// good.
const CALLS: [(&str, Scope, &str); 14] = [
    (
        "POST /v1/tenants/{tenant}/events/{type}",
        Scope::Publish,
        "{}",
    ),
    ("POST /v1/tenants/{tenant}/events", Scope::Publish, BATCH),
    ("POST /v1/tenants/{tenant}/endpoints", Scope::Endpoints, NEW),
    ("GET /v1/tenants/{tenant}/endpoints", Scope::Endpoints, ""),
    (
        "GET /v1/tenants/{tenant}/endpoints/{id}",
        Scope::Endpoints,
        "",
    ),
    (
        "PATCH /v1/tenants/{tenant}/endpoints/{id}",
        Scope::Endpoints,
        "{}",
    ),
    (
        "POST /v1/tenants/{tenant}/endpoints/{id}/pause",
        Scope::Endpoints,
        "",
    ),
    (
        "POST /v1/tenants/{tenant}/endpoints/{id}/resume",
        Scope::Endpoints,
        "",
    ),
    (
        "POST /v1/tenants/{tenant}/endpoints/{id}/test",
        Scope::Endpoints,
        "",
    ),
    (
        "POST /v1/tenants/{tenant}/endpoints/{id}/recover",
        Scope::Endpoints,
        r#"{"since":"2026-01-01T00:00:00Z"}"#,
    ),
    (
        "POST /v1/tenants/{tenant}/endpoints/{id}/secret/rotate",
        Scope::Endpoints,
        "",
    ),
    (
        "GET /v1/tenants/{tenant}/endpoints/{id}/secret",
        Scope::Endpoints,
        "",
    ),
    (
        "GET /v1/tenants/{tenant}/endpoints/{id}/attempts",
        Scope::Endpoints,
        "",
    ),
    (
        "DELETE /v1/tenants/{tenant}/endpoints/{id}",
        Scope::Endpoints,
        "",
    ),
];
const BATCH: &str = r#"[{"type":"a","payload":{}}]"#;
const NEW: &str = r#"{"url":"https://example.com/new"}"#;

async fn call(api: &Api, key: &str, call: &str, (tenant, id): (&str, &str), body: &str) -> Answer {
    let (method, template) = call.split_once(' ').unwrap();
    let path = template
        .replace("{tenant}", tenant)
        .replace("{type}", "a")
        .replace("{id}", id)
        // Nobody is there to answer.
        .replace("/test", "/test?wait=0s");
    ask(api, key, method, &path, body).await
}

fn documented() -> BTreeSet<String> {
    let document = serde_json::to_value(description()).unwrap();
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            found.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    found.remove("GET /v1/openapi.json");
    // Of no tenant: for the admin key only.
    assert!(found.remove("POST /v1/secrets/reseal"));
    found
}

async fn acts(api: &Api) -> Vec<AuditEntry> {
    let log = api
        .broker
        .log::<AuditEntry>(StreamName::Audit)
        .await
        .unwrap();
    let all = api.broker.names().audit_of(None);
    let page = log.read(&all, 1, 1_000).await.unwrap();
    page.items.into_iter().map(|entry| entry.value).collect()
}

#[tokio::test]
async fn dlq_05_a_key_of_one_tenant_finds_nothing_of_another_on_any_path() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let id = endpoint["id"].as_str().unwrap();
    let (globex_id, globex) = key(&api, Some("globex"), &Scope::ALL).await;
    let tried: BTreeSet<String> = CALLS.iter().map(|(call, ..)| (*call).to_owned()).collect();
    assert_eq!(tried, documented());
    let before = api.stored_endpoint(&endpoint).await;
    for (path, _, body) in CALLS {
        // Whoever asks for acme's is told that there is no acme, and whoever asks for it under
        // its own name that there is no such endpoint.
        for tenant in ["acme", "_posthorn", "globex"] {
            if tenant == "globex" && !path.contains("{id}") {
                continue;
            }
            let answer = call(&api, &globex, path, (tenant, id), body).await;
            let unseen = answer.status == 404
                || (path.ends_with("/attempts") && answer.json["items"] == json!([]));
            assert!(
                unseen,
                "{path} of {tenant}: {} {}",
                answer.status, answer.json
            );
            assert!(!answer.json.to_string().contains("example.com"), "{path}");
        }
    }
    let reseal = ask(&api, &globex, "POST", "/v1/secrets/reseal", "").await;
    assert_eq!(reseal.status, 403, "{}", reseal.json);
    assert_eq!(api.stored_endpoint(&endpoint).await, before);
    assert!(api.events().await.is_empty());
    // What it asked for under its own name is on record, as failed; of acme nothing is.
    let by_globex: Vec<AuditEntry> = acts(&api).await;
    let by_globex = by_globex.iter().filter(|entry| entry.key_id == globex_id);
    let of_globex = |entry: &&AuditEntry| entry.tenant == Tenant::parse("globex").ok();
    assert!(by_globex.clone().all(|entry| of_globex(&entry)));
    let result = |wanted| {
        by_globex
            .clone()
            .filter(move |entry| entry.result == wanted)
    };
    assert_eq!(
        result(AuditResult::Asked).count(),
        result(AuditResult::Failed).count()
    );
    assert!(result(AuditResult::Failed).all(|entry| entry.status == Some(404)));
}

#[tokio::test]
async fn dlq_05_a_key_may_do_what_its_scope_is_for_and_nothing_else() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let place = ("acme", endpoint["id"].as_str().unwrap());
    for own in Scope::ALL {
        let (_, text) = key(&api, Some("acme"), &[own]).await;
        for (path, needed, body) in CALLS {
            if own == needed && path.starts_with("DELETE") {
                continue;
            }
            let answer = call(&api, &text, path, place, body).await;
            match own == needed {
                true => assert!(answer.status < 300, "{path}: {}", answer.json),
                false => assert_eq!(answer.status, 403, "{path} with {own:?}"),
            }
        }
    }
    let everywhere = key(&api, None, &[Scope::Publish]).await.1;
    assert_eq!(
        ask(&api, &everywhere, "POST", EVENTS, "{}").await.status,
        202
    );
    let system = EVENTS.replace("acme", "_posthorn");
    assert_eq!(
        ask(&api, &everywhere, "POST", &system, "{}").await.status,
        403
    );
}

#[tokio::test]
async fn a_revoked_key_publishes_nothing_within_a_second() {
    let api = Api::start().await;
    let (id, text) = key(&api, Some("acme"), &[Scope::Publish]).await;
    assert_eq!(ask(&api, &text, "POST", EVENTS, "{}").await.status, 202);
    let keys = bucket(&api).await;
    keys.remove(&id).await.unwrap();
    let since = Instant::now();
    until("the revocation", || async {
        ask(&api, &text, "POST", EVENTS, "{}").await.status == 401
    })
    .await;
    assert!(
        since.elapsed() < Duration::from_secs(1),
        "{:?}",
        since.elapsed()
    );
}

#[tokio::test]
async fn a_key_without_a_rate_of_its_own_has_the_configured_one() {
    let settings = Settings {
        key_rate_limit: 2,
        ..settings()
    };
    let api = Api::with(settings, Topology::new("posthorn")).await;
    let (_, text) = key(&api, Some("acme"), &[Scope::Publish]).await;
    let mut refused = None;
    for _ in 0..200 {
        let answer = ask(&api, &text, "POST", EVENTS, "{}").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
        assert_eq!(answer.status, 202);
    }
    let refused = refused.expect("200 calls take less than 99 seconds");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert_eq!(
        refused.json["type"],
        "urn:posthorn:problem:too-many-requests"
    );
    // The admin key has no bound.
    for _ in 0..10 {
        assert_eq!(api.publish(&[], "{}").await.status, 202);
    }
}

#[tokio::test]
async fn every_act_on_an_endpoint_is_written_down_without_what_is_secret() {
    let api = Api::start().await;
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let more = json!({"secret": secret, "headers": {"x-token": "header-token"}});
    let endpoint = api.endpoint(more).await;
    let place = ("acme", endpoint["id"].as_str().unwrap());
    let (id, text) = key(&api, Some("acme"), &[Scope::Endpoints]).await;
    for (path, scope, body) in CALLS {
        if scope == Scope::Endpoints && path.contains("{id}") {
            let answer = call(&api, &text, path, place, body).await;
            assert!(answer.status < 300, "{path}: {}", answer.json);
        }
    }
    let acts = acts(&api).await;
    let names: Vec<&str> = acts.iter().map(|entry| entry.action.as_str()).collect();
    // Looking at an endpoint and at its attempts is no act; at its secret it is.
    let wanted = [
        "endpoint.create",
        "endpoint.change",
        "endpoint.pause",
        "endpoint.resume",
        "endpoint.test",
        "endpoint.recover",
        "secret.rotate",
        "secret.show",
        "endpoint.delete",
    ];
    assert_eq!(names, wanted);
    for (n, entry) in acts.iter().enumerate() {
        let who = if n == 0 { "admin" } else { id.as_str() };
        assert_eq!(
            (entry.key_id.as_str(), entry.object.as_str()),
            (who, place.1)
        );
        assert_eq!(entry.result, AuditResult::Asked);
        assert_eq!(entry.tenant, Tenant::parse("acme").ok());
    }
    let all = format!("{acts:?}");
    for secret in ["whsec_", "example.com", "header-token", text.as_str()] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done() {
    let api = Api::start().await;
    let endpoint = api.endpoint(json!({})).await;
    let path = format!(
        "/v1/tenants/acme/endpoints/{}",
        endpoint["id"].as_str().unwrap()
    );
    let before = (
        api.stored_endpoint(&endpoint).await,
        api.endpoint_revision().await,
    );
    api.delete_stream("POSTHORN_AUDIT").await;
    let secret = format!("{path}/secret");
    let calls = [
        (
            "POST",
            "/v1/tenants/acme/endpoints",
            Some(json!({"url": "https://example.com/"})),
        ),
        ("PATCH", path.as_str(), Some(json!({"description": "x"}))),
        ("DELETE", path.as_str(), None),
        ("GET", secret.as_str(), None),
    ];
    let asked = calls.map(|(method, path, body)| api.call(method, path, body));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.status, 503, "{}", answer.json);
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(answer.json.get("secret"), None::<&Value>);
    }
    let after = (
        api.stored_endpoint(&endpoint).await,
        api.endpoint_revision().await,
    );
    assert_eq!(before, after);
    // Publishing is no administrative act, and goes on.
    assert_eq!(api.publish(&[], "{}").await.status, 202);
}
