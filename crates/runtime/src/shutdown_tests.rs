use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Shutdown;

#[tokio::test]
async fn clones_hear_the_same_trigger() {
    let shutdown = Shutdown::new();
    let other = shutdown.clone();
    let child = shutdown.token().child_token();
    assert!(!other.is_triggered());
    shutdown.trigger();
    other.triggered().await;
    child.cancelled().await;
    assert!(other.is_triggered());
}

#[tokio::test(start_paused = true)]
async fn ops_01_a_drain_waits_for_what_is_in_flight() {
    let shutdown = Shutdown::new();
    shutdown.spawn(tokio::time::sleep(Duration::from_secs(10)));
    let began = Instant::now();
    shutdown.trigger();
    assert_eq!(shutdown.in_flight(), 1);
    assert!(shutdown.drain(Duration::from_secs(25)).await);
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(shutdown.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn ops_01_a_drain_ends_before_the_grace_does() {
    let shutdown = Shutdown::new();
    shutdown.spawn(std::future::pending::<()>());
    shutdown.trigger();
    let began = Instant::now();
    assert!(!shutdown.drain(Duration::from_secs(25)).await);
    assert_eq!(began.elapsed().as_secs(), 25);
}

#[tokio::test(start_paused = true)]
async fn ops_01_the_budget_begins_at_the_trigger_and_is_spent_once() {
    let shutdown = Shutdown::new();
    shutdown.spawn(std::future::pending::<()>());
    shutdown.trigger();
    tokio::time::advance(Duration::from_secs(20)).await;
    let began = Instant::now();
    assert!(!shutdown.drain(Duration::from_secs(25)).await);
    assert!(!shutdown.drain(Duration::from_secs(25)).await);
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn drained_comes_after_the_last_task_and_not_before() {
    let shutdown = Shutdown::new();
    let release = Arc::new(Notify::new());
    let held = release.clone();
    shutdown.spawn(async move { held.notified().await });
    shutdown.trigger();
    let draining = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { shutdown.drain(Duration::from_secs(25)).await }
    });
    tokio::task::yield_now().await;
    assert!(!shutdown.drained.is_cancelled());
    release.notify_one();
    shutdown.drained().await;
    assert!(draining.await.unwrap());
}

#[tokio::test]
async fn a_second_signal_ends_the_wait() {
    let shutdown = Shutdown::new();
    shutdown.spawn(std::future::pending::<()>());
    shutdown.trigger();
    shutdown.forced.cancel();
    assert!(!shutdown.drain(Duration::from_secs(3600)).await);
}
