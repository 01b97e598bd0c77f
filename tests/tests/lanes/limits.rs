//! So many in flight, so many a second, so many waiting: over all dispatchers together.

use crate::support::{SOON, all_closed, depth, lane, line, wake};
use posthorn_broker::StreamName;
use posthorn_delivery::{LaneReason, RateLimit};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::endpoint;
use posthorn_tests::wait::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn fan_06_a_slow_endpoint_never_has_more_in_flight_than_it_may() {
    let rig = line(1, 3).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/slow", Reply::ok().delay(Duration::from_millis(400)));
    for cap in [2, 7] {
        receiver.clear();
        let path = format!("/slow?cap={cap}");
        let mut slow = endpoint(&format!("t{cap}"), &receiver.url(&path));
        slow.max_in_flight = cap;
        rig.put(&slow).await.unwrap();
        rig.publish(&format!("t{cap}"), "a", 60).await.unwrap();
        receiver
            .wait_for(60, Duration::from_secs(60))
            .await
            .unwrap();
        all_closed(&rig).await;
        assert_eq!(receiver.count(), 60);
        let most = receiver.most_at_once("/slow");
        assert!(most <= cap as usize, "{most} at once over a cap of {cap}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_kept_over_three_dispatchers_and_a_raised_one_is_in_force_at_once() {
    let rig = line(2, 3).await;
    let receiver = Receiver::start().await.unwrap();
    let mut limited = endpoint("acme", &receiver.url("/hook"));
    limited.rate_limit = RateLimit::per_second(50.0).ok();
    rig.put(&limited).await.unwrap();
    rig.publish("acme", "a", 600).await.unwrap();
    let first = receiver.wait_for(1, SOON).await.unwrap()[0].at();
    let got = receiver
        .wait_for(400, Duration::from_secs(30))
        .await
        .unwrap();
    for second in 0..7 {
        let from = Duration::from_secs(second);
        let n = got
            .iter()
            .filter(|request| {
                let at = request.at().duration_since(first);
                at >= from && at < from + Duration::from_secs(1)
            })
            .count();
        assert!((44..=56).contains(&n), "{n} in second {second}");
    }
    assert_eq!(
        lane(&rig, &limited).await.unwrap().reason,
        LaneReason::RateLimit
    );
    limited.rate_limit = RateLimit::per_second(1_000.0).ok();
    rig.put(&limited).await.unwrap();
    wake(&rig, &limited).await;
    let raised = std::time::Instant::now();
    receiver.wait_for(600, SOON).await.unwrap();
    assert!(
        raised.elapsed() < Duration::from_secs(2),
        "{:?}",
        raised.elapsed()
    );
    limited.rate_limit = None;
    rig.put(&limited).await.unwrap();
    wake(&rig, &limited).await;
    all_closed(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_the_backlog_is_dead_lettered_and_the_rest_arrives() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    let mut full = endpoint("acme", &receiver.url("/hook"));
    full.disabled = Some((
        posthorn_delivery::DisabledReason::Paused,
        posthorn_delivery::UnixMillis(1),
    ));
    full.max_backlog = 10;
    rig.put(&full).await.unwrap();
    rig.publish("acme", "a", 30).await.unwrap();
    let broker = rig.broker();
    eventually(SOON, "what is too much is given up", || async {
        let dead = broker.stream_messages(StreamName::Dlq).await.unwrap();
        dead + depth(&rig, &full).await == 30
    })
    .await
    .unwrap();
    let held = usize::try_from(depth(&rig, &full).await).unwrap();
    // The scheduler and the dispatcher may each pass the bound by one.
    assert!((10..=12).contains(&held), "{held}");
    let letters = broker
        .log::<posthorn_delivery::DeadLetter>(StreamName::Dlq)
        .await
        .unwrap();
    let page = letters.read("posthorn.dlq.>", 1, 100).await.unwrap();
    let reasons: Vec<&str> = page
        .items
        .iter()
        .map(|item| item.value.reason.as_str())
        .collect();
    assert_eq!(reasons, vec!["backlog_full"; 30 - held]);
    full.disabled = None;
    rig.put(&full).await.unwrap();
    wake(&rig, &full).await;
    receiver.wait_for(held, SOON).await.unwrap();
    all_closed(&rig).await;
    assert_eq!(receiver.count(), held);
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_06_a_tenant_that_hangs_leaves_a_dispatcher_to_others() {
    let mut rig = posthorn_tests::rig::Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    rig.dispatcher(posthorn_dispatcher::Settings {
        dispatch_concurrency: 8,
        tenant_concurrency: Some(6),
        ..posthorn_dispatcher::Settings::default()
    })
    .await
    .unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hang", Reply::ok().delay(Duration::from_secs(3)));
    // More endpoints than seats, none of them over its own cap.
    for _ in 0..12 {
        let mut hanging = endpoint("slow", &receiver.url("/hang"));
        hanging.max_in_flight = 4;
        rig.put(&hanging).await.unwrap();
    }
    let healthy = endpoint("fast", &receiver.url("/ok"));
    rig.put(&healthy).await.unwrap();
    rig.publish("slow", "a", 20).await.unwrap();
    receiver.wait_for_path("/hang", 6, SOON).await.unwrap();
    let asked = std::time::Instant::now();
    for n in 1..=50 {
        rig.publish("fast", "a", 1).await.unwrap();
        receiver.wait_for_path("/ok", n, SOON).await.unwrap();
    }
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
    assert!(receiver.most_at_once("/hang") <= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_a_burst_opened_is_closed_beside_steady_traffic() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hook", Reply::ok().delay(Duration::from_millis(20)));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.max_in_flight = 8;
    rig.put(&target).await.unwrap();
    rig.publish("acme", "burst", 300).await.unwrap();
    eventually(SOON, "the burst opens a lane", || async {
        lane(&rig, &target).await.is_some()
    })
    .await
    .unwrap();
    // One after the other without a pause: the lane is never empty for long.
    let begun = std::time::Instant::now();
    let mut published = 300;
    while lane(&rig, &target).await.is_some() {
        rig.publish("acme", "steady", 1).await.unwrap();
        published += 1;
        assert!(begun.elapsed() < SOON, "the lane is not closed");
        tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>())
            .await
            .unwrap_err();
    }
    receiver.wait_for(published, SOON).await.unwrap();
    all_closed(&rig).await;
    assert_eq!(receiver.count(), published);
}
