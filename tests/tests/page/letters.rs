//! Finding a dead letter, reading it, sending it again.

use crate::browser::{ENTER, button, link};
use crate::room::Room;
use posthorn_tests::Reply;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_stands_in_the_address_and_a_reload_keeps_it() {
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    browser.sees("Nothing has been given up.").await;
    let endpoint = room.broken(2).await;
    room.receiver
        .answer("/erp", Reply::status(400).body("no such order"));
    room.endpoint("globex", "/erp", "Orders to the ERP", json!({}))
        .await;
    room.publish("globex", "order.placed", 1).await;
    room.letters("tenant=globex", 1).await;
    browser.sees("order.placed").await;

    browser.choose("Reason", "exhausted").await;
    browser.fill("Last HTTP status", "503").await;
    browser.click(&button("Apply filter")).await;
    browser
        .address_is("/dead-letters?reason=exhausted&status=503")
        .await;
    browser.sees_not("order.placed").await;
    browser.sees("payment.settled").await;
    browser.reload().await;
    browser.sees("payment.settled").await;
    assert_eq!(browser.value("Reason").await, "exhausted");
    assert_eq!(browser.value("Last HTTP status").await, "503");

    browser.click(&button("Clear")).await;
    browser.address_is("/dead-letters").await;
    browser.fill("Endpoint", &endpoint).await;
    browser.click(&button("Apply filter")).await;
    browser
        .address_is(&format!("/dead-letters?endpoint={endpoint}"))
        .await;
    browser.sees_not("order.placed").await;
    browser.driver.post("/back", json!({})).await.unwrap();
    browser.sees("order.placed").await;
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_01_a_letter_is_read_replayed_dies_again_and_is_replayed_until_it_is_delivered() {
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    let endpoint = room.broken(1).await;
    let letter = room.letters("", 1).await.remove(0);
    let id = letter["id"].as_str().unwrap();

    browser.click(&link("payment.settled")).await;
    browser.address_is(&format!("/dead-letters/{id}")).await;
    browser.sees("What was tried (3)").await;
    browser.sees("upstream connect error").await;
    // A number keeps all its digits, laid out or not.
    browser.sees("\"amount\": 12345678901234567890").await;
    browser.click(&button("Raw")).await;
    browser.sees("\"amount\":12345678901234567890").await;
    browser.sees(&format!("/v1/dead-letters/{id}/replay")).await;
    browser
        .sees(&format!("curl -sS -i '{}'", room.receiver.url("/fraud")))
        .await;

    browser.click(&button("Replay")).await;
    browser.sees("On its way: rpl_").await;
    browser.sees("What was tried (6)").await;
    browser.sees("Replay 1").await;
    room.becomes(&format!("/v1/dead-letters/{id}"), "/state", json!("dead"))
        .await;

    room.receiver.answer("/fraud", Reply::ok());
    browser.click(&link("Dead letters")).await;
    browser
        .click(&format!(
            "//tr[.//a[@href='/dead-letters/{id}']]{}",
            button("Replay")
        ))
        .await;
    browser.sees("Nothing has been given up.").await;
    browser.open(&format!("/dead-letters/{id}")).await;
    browser.sees("Replay 2").await;
    browser.sees("delivered").await;
    let sent = room.receiver.requests();
    assert_eq!(sent.len(), 7, "{endpoint}");
    assert!(
        sent.iter()
            .all(|request| request.webhook_id() == letter["event_id"])
    );
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_looked_up_endpoint_by_endpoint() {
    let room = Room::at("/events").await;
    let browser = &room.browser;
    room.receiver.answer("/a", Reply::ok());
    room.receiver
        .answer("/b", Reply::status(400).body("no such customer"));
    let well = room.endpoint("acme", "/a", "", json!({})).await;
    let ill = room.endpoint("acme", "/b", "", json!({})).await;
    let event = room.publish("acme", "customer.created", 1).await.remove(0);
    room.letters("", 1).await;
    browser.fill("Event", &event).await;
    browser.click(&button("Look it up")).await;
    browser.address_is(&format!("/events?event={event}")).await;
    let section = |endpoint: &str, state: &str| {
        format!("//section[@aria-label='Delivery to {endpoint}' and .//*[.='{state}']]")
    };
    browser.has(&section(&well, "delivered")).await;
    browser.has(&section(&ill, "dead")).await;
    browser.sees("no such customer").await;
    browser.click(&link("Its dead letter")).await;
    browser.sees("What was tried (1)").await;
    browser
        .open("/events?event=evt_00000000000000000000000000000001")
        .await;
    browser.sees("Nothing was tried for this event").await;
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_payload_or_an_answer_stays_text() {
    const MARKUP: &str = "<img src=x onerror=\"window.ran=1\"><script>window.ran=1</script>";
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    room.receiver
        .answer("/hostile", Reply::status(400).body(MARKUP));
    room.endpoint("acme", "/hostile", MARKUP, json!({})).await;
    let body = json!({"html": MARKUP}).to_string();
    room.api.publish("acme", "a.b", body).await.unwrap();
    room.letters("", 1).await;
    browser.click(&link("a.b")).await;
    browser.sees("window.ran=1").await;
    browser
        .click("//dt[.='Endpoint']/following-sibling::dd[1]/a[1]")
        .await;
    browser.has("//h1[contains(., '<img src=x')]").await;
    let ran = browser
        .driver
        .script("return window.ran ?? null", json!([]))
        .await;
    assert!(ran.is_null());
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_done_by_keyboard_alone() {
    let room = Room::at("/dead-letters").await;
    let browser = &room.browser;
    room.broken(2).await;
    room.receiver.answer("/fraud", Reply::ok());
    browser.reload().await;
    browser.sees("payment.settled").await;
    browser.tab_to("tenant").await;
    browser.press(&["a", "c", "m", "e", ENTER]).await;
    browser.address_is("/dead-letters?tenant=acme").await;
    browser.tab_to("Replay all that match…").await;
    browser.press(&[ENTER]).await;
    browser.sees("2 letters").await;
    browser.tab_to("Start the replay").await;
    browser.press(&[ENTER]).await;
    browser.address_is("/jobs").await;
    browser.sees("2 of 2 sent").await;
    room.letters("", 0).await;
    browser.was_quiet(&[]).await;
}
