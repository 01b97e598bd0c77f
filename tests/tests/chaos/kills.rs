//! SIGKILL, twenty times each.

use crate::load::Load;
use crate::turn;
use posthorn_tests::{Cluster, Role};
use rand::RngExt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const KILLS: u32 = 20;
const PER_SECOND: u32 = 500;
/// The work of a killed process is back within its ack wait of 10 s, and some. What came in a
/// burst after it may wait in a lane, whose token is out for as long with each scheduler that
/// owns it when it is killed: in twenty seconds of kills that may be three in a row.
fn back_within(role: Role) -> Duration {
    match role {
        Role::Scheduler => Duration::from_secs(35),
        _ => Duration::from_secs(15),
    }
}

async fn cluster() -> Cluster {
    let builder = Cluster::builder()
        .copies(Role::Scheduler, 2)
        .copies(Role::Dispatcher, 3);
    builder.start().await.unwrap()
}

/// Kills a copy of `role` at random moments while the load runs, starts it again each time,
/// and judges.
async fn killing(role: Role) {
    let _turn = turn::heavy().await;
    let mut cluster = cluster().await;
    let load = Load::start(&cluster).await;
    let stop = CancellationToken::new();
    let kills = async {
        for _ in 0..KILLS {
            let pause = rand::rng().random_range(200..=1_500);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let copy = rand::rng().random_range(0..cluster.count(role));
            cluster.service(role, copy).unwrap().kill().unwrap();
            cluster.restart(role, copy).await.unwrap();
        }
        stop.cancel();
    };
    tokio::join!(load.run(PER_SECOND, stop.clone()), kills);
    let verdict = load.verdict(&cluster, Duration::from_secs(60)).await;
    verdict.nothing_lost().unwrap();
    assert_eq!(verdict.both, [], "delivered and dead-lettered");
    let (silence, slowest) = (load.longest_silence(), load.slowest());
    println!(
        "{role:?}: {} accepted, {} delivered, {} dead, {} delivered more than once, longest silence {silence:?}, slowest {slowest:?}",
        verdict.accepted,
        verdict.delivered,
        verdict.dead,
        verdict.duplicates.len(),
    );
    let said = cluster.output();
    assert!(
        !said.contains("breaker moved"),
        "no breaker opens for one failure in ten"
    );
    assert!(
        !said.contains("could not be told"),
        "every report reaches its breaker"
    );
    assert!(
        slowest < back_within(role),
        "what a killed process held came back after {slowest:?}"
    );
    load.fresh_event_passes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_06_a_killed_dispatcher_loses_nothing() {
    killing(Role::Dispatcher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_06_a_killed_scheduler_loses_nothing() {
    killing(Role::Scheduler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_02_a_killed_ingest_loses_nothing_that_it_accepted() {
    killing(Role::Ingest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_dlq_admin_loses_nothing() {
    killing(Role::DlqAdmin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_loses_nothing_that_was_acknowledged() {
    let _turn = turn::heavy().await;
    let mut cluster = cluster().await;
    let load = Load::start(&cluster).await;
    let stop = CancellationToken::new();
    let kills = async {
        for _ in 0..5 {
            let pause = rand::rng().random_range(1_000..=3_000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            cluster.nats.kill().await.unwrap();
            let outage = rand::rng().random_range(200..=2_000);
            tokio::time::sleep(Duration::from_millis(outage)).await;
            cluster.nats.restart().await.unwrap();
        }
        stop.cancel();
    };
    tokio::join!(load.run(PER_SECOND, stop.clone()), kills);
    let verdict = load.verdict(&cluster, Duration::from_secs(90)).await;
    verdict.nothing_lost().unwrap();
    assert_eq!(verdict.both, [], "delivered and dead-lettered");
    println!(
        "broker: {} accepted, {} delivered, {} dead, {} delivered more than once, longest silence {:?}",
        verdict.accepted,
        verdict.delivered,
        verdict.dead,
        verdict.duplicates.len(),
        load.longest_silence(),
    );
    load.fresh_event_passes().await;
}
