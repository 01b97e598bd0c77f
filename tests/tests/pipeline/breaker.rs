//! One probe, whoever asks; nothing while it is open; nobody stormed when it closes.

use posthorn_broker::{BucketName, LaneStore, StreamName, Wire};
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{
    BreakerState, DeadLetter, Delivery, Disposition, LaneId, LaneReason, UnixMillis,
};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{self, Rig, breaker, endpoint, retry};
use posthorn_tests::wait::eventually;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(30);
const COOLDOWN: Duration = Duration::from_millis(150);

async fn three_dispatchers() -> Rig {
    let mut rig = Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    for _ in 0..3 {
        rig.dispatcher(posthorn_dispatcher::Settings::default())
            .await
            .unwrap();
    }
    rig
}

async fn state(rig: &Rig, endpoint: &posthorn_delivery::Endpoint) -> BreakerState {
    let bucket = rig.broker().bucket(BucketName::Breakers).await.unwrap();
    bucket
        .get(endpoint.id.as_str())
        .await
        .unwrap()
        .map(|found| found.value)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_01_an_endpoint_that_fails_each_probe_gets_one_request_per_cooldown() {
    let rig = three_dispatchers().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/dead", Reply::status(503));
    let mut dead = endpoint("acme", &receiver.url("/dead"));
    dead.breaker = breaker(5, COOLDOWN);
    // 12 deliveries of 9 attempts are 108 requests: the few that open it, and over 100 probes.
    dead.retry = retry(Duration::from_millis(20), 9);
    dead.max_in_flight = 3;
    rig.put(&dead).await.unwrap();
    rig.publish("acme", "a", 12).await.unwrap();
    let broker = rig.broker();
    let given_up = || async { broker.stream_messages(StreamName::Dlq).await.unwrap() == 12 };
    eventually(Duration::from_secs(120), "all are given up", given_up)
        .await
        .unwrap();
    let mut at: Vec<_> = receiver
        .requests_to("/dead")
        .iter()
        .map(|request| request.at())
        .collect();
    at.sort();
    let probes = usize::try_from(state(&rig, &dead).await.failed_probes).unwrap();
    let opening = at.len() - probes;
    assert_eq!(at.len(), 108);
    // The threshold, and what the three dispatchers had in flight at that moment.
    assert!(
        (5..=5 + 3).contains(&opening),
        "{opening} requests before it opened"
    );
    assert!(probes >= 100, "{probes} cooldowns ended in a probe");
    let apart = at[opening - 1..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .min()
        .unwrap();
    assert!(
        apart >= COOLDOWN - Duration::from_millis(10),
        "two probes {apart:?} apart"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_01_a_recovering_receiver_sees_one_request_until_the_probe_is_answered() {
    let rig = three_dispatchers().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/slow", (0..5).map(|_| Reply::status(503)));
    receiver.answer("/slow", Reply::ok().delay(Duration::from_secs(2)));
    let mut slow = endpoint("acme", &receiver.url("/slow"));
    slow.breaker = breaker(5, Duration::from_millis(500));
    slow.max_in_flight = 3;
    rig.put(&slow).await.unwrap();
    rig.publish("acme", "a", 200).await.unwrap();
    eventually(SOON, "the breaker is half open", || async {
        state(&rig, &slow).await.phase == Phase::HalfOpen
    })
    .await
    .unwrap();
    let begun = receiver.requests_to("/slow").len();
    eventually(SOON, "the probe closed it", || async {
        state(&rig, &slow).await.phase == Phase::Closed
    })
    .await
    .unwrap();
    let probing = receiver.requests_to("/slow").len() - begun;
    assert!(
        probing <= 1 + 3,
        "{probing} requests while it was half open"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_04_what_an_open_breaker_held_is_delivered_at_its_first_attempt() {
    let rig = three_dispatchers().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", (0..2).map(|_| Reply::status(500)));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.breaker = breaker(2, Duration::from_secs(2));
    target.retry = retry(Duration::from_millis(10), 5);
    target.max_in_flight = 1;
    rig.put(&target).await.unwrap();
    rig.publish("acme", "first", 1).await.unwrap();
    eventually(SOON, "it is open", || async {
        state(&rig, &target).await.phase == Phase::Open
    })
    .await
    .unwrap();
    rig.publish("acme", "a", 100).await.unwrap();
    let got = receiver
        .wait_for(2 + 101, Duration::from_secs(60))
        .await
        .unwrap();
    let held = got[2..]
        .iter()
        .filter(|request| request.header("webhook-attempt") == Some("1"))
        .count();
    assert_eq!(held, 100);
    let letters = rig.broker().stream_messages(StreamName::Dlq).await.unwrap();
    assert_eq!(letters, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cb_03_late_failures_do_not_move_the_state() {
    let rig = three_dispatchers().await;
    let receiver = Receiver::start().await.unwrap();
    // Twenty slow requests are in flight when the breaker trips; they fail one by one later.
    receiver.script(
        "/late",
        (0..20_u64).map(|n| {
            let delay = if n < 2 { 0 } else { 400 + n * 60 };
            Reply::status(500).delay(Duration::from_millis(delay))
        }),
    );
    let mut late = endpoint("acme", &receiver.url("/late"));
    late.breaker = breaker(2, Duration::from_secs(3));
    late.max_in_flight = 60;
    rig.put(&late).await.unwrap();
    rig.publish("acme", "a", 20).await.unwrap();
    eventually(SOON, "it is open", || async {
        state(&rig, &late).await.phase == Phase::Open
    })
    .await
    .unwrap();
    let opened = state(&rig, &late).await;
    let twenty = || async {
        receiver
            .requests_to("/late")
            .iter()
            .filter(|r| r.answered().is_some())
            .count()
            >= 20
    };
    eventually(SOON, "all of them have failed", twenty)
        .await
        .unwrap();
    let after = state(&rig, &late).await;
    assert_eq!(
        (after.open_until, after.generation),
        (opened.open_until, opened.generation)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn held_five_times_within_the_dedupe_window_it_is_delivered_once() {
    let mut rig = Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    let held = endpoint("acme", "http://127.0.0.1:9/hook");
    rig.put(&held).await.unwrap();
    let lanes = posthorn_lanes::Lanes::open(&rig.broker(), CancellationToken::new())
        .await
        .unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    // In the place of a dispatcher: each time it is let go it is parked again, five times.
    let (sender, mut released) = tokio::sync::mpsc::channel(16);
    let stop = CancellationToken::new();
    let pump = rig
        .broker()
        .pump_deliveries(Arc::new(Semaphore::new(16)), 16, stop.clone());
    tokio::spawn(pump.run(move |pumped| {
        let _ = sender.try_send(pumped);
    }));
    let mut hops = Vec::new();
    for round in 0..6 {
        let pumped = tokio::time::timeout(SOON, released.recv()).await;
        let pumped = pumped.expect("it is let go again").unwrap();
        let delivery = Delivery::from_wire(pumped.message.payload()).unwrap();
        hops.push(delivery.hop);
        if round < 5 {
            let why = posthorn_lanes::Why::from(LaneReason::InFlight);
            lanes.park(delivery, &held, why).await.unwrap();
        }
        pumped.message.ack().await.unwrap();
    }
    assert_eq!(hops, [0, 2, 4, 6, 8, 10]);
    let broker = rig.broker();
    let quiet = || async {
        broker.stream_messages(StreamName::Lanes).await.unwrap() == 0
            && broker.stream_messages(StreamName::Tokens).await.unwrap() == 0
            && broker
                .stream_messages(StreamName::Deliveries)
                .await
                .unwrap()
                == 0
    };
    eventually(SOON, "nothing waits", quiet).await.unwrap();
    assert!(released.try_recv().is_err(), "and nothing came twice");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_stays_down_is_disabled_and_its_events_are_kept() {
    let mut rig = Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    let settings = posthorn_dispatcher::Settings {
        breaker_disable_after: Duration::from_secs(2),
        ..posthorn_dispatcher::Settings::default()
    };
    rig.dispatcher(settings).await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/dead", Reply::status(503));
    let mut dead = endpoint("acme", &receiver.url("/dead"));
    dead.breaker = breaker(1, Duration::from_millis(300));
    dead.retry = retry(Duration::from_millis(10), 64);
    rig.put(&dead).await.unwrap();
    rig.publish("acme", "a", 3).await.unwrap();
    let bucket = rig
        .broker()
        .bucket::<posthorn_delivery::Endpoint>(BucketName::Endpoints)
        .await
        .unwrap();
    let key = format!("acme.{}", dead.id);
    let disabled = || async {
        bucket
            .get(&key)
            .await
            .unwrap()
            .unwrap()
            .value
            .disabled
            .is_some()
    };
    eventually(SOON, "it is disabled", disabled).await.unwrap();
    let letters = rig
        .broker()
        .log::<DeadLetter>(StreamName::Dlq)
        .await
        .unwrap();
    assert_eq!(
        letters.read("posthorn.dlq.>", 1, 10).await.unwrap().items,
        []
    );
    let waiting = || async {
        rig.broker()
            .stream_messages(StreamName::Lanes)
            .await
            .unwrap()
            == 3
    };
    eventually(SOON, "its events wait", waiting).await.unwrap();
    receiver.answer("/dead", Reply::ok());
    let mut enabled = bucket.get(&key).await.unwrap().unwrap().value;
    enabled.disabled = None;
    enabled.target_epoch += 1;
    rig.put(&enabled).await.unwrap();
    let lanes = LaneStore::open(&rig.broker()).await.unwrap();
    lanes.renew_token(&LaneId::live(&dead.id)).await.unwrap();
    let delivered = || async {
        receiver
            .requests_to("/dead")
            .iter()
            .filter(|r| r.answered() == Some(200))
            .count()
            == 3
    };
    eventually(SOON, "resumed, they arrive", delivered)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_recovered_once_is_cut_off_when_it_dies_again() {
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500)]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.breaker = breaker(3, Duration::from_secs(30));
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for(2, SOON).await.unwrap();
    let reset = || async { state(&rig, &target).await.consecutive_failures == 0 };
    eventually(SOON, "the success has reset the count", reset)
        .await
        .unwrap();
    receiver.answer("/hook", Reply::status(500));
    rig.publish("acme", "b", 5).await.unwrap();
    let open = || async { state(&rig, &target).await.phase == Phase::Open };
    eventually(SOON, "it is open", open).await.unwrap();
}

/// Whoever made the attempt before died between its record and its acknowledgement. Made again,
/// it is what claims the probe; its record is not written a second time.
#[tokio::test(flavor = "multi_thread")]
async fn cb_01_a_probe_whose_attempt_was_recorded_before_is_not_waited_for() {
    let mut rig = Rig::start().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let mut down = endpoint("acme", &receiver.url("/down"));
    down.breaker = breaker(2, COOLDOWN);
    rig.put(&down).await.unwrap();
    let broker = rig.broker();
    let delivery = rig::delivery(&down, 1);
    let recorded = rig::record(&delivery, Disposition::Complete);
    broker.publish_attempt(&recorded).await.unwrap();
    let open = BreakerState {
        phase: Phase::Open,
        generation: 7,
        opened_at: UnixMillis(1),
        open_until: UnixMillis(2),
        ..BreakerState::default()
    };
    let breakers = broker.bucket(BucketName::Breakers).await.unwrap();
    breakers.put(down.id.as_str(), &open).await.unwrap();
    broker.publish_delivery(&delivery).await.unwrap();
    rig.dispatcher(posthorn_dispatcher::Settings::default())
        .await
        .unwrap();
    eventually(SOON, "it has been sent", || async {
        broker
            .stream_messages(StreamName::Deliveries)
            .await
            .unwrap()
            == 0
    })
    .await
    .unwrap();
    assert_eq!(receiver.count(), 1);
    assert_eq!(state(&rig, &down).await.phase, Phase::Closed);
}
