//! Connections: refused, reset, gone stale.

use crate::raw::{self, Raw};
use crate::support::{SOON, attempts_at, line, send, settled};
use posthorn_broker::BucketName;
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Attempt, BreakerState, Disposition, Endpoint, Failure};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, breaker, endpoint};
use posthorn_tests::wait::eventually;
use std::time::Duration;

/// Number and result of each attempt.
fn story(recorded: &[Attempt]) -> Vec<(u32, AttemptResult)> {
    recorded.iter().map(|a| (a.number, a.result)).collect()
}

async fn breaker_is_untouched(rig: &Rig, target: &Endpoint) -> bool {
    let broker = rig.broker();
    let bucket = broker.bucket::<BreakerState>(BucketName::Breakers).await;
    let key = target.id.to_string();
    bucket.unwrap().get(&key).await.unwrap().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn http_03_a_stale_connection_is_repeated_at_once_and_costs_nothing() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok(), Reply::close()]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.breaker = breaker(1, Duration::from_secs(60));
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    settled(&rig).await;
    send(&rig, "acme", "{}").await;
    let recorded = attempts_at(&rig, &target, 3).await;
    let ok = AttemptResult::Status(200);
    let stale = AttemptResult::Error(Failure::StaleConnection);
    assert_eq!(story(&recorded), [(1, ok), (1, stale), (1, ok)]);
    let got = receiver.requests();
    assert_eq!(got[0].connection(), got[1].connection());
    assert_eq!(got[1].webhook_id(), got[2].webhook_id());
    assert_eq!(got[2].header("webhook-attempt"), Some("1"));
    assert!(got[2].at() - got[1].at() < Duration::from_secs(2));
    assert!(breaker_is_untouched(&rig, &target).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_03_a_receiver_that_always_closes_silently_gets_every_event_and_opens_no_breaker() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hook", Reply::ok().close_after());
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.breaker = breaker(1, Duration::from_secs(60));
    rig.put(&target).await.unwrap();
    for _ in 0..30 {
        send(&rig, "acme", "{}").await;
    }
    receiver.wait_for(30, SOON).await.unwrap();
    settled(&rig).await;
    let recorded = attempts_at(&rig, &target, 30).await;
    assert!(recorded.iter().all(|attempt| attempt.number == 1));
    assert!(breaker_is_untouched(&rig, &target).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_connection_that_is_lost_is_the_receivers_failure() {
    let rig = line().await;
    let cut = Raw::start(|stream| async move { raw::reset(stream) }).await;
    let closed = Raw::start(|stream| async move { drop(stream) }).await;
    for server in [&cut, &closed] {
        let target = endpoint("acme", &server.url());
        rig.put(&target).await.unwrap();
        send(&rig, "acme", "{}").await;
        let recorded = attempts_at(&rig, &target, 2).await;
        let reset = AttemptResult::Error(Failure::Reset);
        assert_eq!(story(&recorded)[..2], [(1, reset), (2, reset)]);
        rig.remove(&target).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_07_refused_connections_are_tried_again_until_the_receiver_is_up() {
    let rig = line().await;
    let mut receiver = Receiver::start().await.unwrap();
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    receiver.stop().await;
    send(&rig, "acme", "{}").await;
    let refused = attempts_at(&rig, &target, 3).await;
    let failed = AttemptResult::Error(Failure::Connect);
    assert_eq!(
        story(&refused)[..3],
        [(1, failed), (2, failed), (3, failed)]
    );
    receiver.restart().await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    settled(&rig).await;
    let recorded = attempts_at(&rig, &target, 4).await;
    assert_eq!(recorded.last().unwrap().disposition, Disposition::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_03_a_connection_that_lay_idle_as_long_as_servers_allow_is_not_used_again() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    send(&rig, "acme", "{}").await;
    let first = receiver.wait_for(1, SOON).await.unwrap()[0].at();
    send(&rig, "acme", "{}").await;
    let second = receiver.wait_for(2, SOON).await.unwrap()[1].at();
    assert!(second - first < Duration::from_secs(3), "too slow to tell");
    let idle = || std::future::ready(second.elapsed() > Duration::from_millis(4_500));
    eventually(SOON, "the connection is old", idle)
        .await
        .unwrap();
    send(&rig, "acme", "{}").await;
    let got = receiver.wait_for(3, SOON).await.unwrap();
    let connections: Vec<_> = got.iter().map(|r| r.connection()).collect();
    assert_eq!(connections, [1, 1, 2]);
}
