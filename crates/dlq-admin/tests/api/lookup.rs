//! What happened to an event: deliveries and attempts.

use crate::room::{Room, attempt, letter};
use axum::http::{Method, StatusCode};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Attempt, Disposition, EventId, LetterState, Reason};
use serde_json::Value;

fn states(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = body["items"].as_array().unwrap().iter();
    items
        .map(|item| (text(&item["endpoint"]), text(&item["state"])))
        .collect()
}

fn ended(attempt: Attempt, disposition: Disposition) -> Attempt {
    Attempt {
        disposition,
        ..attempt
    }
}

#[tokio::test]
async fn an_event_is_told_endpoint_by_endpoint() {
    let room = Room::open().await;
    let event = EventId::from_bits(1);
    let dead = Disposition::Dead(Reason::Exhausted);
    for record in [
        attempt("acme", 1, 1, 1),
        attempt("acme", 1, 2, 1),
        attempt("acme", 1, 3, 1),
        ended(attempt("acme", 1, 1, 2), Disposition::Complete),
        ended(attempt("acme", 1, 3, 2), dead),
        ended(attempt("acme", 1, 4, 1), dead),
        ended(attempt("acme", 1, 5, 1), Disposition::Skipped),
        ended(attempt("acme", 2, 1, 1), Disposition::Complete),
        ended(attempt("globex", 1, 6, 1), Disposition::Complete),
    ] {
        room.record(&record).await;
    }
    let died = letter("acme", 1, 3);
    let mut on_its_way = letter("acme", 1, 4);
    on_its_way.state = LetterState::Replaying;
    room.write_all([died.clone(), on_its_way]).await;

    let body = room
        .get(&format!("/v1/deliveries?event={event}&tenant=acme"))
        .await;
    let found = states(&body);
    let found: Vec<&str> = found.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(
        found,
        ["delivered", "retrying", "dead", "replaying", "skipped"]
    );
    assert_eq!(
        (&body["count"], &body["complete"]),
        (&5.into(), &true.into())
    );
    let items = body["items"].as_array().unwrap();
    assert_eq!(items[0]["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(items[0]["attempts"][0]["number"], 1);
    assert_eq!(items[0]["attempts"][0]["response_body"], "no");
    assert_eq!(items[1]["next_attempt_at"], "2030-03-17T17:46:40.000Z");
    assert_eq!(items[2]["dead_letter"], died.id.as_str());
    assert!(items[0]["next_attempt_at"].is_null());

    let of_all = room.get(&format!("/v1/deliveries?event={event}")).await;
    assert_eq!(of_all["count"], 6);
    assert_eq!(of_all["total"], 6);
    assert_eq!(
        of_all.get("next_cursor"),
        Some(&Value::Null),
        "as in every list"
    );
    let unknown = room
        .get(&format!("/v1/deliveries?event={}", EventId::from_bits(9)))
        .await;
    assert_eq!(unknown["count"], 0);
}

#[tokio::test]
async fn dlq_05_an_event_of_another_tenant_is_not_told() {
    let room = Room::open().await;
    room.record(&attempt("globex", 1, 1, 1)).await;
    let event = EventId::from_bits(1);
    let body = room
        .get(&format!("/v1/deliveries?event={event}&tenant=acme"))
        .await;
    assert_eq!(body["count"], 0);
    let body = room
        .get(&format!("/v1/attempts?event={event}&tenant=acme"))
        .await;
    assert_eq!(body["count"], 0);
}

#[tokio::test]
async fn attempts_are_listed_newest_first_and_selected() {
    let room = Room::open().await;
    for number in 1..=60 {
        room.record(&attempt("acme", 1, 1, number)).await;
    }
    let mut refused = attempt("acme", 2, 2, 1);
    refused.result = AttemptResult::Status(404);
    let refused = ended(refused, Disposition::Dead(Reason::PermanentStatus));
    room.record(&refused).await;
    room.record(&attempt("globex", 3, 3, 1)).await;

    let endpoint = attempt("acme", 1, 1, 1).endpoint_id;
    let page = room
        .get(&format!("/v1/attempts?endpoint={endpoint}&limit=40"))
        .await;
    let numbers = |page: &Value| -> Vec<u64> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&page), (21..=60).rev().collect::<Vec<_>>());
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = format!("/v1/attempts?endpoint={endpoint}&limit=40&cursor={cursor}");
    assert_eq!(
        numbers(&room.get(&rest).await),
        (1..=20).rev().collect::<Vec<_>>()
    );

    for (query, count) in [
        ("status=404".to_owned(), 1),
        ("tenant=globex".to_owned(), 1),
        (format!("event={}", refused.event_id), 1),
        (format!("event={}&tenant=globex", refused.event_id), 0),
        (format!("endpoint={endpoint}&tenant=globex"), 0),
        ("since=2099-01-01T00:00:00Z".to_owned(), 0),
        ("since=2020-01-01T00:00:00Z&limit=500".to_owned(), 62),
    ] {
        let page = room.get(&format!("/v1/attempts?{query}")).await;
        assert_eq!(page["count"], count, "{query}");
    }
    let one = room.get("/v1/attempts?status=404").await;
    assert_eq!(one["items"][0]["disposition"], "dead");
    assert_eq!(one["items"][0]["reason"], "permanent_status");
}

#[tokio::test]
async fn a_bad_parameter_is_named() {
    let room = Room::open().await;
    for (path, field) in [
        ("/v1/deliveries", "event"),
        ("/v1/deliveries?event=evt_1", "event"),
        (
            "/v1/deliveries?event=evt_00000000000000000000000000000001&tenant=*",
            "tenant",
        ),
        ("/v1/attempts?event=x", "event"),
        ("/v1/attempts?until=tomorrow", "until"),
        ("/v1/attempts?before=2030-01-01T00:00:00Z", "before"),
    ] {
        let (status, problem) = room.call(Method::GET, path, "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(problem["field"], field, "{path}: {problem}");
    }
}
