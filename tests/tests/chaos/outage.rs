//! The broker goes away while lanes drain, and what was held back is still held back after it.

use crate::site::{Site, at_random, most_within};
use crate::turn;
use posthorn_tests::receiver::Reply;
use posthorn_tests::{Cluster, Role};
use serde_json::json;
use std::time::Duration;

const EVENTS: usize = 1_600;
const CAP: usize = 8;
const PER_SECOND: usize = 150;
/// A scheduler that was late for a slot may use it up to 100 ms later, and what is in hand when
/// the broker goes comes again without another slot.
const MORE: usize = PER_SECOND / 10 + PACED_IN_HAND;
const PACED_IN_HAND: usize = 16;
/// What was let go in the last quarter of a second still lies in the lane, and the ids of what
/// was settled are forgotten by a server that starts again: it may be let go a second time.
const AGAIN: usize = (PER_SECOND + CAP * 1_000 / 50) / 4 + CAP + PACED_IN_HAND;
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn what_lanes_hold_back_they_still_hold_back_after_an_outage() {
    let _turn = turn::light().await;
    let builder = Cluster::builder()
        .copies(Role::Scheduler, 2)
        .copies(Role::Dispatcher, 3);
    let mut site = Site::start(builder).await;
    let slow = Reply::ok().delay(Duration::from_millis(50));
    site.receiver.answer("/capped", slow.clone());
    site.receiver.answer("/paced", slow);
    let capped = json!({"max_in_flight": CAP, "enabled": false});
    site.endpoint("/capped", &capped).await;
    let paced = json!({
        "rate_limit": {"per_second": PER_SECOND},
        "max_in_flight": PACED_IN_HAND,
        "enabled": false,
    });
    site.endpoint("/paced", &paced).await;
    site.publish(0..EVENTS).await;
    site.fills_to(u64::try_from(2 * EVENTS).unwrap()).await;
    site.call_each("resume").await;
    let mut left = Vec::new();
    // The second one is longer than the ack wait: everything in hand comes again at once.
    for outage in [500..1_500, 12_000..13_000] {
        at_random(3_000..4_000).await;
        left.push(site.waiting().await);
        site.cluster.nats.kill().await.unwrap();
        at_random(outage).await;
        site.cluster.nats.restart().await.unwrap();
    }
    let verdict = site.verdict(Duration::from_secs(90)).await;
    let most = site.receiver.most_at_once("/capped");
    let rate = most_within(&site.receiver, "/paced", SECOND);
    println!(
        "two outages with {left:?} still to go: {} delivered, {} more than once, at most {most} in flight and {rate} in a second",
        verdict.delivered,
        verdict.duplicates.len()
    );
    verdict.nothing_lost().unwrap();
    assert!(left.iter().all(|left| *left > 0), "{left:?} were left");
    assert!(most <= CAP, "{most} in flight, the cap is {CAP}");
    assert!(rate <= PER_SECOND + MORE, "{rate} in a second");
    assert!(
        verdict.duplicates.len() <= 2 * AGAIN,
        "{} came twice, {AGAIN} may after each outage",
        verdict.duplicates.len()
    );
    // An endpoint with a rate keeps its lane, empty or not.
    site.change("/paced", &json!({"rate_limit": null})).await;
    site.all_closed(Duration::from_secs(45)).await;
}
