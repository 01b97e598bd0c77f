//! Single letters: list, show, replay, delete, purge.

use crate::room::{Room, attempt, endpoint, letter};
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use posthorn_broker::BrokerError;
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    AttemptSummary, DeadLetter, Failure, LetterState, MessageId, Reason, UnixMillis,
};
use posthorn_dlq_admin::replay::Desk;
use posthorn_dlq_admin::store::Store;
use serde_json::Value;
use std::collections::HashSet;

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

fn replay_path(letter: &DeadLetter) -> String {
    format!("/v1/dead-letters/{}/replay", letter.id)
}

#[tokio::test]
async fn the_list_is_newest_first_and_its_pages_fit_together() {
    let room = Room::open().await;
    let letters: Vec<_> = (0..130).map(|n| letter("acme", n, 7)).collect();
    room.write_all(letters.clone()).await;
    let mut delivered = letter("acme", 1_000, 7);
    delivered.state = LetterState::Delivered;
    room.write(&delivered).await;

    let mut found = Vec::new();
    let mut path = "/v1/dead-letters?limit=50".to_owned();
    loop {
        let page = room.get(&path).await;
        found.extend(ids(&page));
        assert_eq!(page["count"], page["items"].as_array().unwrap().len());
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/dead-letters?limit=50&cursor={cursor}");
        // What dies while somebody turns the pages neither repeats nor hides a letter.
        room.write(&letter("acme", 2_000 + found.len() as u128, 7))
            .await;
    }
    let wanted: Vec<String> = letters.iter().rev().map(|l| l.id.to_string()).collect();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn dlq_05_filters_select_and_a_tenant_sees_its_own() {
    let room = Room::open().await;
    let mine = letter("acme", 1, 7);
    let theirs = letter("globex", 2, 8);
    let mut gone = letter("acme", 3, 9);
    gone.reason = Reason::Gone;
    gone.history[0].result = AttemptResult::Status(410);
    gone.event_type = "user.created".to_owned();
    room.write_all([mine.clone(), theirs.clone(), gone.clone()])
        .await;
    let endpoint = mine.endpoint_id.clone().unwrap();
    for (query, wanted) in [
        ("tenant=acme", vec![&gone, &mine]),
        ("tenant=globex", vec![&theirs]),
        ("tenant=nobody", vec![]),
        ("reason=gone", vec![&gone]),
        ("status=410", vec![&gone]),
        ("type=invoice.*", vec![&theirs, &mine]),
        ("type=user.created&tenant=acme", vec![&gone]),
        ("since=2099-01-01T00:00:00Z", vec![]),
        ("until=2099-01-01T00:00:00Z", vec![&gone, &theirs, &mine]),
        (&format!("endpoint={endpoint}"), vec![&mine]),
    ] {
        let page = room.get(&format!("/v1/dead-letters?{query}")).await;
        let wanted: Vec<String> = wanted.iter().map(|l| l.id.to_string()).collect();
        assert_eq!(ids(&page), wanted, "{query}");
    }
}

#[tokio::test]
async fn a_bad_parameter_is_named() {
    let room = Room::open().await;
    for (query, field) in [
        ("tenant=*", "tenant"),
        ("endpoint=ep_1", "endpoint"),
        ("type=a..b", "type"),
        ("reason=bored", "reason"),
        ("status=abc", "status"),
        ("status=99", "status"),
        ("since=yesterday", "since"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("cursor=!", "cursor"),
        ("cursor=eA", "cursor"),
        ("tenent=acme", "tenent"),
    ] {
        let path = format!("/v1/dead-letters?{query}");
        let (status, problem) = room.call(Method::GET, &path, "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(problem["field"], field, "{query}: {problem}");
    }
}

#[tokio::test]
async fn a_rare_letter_is_found_below_many_others() {
    let room = Room::open().await;
    let mut rare = letter("acme", 1, 7);
    rare.reason = Reason::Unsignable;
    room.write(&rare).await;
    room.write_all((2..700).map(|n| letter("acme", n, 7))).await;
    let page = room.get("/v1/dead-letters?reason=unsignable").await;
    assert_eq!(ids(&page), [rare.id.to_string()]);
    assert!(page["next_cursor"].is_null());
}

#[tokio::test]
async fn a_letter_is_shown_with_its_payload_and_every_attempt() {
    let room = Room::open().await;
    let sequence = room.record(&attempt("acme", 1, 7, 1)).await;
    let mut shown = letter("acme", 1, 7);
    let summary = |number, result, sequence| AttemptSummary {
        at: UnixMillis(1_700_000_000_000),
        number,
        result,
        latency_ms: 3,
        sequence,
    };
    shown.history = vec![
        summary(1, AttemptResult::Status(500), sequence),
        summary(2, AttemptResult::Error(Failure::Timeout), sequence + 40),
    ];
    room.write(&shown).await;
    let body = room.get(&format!("/v1/dead-letters/{}", shown.id)).await;
    assert_eq!(body["payload"], "{\"a\":1}");
    assert_eq!(body["reason"], "exhausted");
    assert_eq!(body["state"], "dead");
    assert_eq!(body["attempts"][0]["status"], 500);
    assert_eq!(body["attempts"][0]["response_body"], "no");
    assert_eq!(body["attempts"][0]["at"], "2023-11-14T22:13:20.000Z");
    assert_eq!(body["attempts"][1]["error"], "timeout");
    assert!(body["attempts"][1]["response_body"].is_null());

    // The log was made anew, and somebody else's attempt lies where this one's was.
    let mut other = letter("globex", 2, 7);
    other.history = vec![summary(1, AttemptResult::Status(500), sequence)];
    other.payload = Bytes::from_static(&[0xff]);
    room.write(&other).await;
    let body = room.get(&format!("/v1/dead-letters/{}", other.id)).await;
    assert!(body["attempts"][0]["response_body"].is_null());
    assert_eq!(body["payload_base64"], "/w==");
}

#[tokio::test]
async fn what_is_not_there_is_404() {
    let room = Room::open().await;
    let absent = letter("acme", 1, 7).id;
    for id in [absent.as_str(), "dl_1", "dl_*", "*"] {
        let path = format!("/v1/dead-letters/{id}");
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::DELETE, path.clone()),
            (Method::POST, format!("{path}/replay")),
        ] {
            let (status, problem) = room.call(method, &path, "").await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(problem["type"], "urn:posthorn:problem:not-found");
        }
    }
}

#[tokio::test]
async fn dlq_01_a_letter_that_dies_again_is_replayed_again_and_again() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let first = letter("acme", 1, 7);
    room.write(&first).await;
    let mut replay_ids = HashSet::new();
    for round in 1..=4_u32 {
        let (status, body) = room.post(&replay_path(&first), "").await;
        assert_eq!(status, StatusCode::ACCEPTED, "{round}: {body}");
        replay_ids.insert(body["replay_id"].as_str().unwrap().to_owned());
        let marked = room.letter(&first.id).await.unwrap().value;
        assert_eq!(marked.state, LetterState::Replaying);
        assert_eq!(
            (marked.replays, &marked.replay_id),
            (round, &body["replay_id"].as_str().unwrap().to_owned())
        );

        let handed_in = room.handed_in().await;
        assert_eq!(handed_in.len(), round as usize);
        let delivery = handed_in.last().unwrap();
        assert_eq!(delivery.event_id.as_str(), first.event_id);
        assert_eq!(
            (delivery.attempt, delivery.payload.clone()),
            (1, first.payload.clone())
        );
        assert!(delivery.expires_at > posthorn_wiring::now());

        let again = DeadLetter::of(delivery, Reason::Exhausted, posthorn_wiring::now());
        assert_eq!(again.id, first.id);
        room.write(&again).await;
    }
    assert_eq!(replay_ids.len(), 4);
    let messages: HashSet<_> = room
        .handed_in()
        .await
        .iter()
        .map(|d| d.message_id())
        .collect();
    assert_eq!(messages.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_many_operators_at_once_give_one_delivery() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let one = letter("acme", 1, 7);
    room.write(&one).await;
    let path = replay_path(&one);
    let requests = (0..32).map(|_| room.post(&path, ""));
    let answers = futures_util::future::join_all(requests).await;
    let accepted = answers
        .iter()
        .filter(|(status, _)| *status == StatusCode::ACCEPTED);
    assert_eq!(accepted.count(), 1);
    let refused = answers
        .iter()
        .filter(|(status, _)| *status == StatusCode::CONFLICT);
    assert_eq!(refused.count(), 31);
    assert_eq!(room.handed_in().await.len(), 1);
    let marked = room.letter(&one.id).await.unwrap().value;
    assert_eq!((marked.state, marked.replays), (LetterState::Replaying, 1));
}

#[tokio::test]
async fn dlq_02_a_delivery_that_succeeds_takes_its_letter_off_the_list() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let one = letter("acme", 1, 7);
    room.write(&one).await;
    room.post(&replay_path(&one), "").await;
    let listed = room.get("/v1/dead-letters").await;
    assert_eq!(listed["items"][0]["state"], "replaying");

    let handed_in = room.handed_in().await;
    let delivered = DeadLetter::delivered(&handed_in[0], posthorn_wiring::now()).unwrap();
    room.write(&delivered).await;
    assert!(ids(&room.get("/v1/dead-letters").await).is_empty());
    let shown = room.get(&format!("/v1/dead-letters/{}", one.id)).await;
    assert_eq!(shown["state"], "delivered");
    let (status, problem) = room.post(&replay_path(&one), "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(problem["type"], "urn:posthorn:problem:not-dead");
}

#[tokio::test]
async fn dlq_02_a_mark_never_writes_over_what_came_meanwhile() {
    let room = Room::open().await;
    let store = Store::open(room.broker.clone(), &room.shutdown.token())
        .await
        .unwrap();
    let one = letter("acme", 1, 7);
    let read_at = room.write(&one).await;
    let mut delivered = one.clone();
    delivered.state = LetterState::Delivered;
    let written = room.write(&delivered).await;
    let mut marked = one.clone();
    marked.state = LetterState::Replaying;
    let id = MessageId::of("test-mark", &[]);
    let refused = store.mark(&marked, &id, read_at).await;
    assert!(matches!(refused, Err(BrokerError::Conflict)), "{refused:?}");
    let now = room.letter(&one.id).await.unwrap();
    assert_eq!(
        (now.sequence, now.value.state),
        (written, LetterState::Delivered)
    );
    store.mark(&marked, &id, written).await.unwrap();
    let now = room.letter(&one.id).await.unwrap();
    assert_eq!(now.value.state, LetterState::Replaying);
}

#[tokio::test]
async fn dlq_02_what_cannot_be_replayed_is_refused_and_stays() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let orphan = letter("acme", 1, 99);
    let mut unreadable = letter("acme", 2, 7);
    unreadable.endpoint_id = None;
    unreadable.event_id = String::new();
    unreadable.reason = Reason::InvalidEvent;
    let mut hollow = letter("acme", 3, 7);
    hollow.payload = Bytes::new();
    hollow.detail = "the payload of 9 bytes does not fit into a letter".to_owned();
    for (letter, slug) in [
        (orphan, "endpoint-deleted"),
        (unreadable, "never-a-delivery"),
        (hollow, "payload-lost"),
    ] {
        let sequence = room.write(&letter).await;
        let (status, problem) = room.post(&replay_path(&letter), "").await;
        assert_eq!(status, StatusCode::CONFLICT);
        assert_eq!(problem["type"], format!("urn:posthorn:problem:{slug}"));
        assert_eq!(room.letter(&letter.id).await.unwrap().sequence, sequence);
    }
    assert!(room.handed_in().await.is_empty());
}

