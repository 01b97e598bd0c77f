//! Many letters at once: replayed at a rate, paused, cancelled; purged.

use crate::browser::{answer, button};
use crate::room::Room;
use posthorn_tests::Reply;
use serde_json::{Value, json};

const LETTERS: usize = 40;

async fn only_job(room: &Room) -> Value {
    let jobs = room.api.admin_list("/v1/replays").await.unwrap();
    assert_eq!(jobs.len(), 1);
    jobs[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_match_are_replayed_at_a_rate_and_the_job_is_paused_resumed_and_cancelled() {
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    let endpoint = room.broken(LETTERS).await;
    room.receiver.answer("/fraud", Reply::ok());
    // Without a filter it would be every letter of everybody's.
    browser.has("//button[contains(., 'Replay all') and @disabled and contains(@title, 'Filter first')]").await;
    browser
        .open(&format!("/dead-letters?endpoint={endpoint}"))
        .await;
    browser.click(&button("Replay all that match…")).await;
    browser.sees("40 letters").await;
    browser.fill("Letters a second", "2").await;
    browser.sees("it takes about 20 s").await;
    browser.click(&answer("Start the replay")).await;
    browser.address_is("/jobs").await;
    browser.has("//progress[@max='40']").await;
    browser.sees("at most 2 a second").await;

    browser.click(&button("Pause")).await;
    let job = only_job(&room).await;
    let path = format!("/v1/replays/{}", job["id"].as_str().unwrap());
    let paused = room.becomes(&path, "/state", json!("paused")).await;
    assert!(paused["replayed"].as_u64().unwrap() < LETTERS as u64);
    browser.has(&button("Resume")).await;
    browser.click(&button("Resume")).await;
    room.becomes(&path, "/state", json!("running")).await;
    browser.has(&button("Pause")).await;
    browser.click(&button("Cancel")).await;
    let cancelled = room.becomes(&path, "/state", json!("cancelled")).await;
    let left = LETTERS as u64 - cancelled["replayed"].as_u64().unwrap();
    assert!(left > 0);
    browser
        .has("//article[contains(., 'cancelled') and not(.//button)]")
        .await;
    let left = room
        .letters("state=dead", usize::try_from(left).unwrap())
        .await;
    assert!(left.iter().all(|letter| letter["state"] == "dead"));
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_counts_first_and_wants_the_number_typed() {
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    room.broken(12).await;
    room.receiver.answer("/other", Reply::status(400));
    room.endpoint("globex", "/other", "", json!({})).await;
    room.publish("globex", "order.placed", 1).await;
    room.letters("", 13).await;
    browser.open("/dead-letters?tenant=acme").await;
    browser.click(&button("Purge all that match…")).await;
    browser.sees("12 letters").await;
    browser.fill("Type 12 to confirm", "13").await;
    browser
        .has("//dialog//button[contains(., 'Purge them') and @disabled]")
        .await;
    browser.fill("Type 12 to confirm", "12").await;
    browser.click(&answer("Purge them")).await;
    browser.sees("12 purged.").await;
    browser.sees("No letter matches").await;
    room.letters("", 1).await;

    browser.open("/dead-letters").await;
    browser.click("//a[.='order.placed']").await;
    browser.click(&button("Delete…")).await;
    browser.click(&answer("Delete it")).await;
    browser.address_is("/dead-letters").await;
    room.letters("", 0).await;
    browser.was_quiet(&[]).await;
}
