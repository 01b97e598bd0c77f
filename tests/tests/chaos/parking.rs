//! Dispatchers die while they put into lanes what may not be sent.

use crate::site::{Site, at_random, kill_any};
use crate::turn;
use posthorn_broker::StreamName;
use posthorn_tests::receiver::Reply;
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Role};
use serde_json::json;
use std::time::Duration;

const LANES: usize = 30;
const EVENTS: usize = 200;
const KILLS: usize = 15;
/// The sweep's 30 s with its jitter, and what the repair takes.
const SWEPT: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn ops_06_a_dispatcher_killed_while_it_parks_loses_and_strands_nothing() {
    let _turn = turn::light().await;
    let builder = Cluster::builder().copies(Role::Dispatcher, 3);
    let mut site = Site::start(builder).await;
    for n in 0..LANES {
        let path = format!("/dead/{n}");
        let dead = Reply::status(503).delay(Duration::from_millis(200));
        site.receiver.answer(&path, dead);
        let breaker = json!({"failure_threshold": 3, "cooldown": "1s", "max_cooldown": "1s"});
        let more = json!({"max_in_flight": 9, "breaker": breaker});
        site.endpoint(&path, &more).await;
    }
    site.publish(0..EVENTS).await;
    let mut busy = 0;
    for _ in 0..KILLS {
        at_random(50..500).await;
        busy += usize::from(site.stored(StreamName::Deliveries).await > 0);
        kill_any(&mut site.cluster, Role::Dispatcher).await;
    }
    let parked = || async {
        let owed = u64::try_from(LANES * EVENTS).unwrap();
        // One of each may be on its way as a probe, and a few wait for their next attempt.
        let elsewhere = u64::try_from(LANES * 9).unwrap();
        site.waiting().await + elsewhere >= owed
    };
    eventually(Duration::from_secs(60), "all is parked", parked)
        .await
        .unwrap();
    for lane in site.lanes() {
        site.receiver.answer(&lane.path, Reply::ok());
    }
    let verdict = site.verdict(Duration::from_secs(90)).await;
    println!(
        "{busy} of {KILLS} kills while deliveries were in hand: {} delivered, {} more than once",
        verdict.delivered,
        verdict.duplicates.len()
    );
    verdict.nothing_lost().unwrap();
    assert_eq!(verdict.dead, 0);
    // A dispatcher that dies between storing and acknowledging leaves a second one, which may
    // find the lane closed when it comes again.
    assert!(
        verdict.duplicates.len() <= verdict.accepted / 20,
        "{:?}",
        verdict.duplicates
    );
    site.all_closed(SWEPT).await;
    site.fresh_event_passes().await;
}
