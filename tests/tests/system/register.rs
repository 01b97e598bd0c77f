//! The register of deaths agrees with the letters, through replays that succeed and that fail.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::Reply;
use posthorn_tests::wait::eventually;
use serde_json::{Value, json};

async fn page(town: &Town, query: &str) -> Value {
    let path = format!("/v1/dead-letters?tenant=acme{query}");
    let answer = town.api.admin_get(&path).await.unwrap();
    answer.success().unwrap()
}

async fn totals(town: &Town, query: &str, total: u64) {
    eventually(SOON, "the register says so", || async {
        page(town, query).await["total"] == total
    })
    .await
    .unwrap();
}

async fn replay_all(town: &Town) {
    let body = json!({"filter": {"tenant": "acme"}, "rate_per_second": 1000});
    let job = town.api.admin_post("/v1/replays", &body).await.unwrap();
    assert_eq!(job.success().unwrap()["matched"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_death_that_a_replay_undid_is_counted_no_more() {
    let _machine = shared().await;
    let town = Town::start().await;
    let once = json!({"retry": {"max_attempts": 1}});
    town.endpoint("acme", "/hook", once).await;
    town.receiver
        .answer("/hook", Reply::status(400).body("Bad Field"));
    for _ in 0..3 {
        town.publish("acme", "{}").await;
    }
    town.letters("&tenant=acme", 3).await;
    assert_eq!(page(&town, "").await["total"], 3);
    let said = page(&town, "&text=bad%20field").await;
    assert_eq!(
        (&said["count"], &said["complete"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(said["items"][0]["last_answer"], "Bad Field");
    assert_eq!(text(&said["items"][0]["reason"]), "permanent_status");

    // They die again, of something else.
    town.receiver
        .answer("/hook", Reply::status(500).body("Down"));
    replay_all(&town).await;
    totals(&town, "&reason=exhausted", 3).await;
    totals(&town, "&reason=permanent_status", 0).await;
    assert_eq!(page(&town, "").await["count"], 3);
    assert_eq!(page(&town, "&text=bad").await["count"], 0);

    town.receiver.answer("/hook", Reply::ok());
    replay_all(&town).await;
    totals(&town, "", 0).await;
    assert_eq!(page(&town, "").await["count"], 0);
}
