//! Lanes: how they are shown, what is put into them, and who is woken.

use crate::room::{Room, endpoint, eventually, letter};
use axum::http::StatusCode;
use posthorn_broker::{BucketName, Waiting};
use posthorn_delivery::letter::ReplayWindow;
use posthorn_delivery::{
    Delivery, EndpointId, LaneId, LaneReason, LaneState, RateLimit, UnixMillis,
};
use serde_json::Value;
use std::time::Duration;

const FAR: UnixMillis = UnixMillis(1_900_000_000_000);
const FAR_TEXT: &str = "2030-03-17T17:46:40.000Z";

fn live(bits: u128) -> LaneId {
    LaneId::live(&EndpointId::from_bits(bits))
}

fn replay(bits: u128) -> LaneId {
    LaneId::replay(&EndpointId::from_bits(bits))
}

fn state(owner: &str, reason: LaneReason) -> LaneState {
    let tenant = crate::room::tenant(owner);
    LaneState::open(&tenant, reason, UnixMillis(0), UnixMillis(1_000))
}

/// A delivery of event number `event`, accepted at `accepted_at`.
fn delivery(event: u128, bits: u128, accepted_at: i64) -> Delivery {
    let mut letter = letter("acme", event, bits);
    letter.accepted_at = UnixMillis(accepted_at);
    let window = ReplayWindow {
        not_before: UnixMillis(0),
        expires_at: FAR,
    };
    letter.replay(1, "rpl_test", window).unwrap()
}

fn keys(page: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| (text(&item["endpoint"]), text(&item["kind"])))
        .collect()
}

#[tokio::test]
async fn lanes_are_shown_with_what_waits_in_them() {
    let room = Room::open().await;
    let mut limited = endpoint("acme", 2);
    limited.rate_limit = RateLimit::per_second(0.5).ok();
    for endpoint in [&endpoint("acme", 1), &limited, &endpoint("globex", 3)] {
        room.endpoint(endpoint).await;
    }
    let held = LaneState {
        hold_until: FAR,
        owner: 4,
        ..state("acme", LaneReason::BreakerOpen)
    };
    room.open_lane(&live(1), &held).await;
    for event in [5, 6, 7] {
        let at = i64::try_from(event).unwrap() * 1_000;
        room.park(&live(1), &delivery(event, 1, at)).await;
    }
    let job = LaneState {
        rate_per_second: 20,
        ..state("acme", LaneReason::Replay)
    };
    room.open_lane(&replay(1), &job).await;
    room.open_lane(&live(2), &state("acme", LaneReason::RateLimit))
        .await;
    // Its last owner has taken the key away and something came meanwhile.
    room.park(&live(3), &delivery(9, 3, 1_000)).await;
    room.park(&live(99), &delivery(9, 99, 1_000)).await;

    let page = room.get("/v1/lanes").await;
    assert_eq!((&page["count"], &page["total"]), (&5.into(), &5.into()));
    let first = serde_json::json!({
        "endpoint": EndpointId::from_bits(1).as_str(), "tenant": "acme", "kind": "live",
        "reason": "breaker_open", "since": "1970-01-01T00:00:01.000Z", "hold_until": FAR_TEXT,
        "depth": 3, "oldest": "1970-01-01T00:00:05.000Z", "rate_per_second": null, "owner": 4,
    });
    assert_eq!(page["items"][0], first);
    let second = &page["items"][1];
    assert_eq!(
        (&second["kind"], &second["depth"]),
        (&"replay".into(), &0.into())
    );
    assert_eq!(second["rate_per_second"], 20);
    assert!(second["oldest"].is_null() && second["hold_until"].is_null());
    assert_eq!(page["items"][2]["rate_per_second"], 0.5);
    let left = &page["items"][3];
    assert_eq!(
        (&left["reason"], &left["depth"]),
        (&"draining".into(), &1.into())
    );
    assert_eq!(
        (&left["tenant"], &left["since"]),
        (&"globex".into(), &Value::Null)
    );
    assert_eq!(page["items"][4]["tenant"], Value::Null);
}

