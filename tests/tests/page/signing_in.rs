//! Who may come in, what a cookie is worth, and what a key without a scope sees.

use crate::browser::{button, field, link};
use crate::room::Room;
use posthorn_tests::cluster::ADMIN_KEY;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_the_page_at_the_address_that_was_asked_for_until_it_is_signed_out() {
    let room = Room::start().await;
    let browser = &room.browser;
    browser.open("/dead-letters?tenant=acme").await;
    browser.has(&field("API key")).await;
    browser.fill("API key", "phk_wrong").await;
    browser.click(&button("Sign in")).await;
    browser.sees("This key is not known").await;
    room.sign_in(ADMIN_KEY).await;
    browser.sees("No letter matches").await;
    assert_eq!(browser.address().await, "/dead-letters?tenant=acme");
    browser.reload().await;
    browser.sees("No letter matches").await;

    let cookie = browser.driver.get("/cookie/posthorn").await.unwrap();
    assert_eq!(cookie["httpOnly"], true);
    assert_eq!(cookie["sameSite"], "Strict");
    assert!(!cookie["value"].as_str().unwrap().contains(ADMIN_KEY));
    let script = browser
        .driver
        .script("return document.cookie", json!([]))
        .await;
    assert_eq!(script, "");

    browser.click(&button("Sign out")).await;
    browser.has(&field("API key")).await;
    browser.address_is("/sign-in").await;
    assert!(browser.driver.get("/cookie/posthorn").await.is_err());
    browser.open("/endpoints").await;
    browser.has(&field("API key")).await;
    browser
        .was_quiet(&[
            "/session - Failed to load resource: the server responded with a status of 401",
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_changes_nothing_without_the_header_that_another_page_cannot_send() {
    let room = Room::at("/").await;
    room.broken(1).await;
    let cookie = room.browser.driver.get("/cookie/posthorn").await.unwrap();
    let cookie = format!("posthorn={}", cookie["value"].as_str().unwrap());
    let client = Client::builder().no_proxy().build().unwrap();
    let call = |method: Method, path: &str| {
        let url = format!("{}{path}", room.admin);
        client.request(method, url).header("cookie", &cookie)
    };
    let purge = || {
        let document = json!({"filter": {"tenant": "acme"}, "dry_run": false});
        call(Method::POST, "/v1/dead-letters/purge")
            .header("content-type", "application/json")
            .body(document.to_string())
    };
    let ours = |request: RequestBuilder| request.header("x-posthorn-request", "1");
    assert_eq!(status(call(Method::GET, "/v1/dead-letters")).await, 200);
    assert_eq!(status(purge()).await, 403);
    assert_eq!(status(call(Method::DELETE, "/session")).await, 403);
    let from_elsewhere = ours(purge()).header("sec-fetch-site", "cross-site");
    assert_eq!(status(from_elsewhere).await, 403);
    room.letters("tenant=acme", 1).await;
    assert_eq!(status(ours(purge())).await, 200);
    room.letters("tenant=acme", 0).await;
    // The public API has no use for it.
    let ingest = room
        .api
        .ingest(Method::GET, "/v1/tenants/acme/endpoints")
        .build()
        .unwrap();
    let there = client.get(ingest.url().clone()).header("cookie", &cookie);
    assert_eq!(status(there).await, 401);
    room.browser.was_quiet(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_is_told_to_be_strict() {
    let room = Room::at("/").await;
    for path in [
        "/",
        "/dead-letters/dl_1",
        "/assets/app.js",
        "/assets/style/base.css",
    ] {
        let answer = room.api.with_key("none").admin_get(path).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
    }
    let missing = room.api.admin_get("/assets/nothing.js").await.unwrap();
    assert_eq!(missing.status, 404);
    // And it is: a script that is written into the document does not run.
    let body = "const script = document.createElement('script'); \
                try { script.text = 'window.ran = true' } catch { return 'refused' } \
                document.head.append(script); return window.ran ?? 'refused'";
    assert_eq!(room.browser.driver.script(body, json!([])).await, "refused");
    room.browser
        .was_quiet(&[
            "requires 'TrustedScript' assignment",
            "Content Security Policy",
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_out_within_a_second_also_by_its_cookie() {
    let room = Room::start().await;
    let (id, key) = room.key(Value::Null, &["operate"]).await;
    room.browser.open("/jobs").await;
    room.sign_in(&key).await;
    room.browser.sees("No job yet").await;
    let cookie = room.browser.driver.get("/cookie/posthorn").await.unwrap();
    let cookie = format!("posthorn={}", cookie["value"].as_str().unwrap());
    let revoked = room.api.admin_delete(&format!("/v1/api-keys/{id}")).await;
    assert_eq!(revoked.unwrap().status, 204);
    // From the answer on, in the copy that gave it.
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/v1/replays", room.admin);
    assert_eq!(status(client.get(url).header("cookie", cookie)).await, 401);
    room.browser.has(&field("API key")).await;
    room.browser.was_quiet(&["a status of 401"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_05_a_key_of_one_tenant_without_a_scope_sees_its_own_and_why_a_button_is_off() {
    let room = Room::start().await;
    let browser = &room.browser;
    let mine = room.broken(1).await;
    room.endpoint("globex", "/erp", "Orders to the ERP", json!({}))
        .await;
    let off = |name: &str, why: &str| {
        format!("//button[normalize-space()='{name}' and @disabled and contains(@title, '{why}')]")
    };

    let (_, key) = room.key(json!("acme"), &["endpoints"]).await;
    browser.open("/endpoints").await;
    room.sign_in(&key).await;
    browser.click(&link("Fraud checks")).await;
    browser.has(&button("Pause")).await;
    browser.has(&off("Open breaker…", "operate")).await;
    browser.sees("Its attempts are not shown.").await;
    browser.click(&link("Endpoints")).await;
    browser.sees("1 endpoint").await;
    assert!(!browser.text().await.contains("ERP"));
    browser.click(&link("Dead letters")).await;
    browser.sees("Your key may not see this").await;
    browser.click(&button("Sign out")).await;

    let (_, key) = room.key(json!("acme"), &["operate"]).await;
    room.sign_in(&key).await;
    browser.open(&format!("/endpoints/{mine}")).await;
    browser.has(&off("Pause", "endpoints")).await;
    browser.has(&off("Rotate secret…", "endpoints")).await;
    browser.open("/dead-letters").await;
    browser.has(&button("Replay")).await;
    browser.was_quiet(&[]).await;
}
