//! Replay jobs: their rate, their progress, their stops, and the death of who works on them.

use crate::support::{SOON, Town, alone, counts, shared, text};
use posthorn_tests::wait::eventually_some;
use posthorn_tests::{Reply, Role};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LETTERS: usize = 300;

/// A system with 300 dead letters, whose receiver is well again.
async fn with_letters() -> Town {
    let town = Town::start().await;
    let calm = json!({"retry": {"max_attempts": 1}, "max_in_flight": 256});
    town.endpoint("acme", "/hook", calm).await;
    town.receiver.answer("/hook", Reply::status(500));
    for _ in 0..LETTERS / 100 {
        let items: Vec<Value> = (0..100)
            .map(|n| json!({"type": "a.b", "payload": {"n": n}}))
            .collect();
        let sent = town
            .api
            .post("/v1/tenants/acme/events", &json!(items))
            .await;
        assert_eq!(sent.unwrap().status, 202);
    }
    town.letters("", LETTERS).await;
    town.receiver.clear();
    town.receiver.answer("/hook", Reply::ok());
    town
}

async fn start(town: &Town, rate: u32) -> String {
    let body = json!({"filter": {"tenant": "acme"}, "rate_per_second": rate});
    let job = town.api.admin_post("/v1/replays", &body).await.unwrap();
    let job = job.success().unwrap();
    assert_eq!(job["matched"], LETTERS);
    text(&job["id"])
}

async fn job(town: &Town, id: &str) -> Option<Value> {
    let path = format!("/v1/replays/{id}");
    town.api.admin_get(&path).await.ok()?.success().ok()
}

async fn reaches(town: &Town, id: &str, state: &str) -> Value {
    let found = eventually_some(SOON, state, || async {
        job(town, id).await.filter(|job| job["state"] == state)
    });
    found.await.unwrap()
}

async fn act(town: &Town, id: &str, action: &str) -> u16 {
    let path = format!("/v1/replays/{id}/{action}");
    town.api.admin_post(&path, &json!({})).await.unwrap().status
}

/// Waits until the receiver has had nothing for a second, and says how many it had.
async fn standing(town: &Town) -> usize {
    let mut last = (town.receiver.count(), Instant::now());
    eventually_some(SOON, "nothing arrives for a second", || {
        let now = town.receiver.count();
        if now != last.0 {
            last = (now, Instant::now());
        }
        std::future::ready((last.1.elapsed() >= Duration::from_secs(1)).then_some(now))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_its_rate_and_tells_its_progress() {
    let _machine = alone().await;
    let town = with_letters().await;
    let id = start(&town, 100).await;
    let mut told = Vec::new();
    let done = eventually_some(SOON, "the job is done", || async {
        job(&town, &id)
            .await
            .filter(|job| job["state"] == "completed")
    });
    let watch = eventually_some(SOON, "half of it", || async {
        let job = job(&town, &id).await?;
        job["replayed"]
            .as_u64()
            .filter(|n| *n > 0 && *n < LETTERS as u64)
    });
    let (done, half) = tokio::join!(done, watch);
    told.push(half.unwrap());
    let done = done.unwrap();
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&json!(LETTERS), &json!(0))
    );
    let got = town.got("/hook", LETTERS).await;
    let took = got[LETTERS - 1].at() - got[0].at();
    let rate = (LETTERS - 1) as f64 / took.as_secs_f64();
    println!("a job at 100/s: {rate:.1}/s, told on the way: {told:?}");
    assert!((50.0..=115.0).contains(&rate), "{rate}/s");
    town.letters("", 0).await;
    assert_eq!(town.receiver.count(), LETTERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_stops_within_a_second_goes_on_and_is_cancelled() {
    let _machine = alone().await;
    let town = with_letters().await;
    let id = start(&town, 50).await;
    town.got("/hook", 20).await;
    assert_eq!(act(&town, &id, "pause").await, 200);
    let asked = Instant::now();
    let standing_at = standing(&town).await;
    let last = town.receiver.requests()[standing_at - 1].at();
    let after = last.saturating_duration_since(asked);
    assert!(
        after <= Duration::from_millis(1_100),
        "{after:?} after the pause"
    );
    assert!(standing_at < LETTERS);
    assert_eq!(act(&town, &id, "resume").await, 200);
    town.got("/hook", standing_at + 20).await;
    assert_eq!(act(&town, &id, "cancel").await, 200);
    let end = standing(&town).await;
    assert!(end < LETTERS);
    let cancelled = reaches(&town, &id, "cancelled").await;
    assert_eq!(cancelled["replayed"], end);
    assert_eq!(act(&town, &id, "resume").await, 409);
    town.letters("", LETTERS - end).await;
    let times = counts(&town.receiver.requests());
    assert!(times.values().all(|count| *count == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_job_whose_worker_is_killed_misses_none_and_sends_none_twice() {
    let _machine = shared().await;
    let mut town = with_letters().await;
    let id = start(&town, 100).await;
    for already in [60, 160] {
        town.got("/hook", already).await;
        town.cluster.restart(Role::DlqAdmin, 0).await.unwrap();
    }
    let done = reaches(&town, &id, "completed").await;
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&json!(LETTERS), &json!(0))
    );
    town.letters("", 0).await;
    town.settled().await;
    let times = counts(&town.receiver.requests());
    assert_eq!(times.len(), LETTERS, "0 missed");
    assert!(
        times.values().all(|count| *count == 1),
        "0 twice: {times:?}"
    );
}