#[tokio::test]
async fn dlq_05_another_tenants_endpoint_of_the_same_id_is_no_target() {
    let room = Room::open().await;
    room.endpoint(&endpoint("globex", 7)).await;
    let mine = letter("acme", 1, 7);
    room.write(&mine).await;
    let (status, _) = room.post(&replay_path(&mine), "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(room.handed_in().await.is_empty());
}

#[tokio::test]
async fn a_deleted_letter_is_gone_and_one_on_its_way_stays() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let (one, two) = (letter("acme", 1, 7), letter("acme", 2, 7));
    room.write_all([one.clone(), two.clone()]).await;
    let path = format!("/v1/dead-letters/{}", one.id);
    let (status, _) = room.call(Method::DELETE, &path, "").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert!(room.letter(&one.id).await.is_none());
    let (status, _) = room.call(Method::DELETE, &path, "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    room.post(&replay_path(&two), "").await;
    let path = format!("/v1/dead-letters/{}", two.id);
    let (status, _) = room.call(Method::DELETE, &path, "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(room.letter(&two.id).await.is_some());
}

#[tokio::test]
async fn dlq_05_a_purge_counts_first_and_then_takes_only_what_matches() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..300).map(|n| letter("acme", n, 7))).await;
    room.write_all((0..20).map(|n| letter("globex", n, 7)))
        .await;
    let on_its_way = letter("acme", 5, 7);
    room.post(&replay_path(&on_its_way), "").await;

    for empty in [r#"{"filter":{}}"#, r#"{"filter":{},"dry_run":false}"#] {
        let (status, problem) = room.post("/v1/dead-letters/purge", empty).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(problem["field"], "filter");
    }
    let (status, problem) = room
        .post("/v1/dead-letters/purge", r#"{"filter":{"reason":"bored"}}"#)
        .await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem["field"], "filter.reason");

    let ask = r#"{"filter":{"tenant":"acme"}}"#;
    let (status, counted) = room.post("/v1/dead-letters/purge", ask).await;
    assert_eq!(status, StatusCode::OK);
    let count = |body: &Value| {
        let number = |field: &str| body[field].as_u64().unwrap();
        (number("matched"), number("purged"), number("skipped"))
    };
    assert_eq!(count(&counted), (299, 0, 1));
    assert_eq!(counted["dry_run"], true);

    let ask = r#"{"filter":{"tenant":"acme"},"dry_run":false}"#;
    let (_, purged) = room.post("/v1/dead-letters/purge", ask).await;
    assert_eq!(count(&purged), (299, 299, 1));
    let left = room.get("/v1/dead-letters?tenant=acme").await;
    assert_eq!(ids(&left), [on_its_way.id.to_string()]);
    let others = room.get("/v1/dead-letters?tenant=globex").await;
    assert_eq!(others["count"], 20);
}

