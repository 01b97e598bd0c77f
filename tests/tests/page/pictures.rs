//! Every view, light and dark: whether everybody can use it, and what it looks like.

use crate::axe;
use crate::browser::{Browser, answer, button, field};
use crate::room::{Room, unavailable};
use posthorn_tests::cluster::ADMIN_KEY;
use posthorn_tests::{Reply, eventually};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The largest picture that is kept, in bytes.
const LARGEST: usize = 150 * 1024;
/// How long something flows before the pictures are taken, so that the charts show it.
const FLOW: Duration = Duration::from_secs(150);

fn is_blessed() -> bool {
    std::env::var_os("POSTHORN_BLESS").is_some_and(|value| value == "1")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/screenshots")
}

/// Takes a picture anew where that is asked for; else there is one.
async fn keep(browser: &Browser, name: &str) {
    let file = folder().join(format!("{name}.png"));
    if is_blessed() {
        let picture = browser.picture().await;
        assert!(picture.len() <= LARGEST, "{name}: {} bytes", picture.len());
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(&file, picture).unwrap();
    }
    assert!(
        file.is_file(),
        "{name} is missing: POSTHORN_BLESS=1 takes it"
    );
}

/// What is looked at: a name, its address, and a text that tells that it is there.
struct View {
    name: &'static str,
    path: String,
    sees: &'static str,
}

/// A company's worth of endpoints: some well, one that fails, one that is cut off, one paused,
/// one that said that it is gone.
struct Company {
    fraud: String,
    letter: String,
    event: String,
}

