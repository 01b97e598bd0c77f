//! Breaker, pause, quiet: nothing is sent, nothing is lost, and it comes back in order.

use crate::support::{SOON, all_closed, depth, lane, line, numbers, wake};
use posthorn_broker::StreamName;
use posthorn_delivery::{DisabledReason, LaneReason, UnixMillis};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{breaker, endpoint, retry};
use posthorn_tests::wait::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_endpoint_gets_a_lane_and_everything_when_it_is_well() {
    let rig = line(2, 3).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/dead", Reply::status(503));
    let mut dead = endpoint("acme", &receiver.url("/dead"));
    dead.breaker = breaker(5, Duration::from_secs(2));
    dead.max_in_flight = 9;
    rig.put(&dead).await.unwrap();
    rig.publish("acme", "a", 500).await.unwrap();
    eventually(SOON, "the backlog waits in the lane", || async {
        depth(&rig, &dead).await > 480
    })
    .await
    .unwrap();
    let state = lane(&rig, &dead).await.unwrap();
    assert_eq!(state.reason, LaneReason::BreakerOpen);
    let before = receiver.requests_to("/dead").len();
    assert!(
        (5..=4 + 9 + 3).contains(&before),
        "{before} requests to a dead endpoint"
    );
    receiver.answer("/dead", Reply::ok());
    let broker = rig.broker();
    eventually(Duration::from_secs(60), "all are delivered", || async {
        let ok = receiver
            .requests_to("/dead")
            .iter()
            .filter(|r| r.answered() == Some(200))
            .count();
        ok >= 500
    })
    .await
    .unwrap();
    all_closed(&rig).await;
    assert_eq!(broker.stream_messages(StreamName::Dlq).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_04_what_a_paused_endpoint_missed_comes_in_order_when_it_is_resumed() {
    let rig = line(2, 2).await;
    let receiver = Receiver::start().await.unwrap();
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.max_in_flight = 2;
    target.disabled = Some((DisabledReason::Paused, UnixMillis(1)));
    rig.put(&target).await.unwrap();
    // One after the other, so that they lie in the lane in this order.
    for n in 0..20 {
        rig.publish("acme", "a", 10).await.unwrap();
        eventually(SOON, "they wait", || async {
            depth(&rig, &target).await == 10 * (n + 1)
        })
        .await
        .unwrap();
    }
    assert_eq!(
        lane(&rig, &target).await.unwrap().reason,
        LaneReason::Paused
    );
    assert_eq!(receiver.count(), 0);
    target.disabled = None;
    rig.put(&target).await.unwrap();
    wake(&rig, &target).await;
    let resumed = std::time::Instant::now();
    receiver.wait_for(1, SOON).await.unwrap();
    assert!(
        resumed.elapsed() < Duration::from_secs(1),
        "{:?}",
        resumed.elapsed()
    );
    let got = receiver
        .wait_for(200, Duration::from_secs(60))
        .await
        .unwrap();
    all_closed(&rig).await;
    assert_eq!(receiver.count(), 200);
    let mut rounds = numbers(&got);
    rounds
        .iter_mut()
        .enumerate()
        .for_each(|(at, n)| *n = (at / 10 * 10).abs_diff(at - at % 10 + *n / 10));
    assert!(rounds.iter().all(|n| *n <= 1), "{rounds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ra_quiet_that_one_answer_asked_for_holds_all_of_the_endpoint() {
    let rig = line(1, 3).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/busy", [Reply::status(429).header("retry-after", "3")]);
    let mut busy = endpoint("acme", &receiver.url("/busy"));
    busy.retry = retry(Duration::from_secs(1), 4);
    busy.max_in_flight = 3;
    rig.put(&busy).await.unwrap();
    rig.publish("acme", "a", 200).await.unwrap();
    let first = receiver.wait_for(1, SOON).await.unwrap();
    let read = first[0].at();
    let got = receiver
        .wait_for(201, Duration::from_secs(60))
        .await
        .unwrap();
    let late = got
        .iter()
        .map(|request| request.at().duration_since(read))
        .filter(|after| {
            *after > Duration::from_millis(100) && *after < Duration::from_millis(2_990)
        })
        .count();
    assert_eq!(late, 0, "requests while the endpoint had asked for quiet");
    all_closed(&rig).await;
}
