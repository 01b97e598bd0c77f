//! Searching: by the register of deaths, and what it says when it disagrees with the letters.

use crate::room::{Room, attempt, endpoint, letter};
use axum::http::{Method, StatusCode};
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, StreamName};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    Attempt, DeadLetter, EndpointId, EventId, Failure, LetterState, MessageId, Reason, UnixMillis,
};
use posthorn_dlq_admin::letters::mend::mend;
use posthorn_dlq_admin::scan::{Budget, Search, newest};
use posthorn_dlq_admin::store::Store;
use serde_json::Value;
use std::time::{Duration, Instant};

fn ids(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap()).collect()
}

async fn registered(room: &Room) -> u64 {
    let register = StreamName::Register;
    room.broker.stream_messages(register).await.unwrap()
}

/// The same letter after a replay that failed.
fn dead_again(letter: &DeadLetter, reason: Reason) -> DeadLetter {
    DeadLetter {
        reason,
        replays: letter.replays + 1,
        ..letter.clone()
    }
}

#[tokio::test]
async fn letters_are_found_by_what_they_say() {
    let room = Room::open().await;
    let quota = DeadLetter {
        answer: "{\"error\":\"Quota exceeded\"}".to_owned(),
        ..letter("acme", 1, 7)
    };
    let denied = DeadLetter {
        reason: Reason::EgressDenied,
        detail: "10.0.0.0/8 is private".to_owned(),
        history: Vec::new(),
        ..letter("acme", 2, 7)
    };
    let mut slow = letter("globex", 3, 8);
    slow.history[0].result = AttemptResult::Error(Failure::Timeout);
    room.write_all([quota.clone(), denied.clone(), slow.clone()])
        .await;
    for (query, wanted) in [
        ("text=quota%20EXC", vec![&quota]),
        ("text=private", vec![&denied]),
        ("text=TIMEOUT", vec![&slow]),
        ("text=timeout&tenant=acme", vec![]),
        ("text=nothing", vec![]),
        ("state=dead&tenant=acme", vec![&denied, &quota]),
        ("state=replaying", vec![]),
    ] {
        let page = room.get(&format!("/v1/dead-letters?{query}")).await;
        let wanted: Vec<&str> = wanted.iter().map(|letter| letter.id.as_str()).collect();
        assert_eq!(ids(&page), wanted, "{query}");
        assert_eq!(page["complete"], true, "{query}");
        let counted = room.get(&format!("/v1/dead-letters/count?{query}")).await;
        assert_eq!(counted["count"], wanted.len(), "{query}");
        assert_eq!(counted["complete"], true, "{query}");
    }
    let page = room.get("/v1/dead-letters?text=quota").await;
    assert_eq!(page["items"][0]["last_answer"], quota.answer);
    for (query, field) in [
        ("text=a", "text"),
        ("state=delivered", "state"),
        ("state=alive", "state"),
        ("limit=5", "limit"),
    ] {
        let path = format!("/v1/dead-letters/count?{query}");
        let (status, problem) = room.call(Method::GET, &path, "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(problem["field"], field, "{query}");
    }
}

#[tokio::test]
async fn dlq_05_a_total_is_of_the_callers_tenant() {
    let room = Room::open().await;
    room.write_all((0..30).map(|n| letter("acme", n, 7))).await;
    room.write_all((0..4).map(|n| letter("globex", n, 8))).await;
    let mut gone = letter("acme", 99, 7);
    gone.reason = Reason::Gone;
    room.write(&gone).await;
    let made = serde_json::json!({"name": "ops", "scopes": ["operate"], "tenant": "globex"});
    let theirs = room.key(made).await;
    let theirs = theirs["key"].as_str().unwrap();
    for (query, total) in [
        ("limit=1", 35.into()),
        ("limit=1&tenant=acme", 31.into()),
        ("limit=1&tenant=acme&reason=gone", 1.into()),
        ("limit=1&reason=exhausted", 34.into()),
        (
            "limit=1&endpoint=ep_00000000000000000000000000000007",
            31.into(),
        ),
        ("limit=1&tenant=nobody", 0.into()),
        ("limit=1&status=500", Value::Null),
        ("limit=1&state=dead", Value::Null),
    ] {
        let page = room.get(&format!("/v1/dead-letters?{query}")).await;
        assert_eq!(page["total"], total, "{query}");
    }
    let path = "/v1/dead-letters?limit=1";
    let (_, page) = room.call_as(theirs, Method::GET, path, "").await;
    assert_eq!(page["total"], 4);
    let path = "/v1/dead-letters/count";
    let (_, counted) = room.call_as(theirs, Method::GET, path, "").await;
    assert_eq!(counted["count"], 4);
    let path = "/v1/dead-letters/count?tenant=acme";
    let (status, _) = room.call_as(theirs, Method::GET, path, "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn dlq_02_a_letter_that_dies_again_is_listed_once_where_it_died_last() {
    let room = Room::open().await;
    let (one, two) = (letter("acme", 1, 7), letter("acme", 2, 7));
    room.write_all([one.clone(), two.clone()]).await;
    // Whoever wrote this ended before it struck the death that was undone.
    room.write(&dead_again(&one, Reason::Gone)).await;
    assert_eq!(registered(&room).await, 3);
    let page = room.get("/v1/dead-letters").await;
    assert_eq!(ids(&page), [one.id.as_str(), two.id.as_str()]);
    let page = room.get("/v1/dead-letters?reason=gone").await;
    assert_eq!(ids(&page), [one.id.as_str()]);
    let page = room.get("/v1/dead-letters?reason=exhausted").await;
    assert_eq!(ids(&page), [two.id.as_str()]);
}

#[tokio::test]
async fn dlq_02_a_letter_keeps_its_place_while_it_is_replayed() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let letters: Vec<_> = (0..3).map(|n| letter("acme", n, 7)).collect();
    room.write_all(letters.clone()).await;
    let path = format!("/v1/dead-letters/{}/replay", letters[1].id);
    assert_eq!(room.post(&path, "").await.0, StatusCode::ACCEPTED);
    let page = room.get("/v1/dead-letters").await;
    let states: Vec<&str> = (0..3)
        .map(|n| page["items"][n]["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["dead", "replaying", "dead"]);
    let page = room.get("/v1/dead-letters?state=replaying").await;
    assert_eq!(ids(&page), [letters[1].id.as_str()]);
    // What is sent knows where the death stands that it undoes.
    let handed_in = room.handed_in().await;
    let death = handed_in[0].replay.as_ref().unwrap().death.unwrap();
    let marked = room.letter(&letters[1].id).await.unwrap().value;
    assert_eq!((death.entry, marked.entry), (2, 2));
}

#[tokio::test]
async fn what_is_thrown_away_is_in_the_register_no_more() {
    let room = Room::open().await;
    room.write_all((0..20).map(|n| letter("acme", n, 7))).await;
    let one = letter("acme", 3, 7);
    let path = format!("/v1/dead-letters/{}", one.id);
    room.call(Method::DELETE, &path, "").await;
    assert_eq!(registered(&room).await, 19);
    let ask = r#"{"filter":{"tenant":"acme"},"dry_run":false}"#;
    let (_, purged) = room.post("/v1/dead-letters/purge", ask).await;
    assert_eq!(purged["purged"], 19);
    assert_eq!(registered(&room).await, 0);
    assert_eq!(room.get("/v1/dead-letters").await["total"], 0);
}

#[tokio::test]
async fn a_letter_that_cannot_be_stored_leaves_no_trace_on_the_list() {
    let room = Room::open().await;
    let one = letter("acme", 1, 7);
    let sequence = room.write(&one).await;
    // Nobody has the right sequence: the entry is there, the letter is the old one.
    let refused = dead_again(&one, Reason::Expired);
    let id = MessageId::of("test-refused", &[]);
    let written = room
        .broker
        .publish_letter(&refused, id.as_str(), Some(sequence + 9))
        .await;
    assert!(matches!(written, Err(BrokerError::Conflict)), "{written:?}");
    assert_eq!(registered(&room).await, 2);
    let page = room.get("/v1/dead-letters").await;
    assert_eq!(ids(&page), [one.id.as_str()]);
    assert!(ids(&room.get("/v1/dead-letters?reason=expired").await).is_empty());
}

#[tokio::test]
async fn ops_03_a_register_that_is_lost_is_made_anew_of_the_letters() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..300).map(|n| letter("acme", n, 7))).await;
    room.delete_stream("POSTHORN_REGISTER").await;
    // The next copy that starts makes what is missing.
    let copy = room.copy().await;
    assert_eq!(copy.get("/v1/dead-letters").await["total"], 0);
    let store = Store::open(copy.broker.clone(), &copy.shutdown.token()).await;
    let store = store.unwrap();
    mend(store.clone(), copy.shutdown.clone()).await;
    let page = copy.get("/v1/dead-letters?limit=300").await;
    assert_eq!((&page["total"], &page["count"]), (&300.into(), &300.into()));
    // Once is enough.
    mend(store, copy.shutdown.clone()).await;
    assert_eq!(registered(&copy).await, 300);
}

