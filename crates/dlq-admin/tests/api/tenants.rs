//! A key of one tenant, on every path of the document: what is another's does not exist.

use crate::room::{Room, attempt, endpoint, letter};
use axum::http::{Method, StatusCode};
use posthorn_delivery::{EndpointId, EventId};
use posthorn_dlq_admin::api;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What acme has, and the key of globex.
struct Two {
    room: Room,
    letter: String,
    job: String,
    endpoint: String,
    key: String,
}

async fn key(room: &Room, tenant: Value, scopes: Value) -> String {
    let document = json!({"name": "k", "tenant": tenant, "scopes": scopes});
    let made = room.key(document).await;
    made["key"].as_str().unwrap().to_owned()
}

async fn two() -> Two {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let letter = letter("acme", 1, 7);
    room.write(&letter).await;
    room.record(&attempt("acme", 1, 7, 1)).await;
    let filter = json!({"filter": {"tenant": "acme", "type": "other.*"}}).to_string();
    let (_, job) = room.post("/v1/replays", &filter).await;
    let all = json!(["publish", "endpoints", "operate"]);
    Two {
        letter: letter.id.to_string(),
        job: job["id"].as_str().unwrap().to_owned(),
        endpoint: EndpointId::from_bits(7).to_string(),
        key: key(&room, json!("globex"), all).await,
        room,
    }
}

const NO_BODY: &str = "";
const ACME: &str = "?tenant=acme";
const FILTER: &str = r#"{"filter":{"tenant":"acme"}}"#;
const PURGE: &str = r#"{"filter":{"tenant":"acme"},"dry_run":false}"#;
const NEW_KEY: &str = r#"{"name":"x","scopes":["publish"]}"#;

/// Every call of the document, with what is asked of it about acme, and what a key of globex is
/// answered.
const CALLS: [(&str, &str, &str, u16); 31] = [
    ("GET /v1/dead-letters", ACME, NO_BODY, 404),
    ("GET /v1/dead-letters/count", ACME, NO_BODY, 404),
    ("GET /v1/dead-letters/{id}", "", NO_BODY, 404),
    ("DELETE /v1/dead-letters/{id}", "", NO_BODY, 404),
    ("POST /v1/dead-letters/{id}/replay", "", NO_BODY, 404),
    ("POST /v1/dead-letters/purge", "", PURGE, 404),
    ("POST /v1/replays", "", FILTER, 404),
    ("GET /v1/replays", "", NO_BODY, 200),
    ("GET /v1/replays/{id}", "", NO_BODY, 404),
    ("POST /v1/replays/{id}/pause", "", NO_BODY, 404),
    ("POST /v1/replays/{id}/resume", "", NO_BODY, 404),
    ("POST /v1/replays/{id}/cancel", "", NO_BODY, 404),
    ("GET /v1/deliveries", "?event={event}", NO_BODY, 200),
    ("GET /v1/attempts", ACME, NO_BODY, 404),
    ("GET /v1/breakers", ACME, NO_BODY, 404),
    ("GET /v1/breakers/{endpoint}", "", NO_BODY, 404),
    ("POST /v1/breakers/{endpoint}/open", "", NO_BODY, 404),
    ("POST /v1/breakers/{endpoint}/close", "", NO_BODY, 404),
    ("GET /v1/lanes", ACME, NO_BODY, 404),
    ("GET /v1/audit", ACME, NO_BODY, 404),
    ("GET /v1/overview", ACME, NO_BODY, 404),
    ("GET /v1/endpoints", ACME, NO_BODY, 404),
    ("GET /v1/endpoints/{endpoint}", "", NO_BODY, 404),
    ("GET /ingest/tenants/{tenant}/endpoints", "", NO_BODY, 404),
    (
        "GET /ingest/tenants/{tenant}/endpoints/{endpoint}",
        "",
        NO_BODY,
        404,
    ),
    (
        "POST /ingest/tenants/{tenant}/endpoints/{endpoint}/{action}",
        "",
        NO_BODY,
        404,
    ),
    ("GET /v1/retention", "", NO_BODY, 403),
    ("POST /v1/api-keys", "", NEW_KEY, 403),
    ("GET /v1/api-keys", "", NO_BODY, 403),
    ("GET /v1/api-keys/{id}", "", NO_BODY, 403),
    ("DELETE /v1/api-keys/{id}", "", NO_BODY, 403),
];

