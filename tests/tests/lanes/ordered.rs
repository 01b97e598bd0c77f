//! `fifo`: one after the other, in the order of the events, whatever happens on the way.

use crate::support::{SOON, all_closed, lane, line, numbers, wake};
use posthorn_broker::{LaneStore, Patience, StreamName};
use posthorn_delivery::{Disposition, LaneId, LaneReason, Ordering};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{self, Rig, breaker, endpoint, retry};
use posthorn_tests::wait::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn fan_07_an_ordered_endpoint_sees_strict_order_through_failures_and_two_schedulers() {
    let rig = line(2, 3).await;
    let receiver = Receiver::start().await.unwrap();
    // Every third request fails; a breaker opens now and then.
    let failing = |n: usize| if n % 3 == 1 { 500 } else { 200 };
    let seen = std::sync::atomic::AtomicUsize::new(0);
    receiver.answer_by("/fifo", move |_| {
        let n = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Reply::status(failing(n))
    });
    let mut fifo = endpoint("acme", &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    fifo.retry = retry(Duration::from_millis(30), 16);
    fifo.breaker = breaker(2, Duration::from_millis(300));
    rig.put(&fifo).await.unwrap();
    rig.publish("acme", "a", 300).await.unwrap();
    eventually(Duration::from_secs(90), "all are delivered", || async {
        delivered(&receiver).len() >= 300
    })
    .await
    .unwrap();
    assert_eq!(delivered(&receiver), (0..300).collect::<Vec<_>>());
    assert_eq!(receiver.most_at_once("/fifo"), 1);
    assert_eq!(lane(&rig, &fifo).await.unwrap().reason, LaneReason::Fifo);
    let dlq = rig.broker().stream_messages(StreamName::Dlq).await.unwrap();
    assert_eq!(dlq, 0);
    fifo.ordering = Ordering::None;
    rig.put(&fifo).await.unwrap();
    wake(&rig, &fifo).await;
    all_closed(&rig).await;
}

/// The numbers of what was answered well, in order.
fn delivered(receiver: &Receiver) -> Vec<usize> {
    let requests = receiver.requests_to("/fifo");
    let well: Vec<_> = requests
        .into_iter()
        .filter(|request| request.answered() == Some(200))
        .collect();
    numbers(&well)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_lets_the_next_one_pass() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script(
        "/fifo",
        [Reply::status(400), Reply::status(500), Reply::status(500)],
    );
    let mut fifo = endpoint("acme", &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    fifo.retry = retry(Duration::from_millis(20), 2);
    rig.put(&fifo).await.unwrap();
    rig.publish("acme", "a", 5).await.unwrap();
    eventually(SOON, "the other three arrive", || async {
        delivered(&receiver).len() >= 3
    })
    .await
    .unwrap();
    assert_eq!(delivered(&receiver), [2, 3, 4]);
    let broker = rig.broker();
    eventually(SOON, "two are dead letters", || async {
        broker.stream_messages(StreamName::Dlq).await.unwrap() == 2
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_was_under_way_is_not_lost_when_the_order_is_given_up() {
    let rig = line(1, 1).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/fifo", [Reply::status(500)]);
    let mut fifo = endpoint("acme", &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    fifo.retry = retry(Duration::from_secs(3), 5);
    rig.put(&fifo).await.unwrap();
    rig.publish("acme", "a", 20).await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    fifo.ordering = Ordering::None;
    rig.put(&fifo).await.unwrap();
    wake(&rig, &fifo).await;
    receiver.wait_for(21, SOON).await.unwrap();
    all_closed(&rig).await;
    let mut all = delivered(&receiver);
    all.sort_unstable();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_under_way_is_not_lost_when_the_order_is_given_up() {
    let rig = line(2, 2).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script(
        "/fifo",
        [Reply::status(500).delay(Duration::from_millis(1_500))],
    );
    let mut fifo = endpoint("acme", &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    rig.put(&fifo).await.unwrap();
    rig.publish("acme", "a", 10).await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    fifo.ordering = Ordering::None;
    rig.put(&fifo).await.unwrap();
    wake(&rig, &fifo).await;
    eventually(SOON, "all are delivered", || async {
        delivered(&receiver).len() >= 10
    })
    .await
    .unwrap();
    all_closed(&rig).await;
    let mut all = delivered(&receiver);
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
}

/// A server that is killed forgets which ids it has met, and a scheduler that dies before it
/// has acknowledged an event fans it out again.
#[tokio::test(flavor = "multi_thread")]
async fn fan_07_what_was_answered_before_it_came_into_its_lane_again_does_not_hold_it_up() {
    let mut rig = Rig::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut fifo = endpoint("acme", &receiver.url("/fifo"));
    fifo.ordering = Ordering::Fifo;
    rig.put(&fifo).await.unwrap();
    let broker = rig.broker();
    let (store, lane) = (
        LaneStore::open(&broker).await.unwrap(),
        LaneId::live(&fifo.id),
    );
    let again = rig::delivery(&fifo, 0);
    let let_go = again.clone().next_hop();
    let record = rig::record(&let_go, Disposition::Complete);
    broker.publish_attempt(&record).await.unwrap();
    // The record is older than what lies in the lane.
    let moment = posthorn_wiring::now();
    eventually(SOON, "the clock moves on", || async {
        posthorn_wiring::now() > moment
    })
    .await
    .unwrap();
    let appended = store.append(&lane, &again, Patience::WORKER).await;
    appended.unwrap();
    store.put_token(&lane).await.unwrap();
    rig.line().await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    eventually(SOON, "the lane is empty", || async {
        store.depth(&lane).await.unwrap() == 0
    })
    .await
    .unwrap();
    assert_eq!(receiver.count(), 1);
}