#[tokio::test]
async fn the_attempts_of_an_event_are_found_from_the_time_that_its_id_tells() {
    let room = Room::open().await;
    let now = u128::try_from(posthorn_wiring::now().0).unwrap();
    let bits = (now << 80) | (7 << 76) | (2 << 62) | 5;
    for event in 0..40 {
        room.record(&attempt("acme", event, 1, 1)).await;
    }
    for number in 1..=3 {
        room.record(&attempt("acme", bits, 1, number)).await;
    }
    let event = EventId::from_bits(bits);
    let path = format!("/v1/deliveries?event={event}&tenant=acme");
    let found = room.get(&path).await;
    assert_eq!(found["items"][0]["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(found["complete"], true);
    let later = format!("{path}&since=2099-01-01T00:00:00Z");
    assert_eq!(room.get(&later).await["count"], 0);
    let earlier = format!("{path}&until=2020-01-01T00:00:00Z");
    assert_eq!(room.get(&earlier).await["count"], 0);
}

#[tokio::test]
async fn the_letters_of_an_event_tell_where_its_attempts_are() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let mut died = letter("acme", 1, 7);
    let recorded = room.record(&attempt("acme", 1, 7, 1)).await;
    died.history[0].sequence = recorded;
    // As if the event were long ago, and its attempts far from both ends of the log.
    died.accepted_at = UnixMillis(died.accepted_at.0 + 86_400_000);
    room.write(&died).await;
    let path = format!("/v1/deliveries?event={}&tenant=acme", died.event_id);
    let found = room.get(&path).await;
    assert_eq!(found["items"][0]["attempts"][0]["response_body"], "no");
    assert_eq!(found["items"][0]["dead_letter"], died.id.as_str());
}

const FEW: u32 = 300;
const MANY: u32 = 30_000;

/// Writes letters of which the first hundred are the only ones of their endpoint and reason.
async fn fill(room: &Room, which: std::ops::Range<u32>) {
    let writes = which.map(|n| async move {
        let (bits, reason) = match n {
            0..100 => (1, Reason::Gone),
            _ => (2 + n % 3, Reason::Exhausted),
        };
        let letter = DeadLetter {
            reason,
            ..letter("acme", u128::from(n), u128::from(bits))
        };
        let id = MessageId::of("test-fill", &[&n.to_be_bytes()]);
        let written = room.broker.publish_letter(&letter, id.as_str(), None).await;
        written.map(drop)
    });
    let writing = futures_util::stream::iter(writes).buffer_unordered(128);
    writing.try_collect::<Vec<()>>().await.unwrap();
}

/// The median time of a page, which has so many items.
async fn page(room: &Room, query: &str) -> (Duration, usize) {
    let path = format!("/v1/dead-letters?limit=100{query}");
    let mut times = Vec::new();
    let mut items = 0;
    for _ in 0..9 {
        let begun = Instant::now();
        let page = room.get(&path).await;
        times.push(begun.elapsed());
        assert_eq!(page["complete"], true, "{query}");
        items = ids(&page).len();
    }
    times.sort();
    (times[4], items)
}

/// The bound is that of a million; `posthorn bench --scenario queries` has as many.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_among_a_hundred_times_as_many_takes_no_ten_times_as_long() {
    let room = Room::open().await;
    fill(&room, 0..FEW).await;
    let queries = [
        String::new(),
        format!("&endpoint={}", EndpointId::from_bits(1)),
        format!("&endpoint={}", EndpointId::from_bits(3)),
        "&reason=gone".to_owned(),
        "&reason=exhausted&tenant=acme".to_owned(),
    ];
    let mut few = Vec::new();
    for query in &queries {
        few.push(page(&room, query).await);
    }
    fill(&room, FEW..MANY).await;
    for (query, (few, items)) in queries.iter().zip(few) {
        let (many, same) = page(&room, query).await;
        // Among the few, the endpoint has less than a page.
        assert!(same >= items && same <= 100, "{query}");
        let bound = few.max(Duration::from_millis(2)) * 10;
        assert!(many <= bound, "{query}: {few:?} -> {many:?}");
    }
}

