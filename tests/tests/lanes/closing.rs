//! A lane that is closed leaves nothing behind, however many append to it meanwhile.

use crate::support::{SOON, all_closed, depth, line};
use posthorn_broker::{LaneStore, Patience};
use posthorn_delivery::LaneId;
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::endpoint;
use posthorn_tests::wait::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn appending_while_a_lane_closes_strands_nothing() {
    let rig = line(2, 2).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hook", Reply::ok().delay(Duration::from_millis(3)));
    let mut small = endpoint("acme", &receiver.url("/hook"));
    // Opens and closes again and again: more comes than may be in flight, in bursts.
    small.max_in_flight = 1;
    rig.put(&small).await.unwrap();
    let mut published = 0;
    for round in 0..60_u64 {
        let n = usize::try_from(round % 5 + 2).unwrap();
        rig.publish("acme", "a", n).await.unwrap();
        published += n;
        let wanted = published.saturating_sub(usize::try_from(round % 3).unwrap());
        receiver.wait_for(wanted, SOON).await.unwrap();
    }
    receiver.wait_for(published, SOON).await.unwrap();
    all_closed(&rig).await;
    assert_eq!(receiver.count(), published);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_somebody_appended_and_died_is_found_by_the_sweep() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    let delivery = posthorn_tests::rig::delivery(&target, 1);
    // No key and no token: the second and third step never came.
    store
        .append(&LaneId::live(&target.id), &delivery, Patience::WORKER)
        .await
        .unwrap();
    eventually(SOON, "it waits", || async {
        depth(&rig, &target).await == 1
    })
    .await
    .unwrap();
    receiver.wait_for(1, Duration::from_secs(45)).await.unwrap();
    all_closed(&rig).await;
}
