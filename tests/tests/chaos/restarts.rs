//! Everything dies while a paused endpoint's events wait.

use crate::site::Site;
use crate::turn;
use posthorn_tests::{Cluster, Role};
use serde_json::json;
use std::time::Duration;

const QUEUED: usize = 10_000;
const ROLES: [Role; 4] = [
    Role::Ingest,
    Role::Scheduler,
    Role::Dispatcher,
    Role::DlqAdmin,
];

#[tokio::test(flavor = "multi_thread")]
async fn fan_04_what_a_paused_endpoint_is_owed_outlives_everything_and_comes_once() {
    let _turn = turn::light().await;
    let mut site = Site::start(Cluster::builder()).await;
    site.endpoint("/hook", &json!({"max_in_flight": 256})).await;
    site.call_each("pause").await;
    site.publish(0..QUEUED).await;
    // Now, while some are in the lane and others are not even fanned out.
    let parked = site.waiting().await;
    for role in ROLES {
        site.cluster.service(role, 0).unwrap().kill().unwrap();
    }
    site.cluster.nats.kill().await.unwrap();
    site.cluster.nats.restart().await.unwrap();
    for role in ROLES {
        site.cluster.restart(role, 0).await.unwrap();
    }
    site.fills_to(u64::try_from(QUEUED).unwrap()).await;
    assert_eq!(site.receiver.count(), 0, "it is paused");
    site.call_each("resume").await;
    let verdict = site.verdict(Duration::from_secs(90)).await;
    println!(
        "killed with {parked} of {QUEUED} in the lane: {} delivered, {} more than once",
        verdict.delivered,
        verdict.duplicates.len()
    );
    verdict.exactly_once().unwrap();
    site.all_closed(Duration::from_secs(45)).await;
}
