//! Breakers by hand.

use crate::room::{Room, endpoint};
use axum::http::{Method, StatusCode};
use posthorn_broker::BucketName;
use posthorn_delivery::breaker::{Phase, Probe};
use posthorn_delivery::{BreakerState, EndpointId, UnixMillis};
use std::time::Duration;

fn path(bits: u128) -> String {
    format!("/v1/breakers/{}", EndpointId::from_bits(bits))
}

async fn stored(room: &Room, bits: u128) -> BreakerState {
    let bucket = room
        .broker
        .bucket::<BreakerState>(BucketName::Breakers)
        .await
        .unwrap();
    let key = EndpointId::from_bits(bits).to_string();
    bucket.get(&key).await.unwrap().unwrap().value
}

async fn store(room: &Room, bits: u128, state: &BreakerState) {
    let bucket = room
        .broker
        .bucket::<BreakerState>(BucketName::Breakers)
        .await
        .unwrap();
    let key = EndpointId::from_bits(bits).to_string();
    bucket.put(&key, state).await.unwrap();
}

#[tokio::test]
async fn a_breaker_is_opened_and_closed_by_hand() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let shown = room.get(&path(7)).await;
    assert_eq!(
        (&shown["state"], &shown["generation"]),
        (&"closed".into(), &0.into())
    );

    let before = posthorn_wiring::now();
    let (status, opened) = room
        .post(&format!("{}/open", path(7)), r#"{"for":"2h"}"#)
        .await;
    assert_eq!((status, &opened["state"]), (StatusCode::OK, &"open".into()));
    assert_eq!(opened["next_probe_at"], opened["open_until"]);
    let state = stored(&room, 7).await;
    assert_eq!((state.phase, state.generation), (Phase::Open, 1));
    assert!(state.open_until >= before + Duration::from_secs(7_200));
    let listed = room.get("/v1/breakers").await;
    assert_eq!(
        listed["items"][0]["endpoint"],
        EndpointId::from_bits(7).as_str()
    );
    assert_eq!(listed["items"][0]["tenant"], "acme");

    let (status, closed) = room.post(&format!("{}/close", path(7)), "").await;
    assert_eq!(
        (status, &closed["state"]),
        (StatusCode::OK, &"closed".into())
    );
    assert_eq!(stored(&room, 7).await.generation, 2);
    assert_eq!(room.get("/v1/breakers").await["count"], 0);

    let (_, reopened) = room.post(&format!("{}/open", path(7)), "").await;
    assert_eq!(reopened["state"], "open");
    let state = stored(&room, 7).await;
    assert!(state.open_until >= before + Duration::from_secs(900));
    assert!(state.open_until < before + Duration::from_secs(1_000));
}

#[tokio::test]
async fn a_state_about_an_older_target_counts_as_closed() {
    let room = Room::open().await;
    let mut moved = endpoint("acme", 7);
    moved.target_epoch = 3;
    room.endpoint(&moved).await;
    let old = BreakerState {
        phase: Phase::Open,
        generation: 8,
        target_epoch: 2,
        open_until: UnixMillis(i64::MAX / 2),
        ..BreakerState::default()
    };
    store(&room, 7, &old).await;
    assert_eq!(room.get(&path(7)).await["state"], "closed");
    assert_eq!(room.get("/v1/breakers").await["count"], 0);
    room.post(&format!("{}/open", path(7)), "").await;
    let state = stored(&room, 7).await;
    assert_eq!(
        (state.phase, state.target_epoch, state.generation),
        (Phase::Open, 3, 10)
    );
}

#[tokio::test]
async fn probes_failures_and_holds_are_shown() {
    let room = Room::open().await;
    for bits in 1..=4 {
        room.endpoint(&endpoint("acme", bits)).await;
    }
    let far = UnixMillis(1_900_000_000_000);
    let probing = BreakerState {
        phase: Phase::HalfOpen,
        probe: Some(Probe {
            delivery: "abc".to_owned(),
            lease_until: far,
        }),
        ..BreakerState::default()
    };
    let failing = BreakerState {
        consecutive_failures: 2,
        ..BreakerState::default()
    };
    let held = BreakerState {
        hold_until: far,
        ..BreakerState::default()
    };
    let quiet = BreakerState {
        generation: 4,
        hold_until: UnixMillis(1),
        ..BreakerState::default()
    };
    for (bits, state) in [(1, probing), (2, failing), (3, held), (4, quiet)] {
        store(&room, bits, &state).await;
    }
    let listed = room.get("/v1/breakers?limit=2").await;
    assert_eq!((&listed["count"], &listed["total"]), (&2.into(), &3.into()));
    assert_eq!(listed["items"][0]["state"], "half_open");
    assert_eq!(listed["items"][0]["probe"]["delivery"], "abc");
    assert_eq!(
        listed["items"][0]["next_probe_at"],
        "2030-03-17T17:46:40.000Z"
    );
    assert_eq!(listed["items"][1]["consecutive_failures"], 2);
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = room
        .get(&format!("/v1/breakers?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(rest["items"][0]["hold_until"], "2030-03-17T17:46:40.000Z");
    assert_eq!(rest["count"], 1);
    assert_eq!(room.get("/v1/breakers?tenant=globex").await["count"], 0);
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused() {
    let room = Room::open().await;
    let mut without = endpoint("acme", 7);
    without.breaker = None;
    room.endpoint(&without).await;
    room.endpoint(&endpoint("acme", 8)).await;
    let (status, problem) = room.post(&format!("{}/open", path(7)), "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(problem["type"], "urn:posthorn:problem:breaker-off");
    for body in [
        r#"{"for":"31d"}"#,
        r#"{"for":"0s"}"#,
        r#"{"for":900}"#,
        r#"{"fro":"1h"}"#,
    ] {
        let (status, _) = room.post(&format!("{}/open", path(8)), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    }
    for (method, path) in [
        (Method::GET, path(99)),
        (Method::POST, format!("{}/open", path(99))),
        (Method::POST, format!("{}/close", path(99))),
        (Method::GET, "/v1/breakers/ep_*".to_owned()),
    ] {
        let (status, _) = room.call(method, &path, "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(room.get("/v1/breakers").await["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_same_moment_all_count() {
    let room = Room::open().await;
    room.endpoint(&endpoint("acme", 7)).await;
    let path = format!("{}/open", path(7));
    let answers = futures_util::future::join_all((0..8).map(|_| room.post(&path, ""))).await;
    assert!(answers.iter().all(|(status, _)| *status == StatusCode::OK));
    assert_eq!(stored(&room, 7).await.generation, 8);
}