#[tokio::test]
async fn pages_of_lanes_fit_together_and_filters_select() {
    let room = Room::open().await;
    for bits in 1..=4 {
        let owner = if bits == 4 { "globex" } else { "acme" };
        room.endpoint(&endpoint(owner, bits)).await;
        room.open_lane(&live(bits), &state(owner, LaneReason::Paused))
            .await;
        room.open_lane(&replay(bits), &state(owner, LaneReason::BehindLive))
            .await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = room.get(&format!("/v1/lanes?limit=3{cursor}")).await;
        assert_eq!(page["total"], 8);
        seen.extend(keys(&page));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let all: Vec<(String, String)> = (1..=4)
        .flat_map(|bits| {
            let id = EndpointId::from_bits(bits).to_string();
            [(id.clone(), "live".to_owned()), (id, "replay".to_owned())]
        })
        .collect();
    assert_eq!(seen, all);
    assert_eq!(room.get("/v1/lanes?tenant=globex").await["total"], 2);
    assert_eq!(room.get("/v1/lanes?reason=paused").await["total"], 4);
    assert_eq!(
        room.get("/v1/lanes?tenant=acme&reason=ramp").await["total"],
        0
    );
    for bad in [
        "reason=broken",
        "tenant=A",
        "limit=0",
        "cursor=!",
        "tenent=acme",
    ] {
        let (status, _) = room
            .call(axum::http::Method::GET, &format!("/v1/lanes?{bad}"), "")
            .await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn a_breaker_shows_what_waits_behind_it() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let path = format!("/v1/breakers/{}", EndpointId::from_bits(7));
    assert_eq!(room.get(&path).await["backlog"], 0);
    for event in 0..3 {
        room.park(&live(7), &delivery(event, 7, 1_000)).await;
    }
    room.park(&replay(7), &delivery(9, 7, 1_000)).await;
    let (_, opened) = room.post(&format!("{path}/open"), "").await;
    assert_eq!(opened["backlog"], 3);
    assert_eq!(room.get(&path).await["backlog"], 3);
    assert_eq!(room.get("/v1/breakers").await["items"][0]["backlog"], 3);
}

#[tokio::test]
async fn a_breaker_opened_or_closed_by_hand_wakes_the_lanes_of_its_endpoint_only() {
    let room = Room::open().await;
    let lanes = room.lanes().await;
    for bits in [7, 8] {
        room.endpoint(&endpoint("acme", bits)).await;
        for lane in [live(bits), replay(bits)] {
            room.open_lane(&lane, &state("acme", LaneReason::BreakerOpen))
                .await;
            lanes.put_token(&lane).await.unwrap();
        }
    }
    let tokens = async || {
        let mut found = Vec::new();
        for lane in [live(7), replay(7), live(8), replay(8)] {
            found.push(room.token(&lane).await.unwrap());
        }
        found
    };
    let mut before = tokens().await;
    for action in ["open", "close", "close"] {
        let path = format!("/v1/breakers/{}/{action}", EndpointId::from_bits(7));
        assert_eq!(room.post(&path, "").await.0, StatusCode::OK);
        let after = tokens().await;
        assert!(after[0] > before[0] && after[1] > before[1], "{action}");
        assert_eq!(after[2..], before[2..], "{action}");
        before = after;
    }
}

#[tokio::test]
async fn an_endpoint_without_a_lane_is_given_no_token() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let path = format!("/v1/breakers/{}/close", EndpointId::from_bits(7));
    assert_eq!(room.post(&path, "").await.0, StatusCode::OK);
    assert_eq!(room.token(&live(7)).await, None);
    assert_eq!(room.token(&replay(7)).await, None);
}

#[tokio::test]
async fn a_replayed_letter_waits_in_the_replay_lane_of_its_endpoint() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let one = letter("acme", 1, 7);
    room.write(&one).await;
    let (status, _) = room
        .post(&format!("/v1/dead-letters/{}/replay", one.id), "")
        .await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let lanes = room.lanes().await;
    assert_eq!(lanes.lanes().await.unwrap(), [(replay(7), 1)]);
    assert_eq!(lanes.tokens().await.unwrap(), [replay(7)]);
    let state = room.lane(&replay(7)).await.unwrap();
    assert_eq!(
        (state.tenant.as_str(), state.reason),
        ("acme", LaneReason::Replay)
    );
    assert_eq!(
        (state.rate_per_second, room.lane(&live(7)).await),
        (0, None)
    );
    let retries = room
        .broker
        .log::<Waiting>(posthorn_broker::StreamName::Retries)
        .await
        .unwrap();
    let waiting = retries.read("posthorn.retries.>", 1, 10).await.unwrap();
    assert!(waiting.items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_gives_its_lane_its_rate_and_changes_nothing_else() {
    let room = Room::open().await;
    for bits in [7, 8] {
        room.endpoint(&endpoint("acme", bits)).await;
        room.write_all((0..5).map(|n| letter("acme", n, bits)))
            .await;
    }
    let before = LaneState {
        owner: 9,
        rate_per_second: 1,
        ..state("acme", LaneReason::BehindLive)
    };
    room.open_lane(&replay(7), &before).await;
    room.work("a").await;
    start(&room, 40).await;
    eventually("ten in the lanes", || async {
        (room.handed_in().await.len() == 10).then_some(())
    })
    .await;
    let after = LaneState {
        rate_per_second: 40,
        ..before
    };
    assert_eq!(room.lane(&replay(7)).await.unwrap(), after);
    let opened = room.lane(&replay(8)).await.unwrap();
    assert_eq!(
        (opened.reason, opened.rate_per_second),
        (LaneReason::Replay, 40)
    );
}

async fn start(room: &Room, rate: u32) -> String {
    let ask = format!(r#"{{"filter":{{"tenant":"acme"}},"rate_per_second":{rate}}}"#);
    let (status, job) = room.post("/v1/replays", &ask).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    format!("/v1/replays/{}", job["id"].as_str().unwrap())
}

async fn reaches(room: &Room, job: &str, state: &str) -> Value {
    eventually(state, || async {
        Some(room.get(job).await).filter(|job| job["state"] == state)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_does_not_run_ahead_of_a_lane_that_stands_still() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..300).map(|n| letter("acme", n, 7))).await;
    room.work("a").await;
    let job = start(&room, 60).await;
    eventually("the lane is full", || async {
        (room.handed_in().await.len() == 60).then_some(())
    })
    .await;
    let more = async {
        while room.handed_in().await.len() == 60 {
            tokio::task::yield_now().await;
        }
    };
    let watched = tokio::time::timeout(Duration::from_millis(1_500), more).await;
    assert!(watched.is_err(), "more than a second's worth");
    assert_eq!(room.get(&job).await["replayed"], 60);

    let token = room.token(&replay(7)).await.unwrap();
    let (_, paused) = room.post(&format!("{job}/pause"), "").await;
    assert_eq!(paused["state"], "paused");
    assert_eq!(room.token(&replay(7)).await, Some(token));
    room.let_go();
    let (_, resumed) = room.post(&format!("{job}/resume"), "").await;
    assert_eq!(resumed["state"], "running");
    assert!(room.token(&replay(7)).await.unwrap() > token, "woken");
    let done = reaches(&room, &job, "completed").await;
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&300.into(), &0.into())
    );
    let mut events: Vec<_> = room
        .handed_in()
        .await
        .into_iter()
        .map(|d| d.event_id)
        .collect();
    events.sort();
    events.dedup();
    assert_eq!(events.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_its_lease_while_it_waits_for_a_lane() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..30).map(|n| letter("acme", n, 7))).await;
    room.work("a").await;
    let job = start(&room, 5).await;
    let id = job.rsplit('/').next().unwrap();
    let jobs = room.broker.bucket(BucketName::Replays).await.unwrap();
    let lease = async || {
        let found: posthorn_delivery::ReplayJob = jobs.get(id).await.unwrap().unwrap().value;
        (found.replayed, found.lease_until)
    };
    let first = eventually("the lane is full", || async {
        let (replayed, until) = lease().await;
        (replayed == 5).then_some(until)
    })
    .await;
    let renewed = eventually("the lease is renewed", || async {
        let (replayed, until) = lease().await;
        (until > first).then_some(replayed)
    })
    .await;
    assert!(posthorn_wiring::now() < first, "renewed before its end");
    assert_eq!(renewed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_held_holds_up_no_job() {
    let room = Room::open().await;
    for bits in [7, 8] {
        room.endpoint(&endpoint("acme", bits)).await;
    }
    room.open_lane(&replay(7), &state("acme", LaneReason::Paused))
        .await;
    room.write_all((0..80).map(|n| letter("acme", n, 7 + n % 2)))
        .await;
    room.work("a").await;
    let job = start(&room, 40).await;
    // The lane of endpoint 8 has room for 40, and that of 7 for whatever comes.
    let done = reaches(&room, &job, "completed").await;
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&80.into(), &0.into())
    );
    let lanes = room.lanes().await;
    assert_eq!(lanes.depth(&replay(7)).await.unwrap(), 40);
    assert_eq!(lanes.depth(&replay(8)).await.unwrap(), 40);
}

#[tokio::test]
async fn dlq_05_lanes_are_listed_of_the_tenant_that_was_asked_for_only() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 1)).await;
    room.park(&live(1), &delivery(1, 1, 1_000)).await;
    room.open_lane(&live(2), &state("globex", LaneReason::Paused))
        .await;
    let page = room.get("/v1/lanes?tenant=acme").await;
    assert_eq!(page["total"], 1);
    assert_eq!(page["items"][0]["tenant"], "acme");
}