async fn furnish(room: &Room) -> Company {
    let receiver = &room.receiver;
    receiver.answer("/billing", Reply::ok().delay(Duration::from_millis(35)));
    receiver.answer("/search", Reply::ok().delay(Duration::from_millis(160)));
    receiver.answer("/crm", Reply::status(410).body("moved away"));
    receiver.answer(
        "/erp",
        Reply::status(400).body(r#"{"error":"no such order"}"#),
    );
    receiver.answer("/reports", unavailable());
    let types = |text: &str| json!({"event_types": [text]});
    room.endpoint("acme", "/billing", "Billing warehouse", types("invoice.>"))
        .await;
    room.endpoint("acme", "/search", "Search index", types("invoice.>"))
        .await;
    room.endpoint("acme", "/crm", "Legacy CRM", types("customer.>"))
        .await;
    room.endpoint("globex", "/erp", "Orders to the ERP", types("order.>"))
        .await;
    let strict = json!({"event_types": ["report.>"], "breaker": {"failure_threshold": 2, "cooldown": "10m"}});
    room.endpoint("initech", "/reports", "TPS reports", strict)
        .await;
    let paused = json!({"event_types": ["report.>"], "enabled": false});
    room.endpoint("initech", "/archive", "Report archive", paused)
        .await;
    room.publish("acme", "customer.created", 1).await;
    room.letters("reason=gone", 1).await;
    let fraud = room.broken(14).await;
    room.publish("globex", "order.placed", 6).await;
    room.publish("initech", "report.filed", 9).await;
    room.publish("acme", "invoice.paid", 30).await;
    room.letters("tenant=globex", 6).await;
    let letters = room.letters(&format!("endpoint={fraud}"), 14).await;
    let text = |name: &str| letters[0][name].as_str().unwrap().to_owned();
    replay_some(room, &fraud).await;
    Company {
        letter: text("id"),
        event: text("event_id"),
        fraud,
    }
}

/// One job that has ended and one that is paused half way.
async fn replay_some(room: &Room, fraud: &str) {
    let start = async |filter: Value, rate: u32| {
        let document = json!({"filter": filter, "rate_per_second": rate});
        let made = room.api.admin_post("/v1/replays", &document).await.unwrap();
        let id = made.success().unwrap()["id"].as_str().unwrap().to_owned();
        format!("/v1/replays/{id}")
    };
    let ended = start(json!({"tenant": "globex"}), 50).await;
    room.becomes(&ended, "/state", json!("completed")).await;
    let half = start(json!({"endpoint": fraud, "type": "payment.*"}), 3).await;
    let sent = async || {
        let answer = room.api.admin_get(&half).await.unwrap().json();
        answer["replayed"].as_u64() >= Some(5)
    };
    eventually(crate::browser::SOON, "five are sent", sent)
        .await
        .unwrap();
    let paused = room
        .api
        .admin_post(&format!("{half}/pause"), &json!({}))
        .await;
    paused.unwrap().success().unwrap();
}

/// Lets events come in waves, for pictures only.
async fn flow(room: &Room) {
    let begin = Instant::now();
    let mut wave = 0_u32;
    while begin.elapsed() < FLOW {
        let many = 6 + (f64::from(wave) / 3.0).sin().mul_add(4.0, 4.0) as usize;
        room.publish("acme", "invoice.paid", many).await;
        if wave.is_multiple_of(4) {
            room.publish("globex", "order.placed", 2).await;
            room.publish("acme", "payment.settled", 1).await;
        }
        wave += 1;
        let next = Duration::from_secs(u64::from(wave));
        let due = eventually(FLOW, "the next second", || async {
            begin.elapsed() >= next
        });
        due.await.unwrap();
    }
}

fn views(company: &Company) -> Vec<View> {
    let view = |name, path: String, sees| View { name, path, sees };
    vec![
        view("overview", "/".to_owned(), "Endpoints in trouble"),
        view("endpoints", "/endpoints".to_owned(), "Legacy CRM"),
        view(
            "endpoint",
            format!("/endpoints/{}", company.fraud),
            "Recent attempts",
        ),
        view(
            "dead-letters",
            "/dead-letters?tenant=acme&reason=exhausted".to_owned(),
            "payment.settled",
        ),
        view(
            "dead-letter",
            format!("/dead-letters/{}", company.letter),
            "What was tried",
        ),
        view("jobs", "/jobs".to_owned(), "completed"),
        view(
            "event",
            format!("/events?event={}", company.event),
            "Its dead letter",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_for_everybody_light_and_dark_and_pictured() {
    let room = Room::start().await;
    let browser = &room.browser;
    browser.open("/").await;
    browser.has(&field("API key")).await;
    axe::finds_nothing(browser, "sign-in").await;
    keep(browser, "sign-in").await;
    room.sign_in(ADMIN_KEY).await;
    for (path, sees) in [
        ("/", "Nothing has been delivered yet"),
        ("/endpoints", "There is no endpoint yet"),
        ("/dead-letters", "Nothing has been given up"),
        ("/jobs", "No job yet"),
        ("/events", "Look an event up"),
    ] {
        browser.open(path).await;
        browser.sees(sees).await;
        axe::finds_nothing(browser, &format!("{path}, empty")).await;
    }
    let company = furnish(&room).await;
    if is_blessed() {
        flow(&room).await;
    }
    for dark in [false, true] {
        browser.dark(dark).await;
        for view in views(&company) {
            browser.open(&view.path).await;
            browser.sees(view.sees).await;
            axe::finds_nothing(browser, view.name).await;
            match (dark, view.name) {
                (false, name) => keep(browser, name).await,
                (true, name @ ("overview" | "dead-letter")) => {
                    keep(browser, &format!("{name}-dark")).await;
                }
                (true, _) => {}
            }
        }
    }
    browser.dark(false).await;
    browser
        .open(&format!("/dead-letters?endpoint={}", company.fraud))
        .await;
    browser.click(&button("Replay all that match…")).await;
    browser.sees("match and wait").await;
    axe::finds_nothing(browser, "replay dialog").await;
    keep(browser, "replay").await;
    browser.click(&answer("Not now")).await;
    browser.was_quiet(&[]).await;
}