#[tokio::test]
async fn a_search_that_meets_its_bound_says_so_and_goes_on_where_it_was() {
    let room = Room::open().await;
    for event in 0..900 {
        room.record(&attempt("acme", event, 1, 1)).await;
    }
    let log = room.broker.log::<Attempt>(StreamName::Attempts).await;
    let log = log.unwrap();
    let rare = EventId::from_bits(3);
    let (mut below, mut pages, mut found) = (None, 0, Vec::new());
    loop {
        let search = Search {
            budget: Budget::new(200, Duration::from_secs(30)),
            ..Search::page("posthorn.attempts.acme.>", below)
        };
        let page = newest(&log, &search, 5, |record| record.value.event_id == rare).await;
        let page = page.unwrap();
        pages += 1;
        found.extend(page.items.into_iter().map(|record| record.sequence));
        assert_eq!(page.complete, page.next.is_none());
        match page.next {
            Some(next) => below = Some(next),
            None => break,
        }
    }
    assert_eq!(found, [4]);
    assert!((3..=5).contains(&pages), "{pages} pages");
}

#[tokio::test]
async fn a_letter_under_way_is_no_states_but_its_own() {
    let room = Room::open().await;
    let mut on_its_way = letter("acme", 1, 7);
    room.write(&on_its_way).await;
    let entry = room.letter(&on_its_way.id).await.unwrap().value.entry;
    on_its_way = DeadLetter {
        entry,
        state: LetterState::Replaying,
        ..on_its_way
    };
    room.write(&on_its_way).await;
    assert_eq!(
        room.get("/v1/dead-letters/count?state=dead").await["count"],
        0
    );
    assert_eq!(
        room.get("/v1/dead-letters/count?state=replaying").await["count"],
        1
    );
}