impl Two {
    /// Makes a call of the table with what acme has.
    async fn call(
        &self,
        key: &str,
        (call, query, body, _): (&str, &str, &str, u16),
    ) -> (u16, Value) {
        let (method, template) = call.split_once(' ').unwrap();
        let id = match template.split('/').nth(2).unwrap() {
            "dead-letters" => &self.letter,
            "replays" => &self.job,
            _ => "0000000000000000",
        };
        let path = format!("{template}{query}")
            .replace("{id}", id)
            .replace("{tenant}", "acme")
            .replace("{action}", "pause")
            .replace("{endpoint}", &self.endpoint)
            .replace("{event}", EventId::from_bits(1).as_str());
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (status, answer) = self.room.call_as(key, method, &path, body).await;
        (status.as_u16(), answer)
    }
}

/// Every call of the document but the document itself, and signing in and out.
fn documented() -> BTreeSet<String> {
    let document = serde_json::to_value(api::document()).unwrap();
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            found.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    found.remove("GET /v1/openapi.json");
    found.retain(|call| !call.ends_with(" /session"));
    found
}

#[tokio::test]
async fn dlq_05_a_key_of_one_tenant_finds_nothing_of_another_on_any_path() {
    let two = two().await;
    let tried: BTreeSet<String> = CALLS.iter().map(|(call, ..)| (*call).to_owned()).collect();
    assert_eq!(tried, documented());
    for call in CALLS {
        let (status, answer) = two.call(&two.key, call).await;
        assert_eq!(status, call.3, "{}: {answer}", call.0);
        let text = answer.to_string();
        assert!(
            !text.contains(&two.letter) && !text.contains(&two.endpoint),
            "{}: {text}",
            call.0
        );
        if status == 200 {
            assert_eq!(answer["items"], json!([]), "{}", call.0);
        }
    }
    // Without a word about the tenant, lists are its own and empty.
    for path in [
        "/v1/dead-letters",
        "/v1/attempts",
        "/v1/breakers",
        "/v1/lanes",
    ] {
        let (status, answer) = two.room.call_as(&two.key, Method::GET, path, "").await;
        assert_eq!(
            (status, &answer["items"]),
            (StatusCode::OK, &json!([])),
            "{path}"
        );
    }
    // Nothing was done: the letter is there, the job runs, and the log has nothing of globex.
    assert_eq!(
        two.room
            .get(&format!("/v1/dead-letters/{}", two.letter))
            .await["state"],
        "dead"
    );
    assert_eq!(
        two.room.get(&format!("/v1/replays/{}", two.job)).await["state"],
        "running"
    );
    let acts = two.room.get("/v1/audit").await;
    let by_admin = |entry: &Value| entry["key"] == "admin";
    assert!(
        acts["items"].as_array().unwrap().iter().all(by_admin),
        "{acts}"
    );
}

#[tokio::test]
async fn dlq_05_without_the_scope_every_path_is_forbidden() {
    let two = two().await;
    let publisher = key(&two.room, json!("acme"), json!(["publish"])).await;
    let narrow = key(&two.room, json!("acme"), json!(["publish", "endpoints"])).await;
    for call in CALLS {
        let (status, answer) = two.call(&publisher, call).await;
        assert_eq!(status, 403, "{}: {answer}", call.0);
        let (status, answer) = two.call(&narrow, call).await;
        let wanted = match call.0 {
            // Whoever configures endpoints may see how they are.
            "GET /v1/endpoints" | "GET /v1/endpoints/{endpoint}" => 200,
            // Handed on, were it known where to.
            handed_on if handed_on.contains(" /ingest/") => 409,
            _ => 403,
        };
        assert_eq!(status, wanted, "{}: {answer}", call.0);
    }
}

#[tokio::test]
async fn dlq_05_the_reserved_tenant_is_for_keys_of_all_tenants() {
    let two = two().await;
    let everywhere = key(&two.room, Value::Null, json!(["operate"])).await;
    for path in [
        "/v1/dead-letters/count",
        "/v1/dead-letters",
        "/v1/attempts",
        "/v1/breakers",
        "/v1/lanes",
        "/v1/audit",
        "/v1/overview",
        "/v1/endpoints",
    ] {
        let path = format!("{path}?tenant=_posthorn");
        let (status, _) = two.room.call_as(&two.key, Method::GET, &path, "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        let (status, _) = two.room.call_as(&everywhere, Method::GET, &path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
    let own = key(&two.room, json!("acme"), json!(["operate"])).await;
    let path = format!("/v1/dead-letters/{}", two.letter);
    let (status, letter) = two.room.call_as(&own, Method::GET, &path, "").await;
    assert_eq!(
        (status, &letter["tenant"]),
        (StatusCode::OK, &json!("acme"))
    );
    let (status, acts) = two.room.call_as(&own, Method::GET, "/v1/audit", "").await;
    assert_eq!(status, StatusCode::OK);
    let of_acme = |entry: &Value| entry["tenant"] == "acme";
    let acts = acts["items"].as_array().unwrap();
    assert!(acts.len() >= 2 && acts.iter().all(of_acme), "{acts:?}");
}
