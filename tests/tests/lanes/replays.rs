//! What is sent again stands behind live traffic.

use crate::support::{SOON, line};
use posthorn_broker::codec::Parked;
use posthorn_broker::{BucketName, LaneStore, Logged, Patience};
use posthorn_delivery::delivery::{Death, ReplayMark};
use posthorn_delivery::{
    DisabledReason, Endpoint, LaneId, LaneReason, LaneState, RateLimit, Reason, UnixMillis,
};
use posthorn_tests::receiver::Receiver;
use posthorn_tests::rig::{Rig, delivery, endpoint};
use posthorn_tests::wait::eventually;
use std::collections::HashSet;

/// Hands in `count` replays as dlq-admin does, at `rate` a second.
async fn replay(rig: &Rig, target: &Endpoint, count: u64, rate: u32) {
    let lane = LaneId::replay(&target.id);
    let bucket = rig.broker().bucket(BucketName::Lanes).await.unwrap();
    let now = posthorn_wiring::now();
    let state = LaneState {
        rate_per_second: rate,
        ..LaneState::open(&target.tenant, LaneReason::Replay, UnixMillis(0), now)
    };
    bucket.create(&lane.key(), &state).await.unwrap();
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    for n in 0..count {
        let mut again = delivery(target, n);
        again.replay = Some(ReplayMark {
            generation: 7,
            replay_id: "rpl_1".to_owned(),
            count: 1,
            death: Some(Death {
                entry: 0,
                reason: Reason::Exhausted,
                at: now,
            }),
        });
        store.append(&lane, &again, Patience::WORKER).await.unwrap();
    }
    store.put_token(&lane).await.unwrap();
}

async fn reason(rig: &Rig, target: &Endpoint) -> Option<LaneReason> {
    let bucket = rig
        .broker()
        .bucket::<LaneState>(BucketName::Lanes)
        .await
        .unwrap();
    let key = LaneId::replay(&target.id).key();
    let found = bucket.get(&key).await.unwrap();
    found.map(|found| found.value.reason)
}

/// The event ids of what lies in the live lane once it holds `count`.
async fn waiting_ids(rig: &Rig, target: &Endpoint, count: usize) -> HashSet<String> {
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    let lane = LaneId::live(&target.id);
    eventually(SOON, "live traffic waits", || async {
        store.depth(&lane).await.unwrap() == count as u64
    })
    .await
    .unwrap();
    let page = store.read(&lane, 1, count).await.unwrap();
    let id = |item: &Logged<Parked>| match &item.value {
        Parked::Delivery(delivery) => delivery.event_id.to_string(),
        Parked::Unreadable(..) => panic!("it is a delivery"),
    };
    page.items.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_goes_out_at_its_rate_and_its_lane_is_closed_after_it() {
    let rig = line(2, 2).await;
    let receiver = Receiver::start().await.unwrap();
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    replay(&rig, &target, 300, 100).await;
    let got = receiver.wait_for(300, SOON).await.unwrap();
    let took = got[299].at() - got[0].at();
    assert!(
        (2_700..6_000).contains(&took.as_millis()),
        "300 at 100 a second took {took:?}"
    );
    crate::support::all_closed(&rig).await;
    assert_eq!(receiver.count(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_waits_for_a_live_lane_and_goes_on_when_it_is_closed() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.disabled = Some((DisabledReason::Paused, UnixMillis(1)));
    rig.put(&target).await.unwrap();
    rig.publish("acme", "live", 5).await.unwrap();
    let live = waiting_ids(&rig, &target, 5).await;
    replay(&rig, &target, 5, 0).await;
    eventually(SOON, "the replay is held too", || async {
        reason(&rig, &target).await == Some(LaneReason::Paused)
    })
    .await
    .unwrap();
    target.disabled = None;
    rig.put(&target).await.unwrap();
    let store = LaneStore::open(&rig.broker()).await.unwrap();
    for lane in [LaneId::replay(&target.id), LaneId::live(&target.id)] {
        store.renew_token(&lane).await.unwrap();
    }
    receiver.wait_for(10, SOON).await.unwrap();
    let order: Vec<bool> = receiver
        .requests()
        .iter()
        .map(|request| live.contains(request.webhook_id()))
        .collect();
    assert_eq!(order[..5], [true; 5], "live traffic goes first: {order:?}");
    crate::support::all_closed(&rig).await;
    assert_eq!(receiver.count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_counts_live_traffic_and_a_replay_together() {
    let rig = line(1, 2).await;
    let receiver = Receiver::start().await.unwrap();
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.rate_limit = RateLimit::per_second(50.0).ok();
    rig.put(&target).await.unwrap();
    replay(&rig, &target, 200, 0).await;
    receiver.wait_for(1, SOON).await.unwrap();
    for _ in 0..100 {
        let before = receiver.count();
        rig.publish("acme", "live", 1).await.unwrap();
        receiver.wait_for(before + 1, SOON).await.unwrap();
    }
    let got = receiver.wait_for(300, 2 * SOON).await.unwrap();
    let took = got[299].at() - got[0].at();
    assert!(
        took.as_millis() >= 5_400,
        "300 at 50 a second took {took:?}"
    );
}
