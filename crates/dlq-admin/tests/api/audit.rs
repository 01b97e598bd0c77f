//! The audit log: an entry for every act, before the act, or no act.

use crate::room::{Room, endpoint, letter};
use axum::http::{Method, StatusCode};
use posthorn_delivery::EndpointId;
use serde_json::{Value, json};

async fn entries(room: &Room, query: &str) -> Vec<Value> {
    let page = room.get(&format!("/v1/audit{query}")).await;
    page["items"].as_array().unwrap().clone()
}

/// Action and object of each entry, oldest first.
async fn acts(room: &Room) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = entries(room, "").await;
    found.reverse();
    found
        .iter()
        .map(|entry| (text(&entry["action"]), text(&entry["object"])))
        .collect()
}

#[tokio::test]
async fn every_act_of_an_operator_is_written_down() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let (first, second) = (letter("acme", 1, 7), letter("acme", 2, 7));
    room.write_all([first.clone(), second.clone()]).await;
    let breaker = format!("/v1/breakers/{}", EndpointId::from_bits(7));
    let replay = format!("/v1/dead-letters/{}/replay", first.id);
    let delete = format!("/v1/dead-letters/{}", second.id);
    let filter =
        json!({"filter": {"tenant": "acme", "endpoint": EndpointId::from_bits(7).as_str()}});
    let purge = json!({"filter": filter["filter"], "dry_run": false}).to_string();
    let filter = filter.to_string();
    for (method, path, body) in [
        (Method::POST, format!("{breaker}/open"), ""),
        (Method::POST, format!("{breaker}/close"), ""),
        (Method::POST, replay, ""),
        (Method::DELETE, delete, ""),
        // Looking and counting is no act.
        (
            Method::POST,
            "/v1/dead-letters/purge".to_owned(),
            filter.as_str(),
        ),
        (Method::GET, "/v1/dead-letters".to_owned(), ""),
        (
            Method::POST,
            "/v1/dead-letters/purge".to_owned(),
            purge.as_str(),
        ),
    ] {
        let (status, answer) = room.call(method.clone(), &path, body).await;
        assert!(status.is_success(), "{method} {path}: {answer}");
    }
    let (status, job) = room.post("/v1/replays", &filter).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    let job = job["id"].as_str().unwrap();
    for verb in ["pause", "resume", "cancel"] {
        let (status, answer) = room.post(&format!("/v1/replays/{job}/{verb}"), "").await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let made = room
        .key(json!({"name": "k", "tenant": "acme", "scopes": ["operate"]}))
        .await;
    let key = made["id"].as_str().unwrap();
    room.call(Method::DELETE, &format!("/v1/api-keys/{key}"), "")
        .await;
    let endpoint = EndpointId::from_bits(7);
    let found = acts(&room).await;
    let wanted = [
        ("breaker.open", endpoint.as_str()),
        ("breaker.close", endpoint.as_str()),
        ("letter.replay", first.id.as_str()),
        ("letter.delete", second.id.as_str()),
        ("letter.purge", found[4].1.as_str()),
        ("replay.create", job),
        ("replay.pause", job),
        ("replay.resume", job),
        ("replay.cancel", job),
        ("key.create", key),
        ("key.revoke", key),
    ];
    let seen: Vec<(&str, &str)> = found
        .iter()
        .map(|(a, o)| (a.as_str(), o.as_str()))
        .collect();
    assert_eq!(seen, wanted);
    assert!(found[4].1.contains(endpoint.as_str()), "{}", found[4].1);
    let newest = &entries(&room, "?limit=1").await[0];
    assert_eq!(newest["key"], "admin");
    assert_eq!(
        (&newest["tenant"], &newest["result"]),
        (&json!("acme"), &json!("asked"))
    );
    // Nothing of the endpoint's URL and headers, nor of the payload.
    let all = Value::from(entries(&room, "").await).to_string();
    for secret in ["h.example", "header-token", "\\\"a\\\":1"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn an_act_that_fails_is_said_to_have_failed_under_the_same_id() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    room.write(&letter("acme", 1, 7)).await;
    let (_, job) = room
        .post(
            "/v1/replays",
            &json!({"filter": {"tenant": "acme"}}).to_string(),
        )
        .await;
    let path = format!("/v1/replays/{}", job["id"].as_str().unwrap());
    room.post(&format!("{path}/cancel"), "").await;
    let (status, _) = room.post(&format!("{path}/resume"), "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    let found = entries(&room, "?limit=2").await;
    assert_eq!(
        (&found[0]["result"], &found[0]["status"]),
        (&json!("failed"), &json!(409))
    );
    assert_eq!(found[1]["result"], "asked");
    assert_eq!(found[0]["id"], found[1]["id"]);
    assert_eq!(found[0]["action"], "replay.resume");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let letter = letter("acme", 1, 7);
    room.write(&letter).await;
    let made = room.key(json!({"name": "k", "scopes": ["operate"]})).await;
    room.delete_stream("POSTHORN_AUDIT").await;
    let one = format!("/v1/dead-letters/{}", letter.id);
    let key = format!("/v1/api-keys/{}", made["id"].as_str().unwrap());
    let filter = json!({"filter": {"tenant": "acme"}, "dry_run": false}).to_string();
    let new = json!({"name": "x", "scopes": ["publish"]}).to_string();
    let replay = format!("{one}/replay");
    let calls = [
        (Method::DELETE, one.as_str(), ""),
        (Method::POST, replay.as_str(), ""),
        (Method::POST, "/v1/dead-letters/purge", filter.as_str()),
        (Method::DELETE, key.as_str(), ""),
        (Method::POST, "/v1/api-keys", new.as_str()),
    ];
    let asked = calls.map(|(method, path, body)| room.call(method, path, body));
    for (status, answer) in futures_util::future::join_all(asked).await {
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    }
    assert_eq!(room.get(&one).await["state"], "dead");
    assert!(room.handed_in().await.is_empty());
    assert_eq!(room.get("/v1/api-keys").await["total"], 1);
    assert_eq!(room.get(&key).await["name"], "k");
}

#[tokio::test]
async fn the_log_is_paged_newest_first_and_begins_where_it_is_told() {
    let room = Room::open().await;
    for n in 0..5 {
        room.key(json!({"name": format!("k{n}"), "scopes": ["publish"]}))
            .await;
    }
    let all = entries(&room, "").await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = room
            .get(&format!("/v1/audit?limit=2&cursor={cursor}"))
            .await;
        seen.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(all.len(), 5);
    let since = all[1]["at"].as_str().unwrap();
    let later = entries(&room, &format!("?since={since}")).await;
    assert!(
        later
            .iter()
            .all(|entry| entry["at"].as_str() >= Some(since))
    );
    assert!(later.contains(&all[0]) && later.contains(&all[1]));
    for bad in [
        "?tenant=a.b",
        "?since=now",
        "?cursor=!",
        "?limit=0",
        "?who=x",
    ] {
        let (status, _) = room.call(Method::GET, &format!("/v1/audit{bad}"), "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
}
