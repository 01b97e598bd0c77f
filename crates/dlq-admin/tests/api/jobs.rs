//! Replay jobs, with workers that work.

use crate::room::{Room, endpoint, eventually, letter};
use axum::http::StatusCode;
use posthorn_broker::BucketName;
use posthorn_delivery::{LetterState, ReplayJob, ReplayState, UnixMillis};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

async fn create(room: &Room, body: &str) -> String {
    let (status, job) = room.post("/v1/replays", body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{job}");
    job["id"].as_str().unwrap().to_owned()
}

async fn reaches(room: &Room, id: &str, state: &str) -> Value {
    let path = format!("/v1/replays/{id}");
    eventually(state, || async {
        Some(room.get(&path).await).filter(|job| job["state"] == state)
    })
    .await
}

async fn replayed(room: &Room, id: &str) -> u64 {
    let job = room.get(&format!("/v1/replays/{id}")).await;
    job["replayed"].as_u64().unwrap()
}

/// How often a delivery of each letter's event was handed in, by tenant and event.
async fn handed_in(room: &Room) -> HashMap<(String, String), usize> {
    let mut count = HashMap::new();
    for delivery in room.handed_in().await {
        let key = (delivery.tenant.to_string(), delivery.event_id.to_string());
        *count.entry(key).or_default() += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_05_a_job_replays_what_matches_once_and_touches_nothing_else() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.endpoint(&endpoint("globex", 7)).await;
    for n in 0..300 {
        room.write(&letter("acme", n, 7)).await;
        if n % 3 == 0 {
            room.write(&letter("globex", n, 7)).await;
        }
    }
    let ask = r#"{"filter":{"tenant":"acme"},"rate_per_second":10000,"dry_run":true}"#;
    let (status, counted) = room.post("/v1/replays", ask).await;
    assert_eq!((status, &counted["matched"]), (StatusCode::OK, &300.into()));
    assert_eq!(room.get("/v1/replays").await["count"], 0);

    let ask = r#"{"filter":{"tenant":"acme"},"rate_per_second":10000}"#;
    let id = create(&room, ask).await;
    // What dies after the request is not part of it.
    room.write(&letter("acme", 5_000, 7)).await;
    room.work("a").await;
    let done = reaches(&room, &id, "completed").await;
    assert_eq!(
        (&done["matched"], &done["replayed"]),
        (&300.into(), &300.into())
    );
    assert_eq!(done["skipped"], 0);
    assert_eq!(done["filter"]["tenant"], "acme");
    let count = handed_in(&room).await;
    assert_eq!(count.len(), 300);
    assert!(
        count
            .iter()
            .all(|((tenant, _), n)| tenant == "acme" && *n == 1)
    );
    let of_globex = room.get("/v1/dead-letters?tenant=globex&limit=500").await;
    let items = of_globex["items"].as_array().unwrap();
    assert_eq!(items.len(), 100);
    assert!(items.iter().all(|item| item["state"] == "dead"));
    let late = room.letter(&letter("acme", 5_000, 7).id).await.unwrap();
    assert_eq!(late.value.state, LetterState::Dead);
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_copies_that_compete_for_a_job_send_each_letter_once() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..400).map(|n| letter("acme", n, 7))).await;
    let other = room.copy().await;
    room.work("a").await;
    other.work("b").await;
    let id = create(
        &room,
        r#"{"filter":{"tenant":"acme"},"rate_per_second":1000}"#,
    )
    .await;
    eventually("progress", || async {
        (replayed(&room, &id).await > 0).then_some(())
    })
    .await;
    // Whoever has the job may be the one that ends; the other goes on.
    room.shutdown.trigger();
    let third = other.copy().await;
    third.work("c").await;
    let done = reaches(&third, &id, "completed").await;
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&400.into(), &0.into())
    );
    let count = handed_in(&third).await;
    assert_eq!(count.len(), 400);
    assert!(count.values().all(|n| *n == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_job_of_a_killed_process_is_taken_over_after_its_lease() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..60).map(|n| letter("acme", n, 7))).await;
    let id = create(
        &room,
        r#"{"filter":{"tenant":"acme"},"rate_per_second":10000}"#,
    )
    .await;

    // The killed process: it had the job, sent and marked ten letters, and reported none.
    let jobs = room
        .broker
        .bucket::<ReplayJob>(BucketName::Replays)
        .await
        .unwrap();
    let found = jobs.get(&id).await.unwrap().unwrap();
    let lease_until = posthorn_wiring::now() + Duration::from_secs(2);
    let dead = ReplayJob {
        owner: "killed".to_owned(),
        lease_until,
        ..found.value
    };
    jobs.swap(&id, &dead, found.revision).await.unwrap();
    for n in 0..10 {
        let mut marked = letter("acme", n, 7);
        marked.state = LetterState::Replaying;
        marked.replay_id.clone_from(&id);
        room.write(&marked).await;
    }

    room.work("b").await;
    let done = reaches(&room, &id, "completed").await;
    assert!(
        posthorn_wiring::now() >= lease_until,
        "taken before its time"
    );
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&60.into(), &0.into())
    );
    assert_eq!(handed_in(&room).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_stands_still_goes_on_and_is_cancelled() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..200).map(|n| letter("acme", n, 7))).await;
    room.work("a").await;
    let id = create(
        &room,
        r#"{"filter":{"tenant":"acme"},"rate_per_second":20}"#,
    )
    .await;
    let some = |than: u64| {
        let (room, id) = (&room, &id);
        move || async move { (replayed(room, id).await > than).then_some(()) }
    };
    eventually("progress", some(0)).await;
    let path = |action: &str| format!("/v1/replays/{id}/{action}");
    let (status, job) = room.post(&path("pause"), "").await;
    assert_eq!((status, &job["state"]), (StatusCode::OK, &"paused".into()));
    // The batch that was under way may still be reported, nothing beyond it.
    let most = job["replayed"].as_u64().unwrap() + 20;
    let more = async {
        loop {
            if room.handed_in().await.len() as u64 > most {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let watched = tokio::time::timeout(Duration::from_millis(2_500), more).await;
    assert!(watched.is_err(), "a paused job went on");

    let (_, job) = room.post(&path("resume"), "").await;
    assert_eq!(job["state"], "running");
    eventually("more progress", some(most)).await;
    let (_, job) = room.post(&path("cancel"), "").await;
    assert_eq!(job["state"], "cancelled");
    let (status, problem) = room.post(&path("resume"), "").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(problem["type"], "urn:posthorn:problem:job-ended");
    let left = room.get("/v1/dead-letters?limit=500").await;
    let dead = |item: &&Value| item["state"] == "dead";
    assert!(
        left["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(dead)
            .count()
            > 0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_is_kept_in_real_time() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..120).map(|n| letter("acme", n, 7))).await;
    room.work("a").await;
    let begun = posthorn_wiring::now();
    let id = create(
        &room,
        r#"{"filter":{"tenant":"acme"},"rate_per_second":40}"#,
    )
    .await;
    let done = reaches(&room, &id, "completed").await;
    assert_eq!(done["replayed"], 120);
    // Six batches of half a second: the sixth is handed in after five halves.
    let took = posthorn_wiring::now().since(begun);
    assert!(took >= Duration::from_millis(2_400), "{took:?}");
    let mut times: Vec<UnixMillis> = room
        .handed_in()
        .await
        .iter()
        .map(|d| d.not_before)
        .collect();
    times.sort_unstable();
    let spread = times[119].since(times[0]);
    assert!(spread >= Duration::from_millis(2_800), "{spread:?}");
}

#[tokio::test]
async fn bad_requests_are_refused_and_start_nothing() {
    let room = Room::open().await;
    for (body, field, status) in [
        (r#"{"filter":{}}"#, "filter", 422),
        (r#"{"filter":{"tenant":"*"}}"#, "filter.tenant", 422),
        (r#"{"filter":{"tenent":"acme"}}"#, "filter.tenent", 422),
        (
            r#"{"filter":{"tenant":"acme"},"rate_per_second":0}"#,
            "rate_per_second",
            422,
        ),
        (
            r#"{"filter":{"tenant":"acme"},"rate_per_second":10001}"#,
            "rate_per_second",
            422,
        ),
        (
            r#"{"filter":{"tenant":"acme"},"dryrun":true}"#,
            "dryrun",
            422,
        ),
    ] {
        let (found, problem) = room.post("/v1/replays", body).await;
        assert_eq!(found.as_u16(), status, "{body}");
        assert_eq!(problem["field"], field, "{body}: {problem}");
    }
    assert_eq!(room.get("/v1/replays").await["total"], 0);
    for id in ["rpl_00000000000000000000000000000001", "rpl_*", "x"] {
        for path in [
            format!("/v1/replays/{id}/pause"),
            format!("/v1/replays/{id}/cancel"),
        ] {
            assert_eq!(room.post(&path, "").await.0, StatusCode::NOT_FOUND);
        }
    }
}

#[tokio::test]
async fn jobs_are_listed_newest_first() {
    let room = Room::open().await;
    room.write(&letter("acme", 1, 7)).await;
    let jobs = room
        .broker
        .bucket::<ReplayJob>(BucketName::Replays)
        .await
        .unwrap();
    let mut created = Vec::new();
    for _ in 0..3 {
        let id = create(&room, r#"{"filter":{"tenant":"acme"}}"#).await;
        let state = jobs.get(&id).await.unwrap().unwrap().value.state;
        assert_eq!(state, ReplayState::Running);
        created.push(id);
    }
    created.sort();
    created.reverse();
    let page = room.get("/v1/replays?limit=2").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = room
        .get(&format!("/v1/replays?limit=2&cursor={cursor}"))
        .await;
    let ids = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|job| job["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!([ids(&page), ids(&rest)].concat(), created);
    assert_eq!(page["total"], 3);
    assert!(rest["next_cursor"].is_null());
}
