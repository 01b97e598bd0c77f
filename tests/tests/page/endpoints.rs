//! From the alarm to the endpoint that is in trouble, and what can be done to it.

use crate::browser::{answer, button, link};
use crate::room::{Room, unavailable};
use posthorn_tests::Reply;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_what_flows_and_who_is_in_trouble() {
    let room = Room::at("/").await;
    let browser = &room.browser;
    browser.sees("Nothing has been delivered yet").await;
    room.endpoint(
        "acme",
        "/billing",
        "Billing warehouse",
        json!({"event_types": ["invoice.*"]}),
    )
    .await;
    room.publish("acme", "invoice.paid", 5).await;
    room.broken(3).await;
    browser.sees("Deliveries a second").await;
    browser
        .has("//dt[.='Dead letters']/following-sibling::dd[1][.='3']")
        .await;
    browser.has("//dd[contains(., 'events in all')]").await;
    browser.sees("Endpoints in trouble").await;
    browser.sees("Fraud checks").await;
    browser.sees("What is kept").await;
    // The chart is told in words as well.
    browser
        .has("//*[@role='img' and contains(@aria-label, 'delivered: now')]")
        .await;
    browser.click(&link("look at them")).await;
    browser.address_is("/dead-letters").await;
    browser.sees("3 letters").await;
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_paused_resumed_tested_cut_off_and_given_a_new_secret() {
    let room = Room::at("/endpoints").await;
    let (browser, receiver) = (&room.browser, &room.receiver);
    let breaker = json!({"breaker": {"failure_threshold": 100}, "event_types": ["order.*"]});
    receiver.answer("/erp", Reply::ok().body(r#"{"stored":true}"#));
    let id = room
        .endpoint("globex", "/erp", "Orders to the ERP", breaker)
        .await;
    let path = format!("/v1/endpoints/{id}");

    browser.click(&link("Orders to the ERP")).await;
    browser.address_is(&format!("/endpoints/{id}")).await;
    browser.sees(&receiver.url("/erp")).await;
    browser.sees("No attempt yet").await;

    browser.click(&button("Pause")).await;
    room.becomes(&path, "/disabled_reason", json!("paused"))
        .await;
    room.publish("globex", "order.placed", 2).await;
    browser.sees("2 waiting: it is paused").await;
    assert_eq!(receiver.count(), 0);
    browser.click(&button("Resume")).await;
    room.becomes(&path, "/enabled", json!(true)).await;
    receiver.wait_for(2, crate::browser::SOON).await.unwrap();
    browser.sees("order.placed").await;
    browser.sees("HTTP 200").await;

    browser.click(&button("Send a test")).await;
    browser.click(&answer("Done")).await;
    receiver.wait_for(3, crate::browser::SOON).await.unwrap();
    browser.sees("posthorn.test").await;

    browser.click(&button("Open breaker…")).await;
    browser.fill("For how long", "2h").await;
    browser.click(&answer("Open it")).await;
    room.becomes(&path, "/breaker/state", json!("open")).await;
    browser.sees("Next probe").await;
    room.publish("globex", "order.placed", 1).await;
    browser.sees("1 waiting: the breaker is open").await;
    browser.click(&button("Close breaker")).await;
    receiver.wait_for(4, crate::browser::SOON).await.unwrap();

    let secret = format!("/v1/tenants/globex/endpoints/{id}/secret");
    let before = room.api.get(&secret).await.unwrap().json()["secret"].clone();
    browser.click(&button("Rotate secret…")).await;
    browser.fill("Overlap", "1h").await;
    browser.click(&answer("Rotate it")).await;
    browser.sees("It is shown this once.").await;
    let after = room.api.get(&secret).await.unwrap().json();
    assert_ne!(after["secret"], before);
    assert_eq!(after["secrets"].as_array().unwrap().len(), 2);
    browser.sees(after["secret"].as_str().unwrap()).await;
    browser.click(&answer("Done")).await;
    browser.sees_not("It is shown this once.").await;
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_endpoint_missed_is_counted_and_recovered_as_a_job() {
    let room = Room::at("/").await;
    let browser = &room.browser;
    room.endpoint("acme", "/billing", "Billing warehouse", json!({}))
        .await;
    let missed = room.publish("acme", "invoice.paid", 3).await;
    room.receiver
        .wait_for_path("/billing", 3, crate::browser::SOON)
        .await
        .unwrap();
    let late = room
        .endpoint("acme", "/late", "Late warehouse", json!({}))
        .await;
    browser.open(&format!("/endpoints/{late}")).await;
    browser.click(&button("Recover…")).await;
    // A field of times is typed into in parts that differ by language; its value is one text.
    let fill = "const since = document.querySelector('dialog [name=since]'); \
                since.value = new Date(Date.now() - 86400000).toISOString().slice(0, 19); \
                since.dispatchEvent(new Event('input', {bubbles: true}))";
    browser.driver.script(fill, json!([])).await;
    browser.click(&answer("Count, then recover")).await;
    browser.sees("3 events are owed").await;
    browser.click(&answer("Count, then recover")).await;
    browser.address_is("/jobs").await;
    browser.sees("Recovery").await;
    browser.sees("3 of 3 sent").await;
    let got = room
        .receiver
        .wait_for_path("/late", 3, crate::browser::SOON);
    let got = got.await.unwrap();
    assert!(
        got.iter()
            .all(|request| missed.contains(&request.webhook_id().to_owned()))
    );
    browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_in_trouble_are_found_by_address() {
    let room = Room::at("/endpoints").await;
    let browser = &room.browser;
    browser.sees("There is no endpoint yet").await;
    room.endpoint("acme", "/billing", "Billing warehouse", json!({}))
        .await;
    room.receiver.answer("/crm", unavailable());
    let breaker =
        json!({"breaker": {"failure_threshold": 1, "cooldown": "1h", "max_cooldown": "1h"}});
    room.endpoint("acme", "/crm", "Legacy CRM", breaker).await;
    room.publish("acme", "a.b", 1).await;
    browser
        .click("//label[contains(., 'Only those in trouble')]/input")
        .await;
    browser.click(&button("Apply filter")).await;
    browser.address_is("/endpoints?trouble=true").await;
    browser.sees("Legacy CRM").await;
    browser.sees("HTTP 503").await;
    assert!(!browser.text().await.contains("Billing warehouse"));
    browser.fill("Tenant", "globex").await;
    browser.click(&button("Apply filter")).await;
    browser
        .address_is("/endpoints?tenant=globex&trouble=true")
        .await;
    browser.sees("No endpoint is in trouble").await;
    browser.was_quiet(&[]).await;
}
