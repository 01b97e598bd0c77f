//! What happened to an event, asked as an operator asks it.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::Reply;
use posthorn_tests::wait::eventually_some;
use serde_json::{Value, json};

async fn deliveries(town: &Town, event: &str) -> Option<Value> {
    let path = format!("/v1/deliveries?event={event}");
    town.api.admin_get(&path).await.ok()?.success().ok()
}

fn of<'a>(deliveries: &'a Value, endpoint: &str) -> Option<&'a Value> {
    let items = deliveries["items"].as_array()?;
    items.iter().find(|item| item["endpoint"] == endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_told_endpoint_by_endpoint_while_it_walks() {
    let _machine = shared().await;
    let town = Town::start().await;
    let later = json!({"retry": {"schedule": ["1h"], "jitter": "none", "max_attempts": 5}});
    let good = town.endpoint("acme", "/good", json!({})).await;
    let weak = town.endpoint("acme", "/weak", later).await;
    let dead = town.endpoint("acme", "/dead", json!({})).await;
    town.receiver
        .answer("/weak", Reply::status(503).body("later"));
    town.receiver
        .answer("/dead", Reply::status(422).body("never"));
    let event = town.publish("acme", "{}").await;
    let told = eventually_some(SOON, "all three are told", || async {
        let told = deliveries(&town, &event).await?;
        (told["count"] == 3 && of(&told, &dead)?["dead_letter"].is_string()).then_some(told)
    });
    let told = told.await.unwrap();
    assert_eq!(told["complete"], true);
    let (good, weak) = (of(&told, &good).unwrap(), of(&told, &weak).unwrap());
    assert_eq!(
        (&good["state"], &good["attempts"][0]["status"]),
        (&json!("delivered"), &json!(200))
    );
    assert_eq!(
        (&weak["state"], &weak["attempts"][0]["response_body"]),
        (&json!("retrying"), &json!("later"))
    );
    assert!(weak["next_attempt_at"].is_string());
    let shown = of(&told, &dead).unwrap();
    assert_eq!(
        (&shown["state"], &shown["attempts"][0]["status"]),
        (&json!("dead"), &json!(422))
    );

    let letter = text(&shown["dead_letter"]);
    town.receiver.answer("/dead", Reply::ok());
    assert_eq!(town.replay(&letter).await.status, 202);
    let told = eventually_some(SOON, "the replay is told", || async {
        let told = deliveries(&town, &event).await?;
        (of(&told, &dead)?["state"] == "delivered").then_some(told)
    });
    let told = told.await.unwrap();
    let attempts = of(&told, &dead).unwrap()["attempts"].as_array().unwrap();
    let replays: Vec<_> = attempts.iter().map(|a| a["replay"].clone()).collect();
    assert_eq!(replays, [json!(false), json!(true)]);

    let of_endpoint = format!("/v1/tenants/acme/endpoints/{dead}/attempts");
    let listed = town.api.get(&of_endpoint).await.unwrap().success().unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    for (query, count) in [("status=422", 1), ("status=503", 1), ("status=200", 2)] {
        let path = format!("/v1/attempts?event={event}&{query}");
        let listed = town.api.admin_list(&path).await.unwrap();
        assert_eq!(listed.len(), count, "{query}");
    }
}