#[tokio::test]
async fn dlq_06_no_answer_holds_a_credential() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let mut one = letter("acme", 1, 7);
    one.headers = vec![("ce-subject".to_owned(), "header-token".to_owned())];
    room.write(&one).await;
    room.record(&attempt("acme", 1, 7, 1)).await;
    let breaker = format!("/v1/breakers/{}", one.endpoint_id.clone().unwrap());
    let mut said = String::new();
    for (method, path) in [
        (Method::GET, "/v1/dead-letters".to_owned()),
        (Method::GET, format!("/v1/dead-letters/{}", one.id)),
        (Method::POST, replay_path(&one)),
        (Method::POST, replay_path(&one)),
        (Method::POST, format!("{breaker}/open")),
        (Method::GET, breaker),
        (Method::GET, "/v1/breakers".to_owned()),
        (Method::GET, "/v1/attempts".to_owned()),
        (
            Method::GET,
            format!("/v1/deliveries?event={}", one.event_id),
        ),
    ] {
        let (status, body) = room.call(method, &path, "").await;
        assert!(!status.is_server_error(), "{path}: {body}");
        said.push_str(&body.to_string());
    }
    for secret in [
        "user:pw",
        "services/T",
        "key=abc",
        "h.example",
        "header-token",
    ] {
        assert!(!said.contains(secret), "{secret} is shown");
    }
}
