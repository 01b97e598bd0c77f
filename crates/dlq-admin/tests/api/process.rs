//! The service as a process: its exit codes, and a job that outlives a killed one.

use crate::room::{KEY, Room, endpoint, eventually, letter};
use axum::http::StatusCode;
use std::collections::HashMap;
use std::process::Stdio;
use tokio::process::{Child, Command};

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthorn-dlq-admin"));
    command
        .env_remove("POSTHORN_ADMIN_KEY")
        .args(["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

fn start(room: &Room) -> Child {
    let nats = room.nats_url();
    command()
        .args(["--nats-url", &nats, "--admin-key", KEY])
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_process_without_a_key_or_without_nats_says_so_by_its_exit_code() {
    let without_key = command().status().await.unwrap();
    assert_eq!(without_key.code(), Some(64));
    let nowhere = [
        "--nats-url",
        "nats://127.0.0.1:1",
        "--connect-timeout",
        "1s",
    ];
    let mut without_nats = command();
    without_nats.args(nowhere).args(["--admin-key", KEY]);
    assert_eq!(without_nats.status().await.unwrap().code(), Some(69));
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_02_a_job_survives_the_sigkill_of_its_process_and_sends_each_letter_once() {
    let room = Room::open().await;
    room.let_go();
    room.endpoint(&endpoint("acme", 7)).await;
    room.write_all((0..600).map(|n| letter("acme", n, 7))).await;
    let ask = r#"{"filter":{"tenant":"acme"},"rate_per_second":400}"#;
    let (status, job) = room.post("/v1/replays", ask).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let path = format!("/v1/replays/{}", job["id"].as_str().unwrap());

    let mut first = start(&room);
    eventually("the first batch", || async {
        (!room.handed_in().await.is_empty()).then_some(())
    })
    .await;
    first.kill().await.unwrap();
    let sent = room.handed_in().await.len();
    assert!(sent < 600, "it was killed in the middle");

    let _second = start(&room);
    let done = eventually("completion", || async {
        Some(room.get(&path).await).filter(|job| job["state"] == "completed")
    })
    .await;
    assert_eq!(
        (&done["replayed"], &done["skipped"]),
        (&600.into(), &0.into())
    );
    let mut count: HashMap<String, usize> = HashMap::new();
    for delivery in room.handed_in().await {
        *count.entry(delivery.event_id.to_string()).or_default() += 1;
    }
    assert_eq!(count.len(), 600);
    assert!(count.values().all(|n| *n == 1));
}
