//! Whether what waits comes when it should: under a flow of retries, after an outage, spread
//! by jitter. One at a time, because each loads the machine.
#![allow(clippy::unwrap_used, missing_docs)]
// The figures are part of what a run tells.
#![allow(clippy::print_stdout)]

use posthorn_broker::{Broker, Patience, StreamName, Waiting, Wire};
use posthorn_delivery::delivery::ReleaseMark;
use posthorn_delivery::retry::{Jitter, Schedule};
use posthorn_delivery::{
    Attempt, Delivery, Disposition, EndpointId, EventId, EventType, RetryPolicy, Tenant, UnixMillis,
};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, endpoint, retry};
use posthorn_tests::stats::percentile;
use posthorn_tests::wait::eventually;
use rand::RngExt;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn waiting(event: u128, not_before: UnixMillis) -> Waiting {
    Waiting::Delivery(Box::new(Delivery {
        tenant: Tenant::parse("acme").unwrap(),
        event_id: EventId::from_bits(event),
        event_type: EventType::parse("a").unwrap(),
        endpoint_id: EndpointId::from_bits(1),
        payload: vec![b'x'; 256].into(),
        content_type: "text/plain".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        accepted_at: not_before,
        event_seq: 1,
        config_revision: 0,
        attempt: 2,
        hop: 1,
        stale_retries: 0,
        release: ReleaseMark::default(),
        not_before,
        expires_at: UnixMillis(i64::MAX),
        held: Duration::ZERO,
        pauses_known: None,
        replay: None,
        test: false,
        history: Vec::new(),
    }))
}

/// One release: which event, how late (negative: early) against the time that its message
/// carried last, and when.
#[derive(Clone, Copy)]
struct Release {
    event: u128,
    late_ms: i64,
    at: UnixMillis,
}

/// Takes the place of the dispatchers and notes what is released when.
fn releases(broker: &Broker, stop: &CancellationToken) -> Arc<Mutex<Vec<Release>>> {
    let seen: Arc<Mutex<Vec<Release>>> = Arc::default();
    let pump = broker.pump_deliveries(Arc::new(Semaphore::new(2_000)), 1_000, stop.clone());
    let log = seen.clone();
    tokio::spawn(pump.run(move |pumped| {
        let at = posthorn_wiring::now();
        let delivery = Delivery::from_wire(pumped.message.payload()).unwrap();
        let event = u128::from_str_radix(&delivery.event_id.as_str()[4..], 16).unwrap();
        log.lock().unwrap().push(Release {
            event,
            late_ms: at.0 - delivery.not_before.0,
            at,
        });
        tokio::spawn(pumped.work(|message| async move { message.ack().await.unwrap_or(()) }));
    }));
    seen
}

fn distinct(seen: &Mutex<Vec<Release>>) -> usize {
    seen.lock()
        .unwrap()
        .iter()
        .map(|release| release.event)
        .collect::<HashSet<_>>()
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_retries_a_second_come_on_time_through_two_schedulers() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut rig = Rig::start().await.unwrap();
    for _ in 0..2 {
        rig.scheduler(posthorn_scheduler::Settings::default())
            .await
            .unwrap();
    }
    let broker = rig.broker();
    let stop = CancellationToken::new();
    let seen = releases(&broker, &stop);
    let (rate, seconds) = (2_000_u32, 20);
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let mut publishing = tokio::task::JoinSet::new();
    let mut event = 0;
    for _ in 0..seconds * 100 {
        tick.tick().await;
        for _ in 0..rate / 100 {
            event += 1;
            let wait = Duration::from_millis(rand::rng().random_range(4_000..=6_000));
            let (broker, now) = (broker.clone(), posthorn_wiring::now());
            let next = waiting(event, now + wait);
            publishing.spawn(async move {
                broker
                    .publish_waiting(&next, Broker::near(), now, Patience::WORKER)
                    .await
                    .unwrap();
            });
        }
    }
    publishing.join_all().await;
    let all = usize::try_from(event).unwrap();
    eventually(Duration::from_secs(60), "all are released", || async {
        distinct(&seen) == all
    })
    .await
    .unwrap();
    stop.cancel();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), all, "none was released twice");
    let earliest = seen.iter().map(|release| release.late_ms).min().unwrap();
    assert!(earliest >= 0, "one came {earliest} ms early");
    let late: Vec<Duration> = seen
        .iter()
        .map(|release| Duration::from_millis(release.late_ms.unsigned_abs()))
        .collect();
    let (p50, p99) = (
        percentile(&late, 50.0).unwrap(),
        percentile(&late, 99.0).unwrap(),
    );
    println!("lateness of {all} retries at {rate}/s: p50 {p50:?}, p99 {p99:?}");
    assert!(p99 < Duration::from_millis(500), "p50 {p50:?}, p99 {p99:?}");
}

/// What a debug build can attempt beside its receiver on two cores, and what a release build is
/// asked for.
const FAILING_PER_SECOND: u32 = if cfg!(debug_assertions) { 400 } else { 2_000 };

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_fail_come_back_on_time_through_the_whole_line() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut rig = Rig::start().await.unwrap();
    for _ in 0..2 {
        rig.scheduler(posthorn_scheduler::Settings::default())
            .await
            .unwrap();
    }
    rig.dispatcher(posthorn_dispatcher::Settings::default())
        .await
        .unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_by("/hook", |request| match request.header("webhook-attempt") {
        Some("1") => Reply::status(500),
        _ => Reply::ok(),
    });
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = target.retry.parts().clone();
    parts.schedule = Schedule::Ladder(vec![Duration::from_secs(4)]);
    parts.jitter = Jitter::Upward { percent: 50 };
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    let seconds = 20;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..seconds * 10 {
        tick.tick().await;
        let batch = usize::try_from(FAILING_PER_SECOND / 10).unwrap();
        rig.publish("acme", "a", batch).await.unwrap();
    }
    let all = u64::from(FAILING_PER_SECOND) * seconds;
    let broker = rig.broker();
    let done = || async { broker.stream_messages(StreamName::Attempts).await.unwrap() >= 2 * all };
    eventually(Duration::from_secs(60), "all are attempted twice", done)
        .await
        .unwrap();
    let (due, came) = attempts(&broker).await;
    let late: Vec<i64> = came
        .iter()
        .filter_map(|(id, at)| Some(at.0 - due.get(id)?.0))
        .collect();
    assert_eq!(
        (late.len() as u64, receiver.count() as u64),
        (all, 2 * all),
        "none lost, none twice"
    );
    let earliest = late.iter().min().unwrap();
    assert!(*earliest >= 0, "one came {earliest} ms early");
    let late: Vec<Duration> = late
        .iter()
        .map(|ms| Duration::from_millis(ms.unsigned_abs()))
        .collect();
    let (p50, p99) = (
        percentile(&late, 50.0).unwrap(),
        percentile(&late, 99.0).unwrap(),
    );
    println!(
        "lateness of {all} failing deliveries at {FAILING_PER_SECOND}/s: p50 {p50:?}, p99 {p99:?}"
    );
    assert!(p99 < Duration::from_millis(500), "p50 {p50:?}, p99 {p99:?}");
}

/// When each delivery was to be attempted again, and when it was.
async fn attempts(broker: &Broker) -> (Times, Times) {
    let log = broker.log::<Attempt>(StreamName::Attempts).await.unwrap();
    let (mut due, mut came) = (Times::new(), Times::new());
    let mut from = 1;
    loop {
        let page = log.read("posthorn.attempts.>", from, 1_000).await.unwrap();
        let Some(last) = page.items.last() else {
            return (due, came);
        };
        from = last.sequence + 1;
        for attempt in page.items.into_iter().map(|logged| logged.value) {
            match attempt.disposition {
                Disposition::Retry { not_before, .. } => due.insert(attempt.event_id, not_before),
                _ => came.insert(attempt.event_id, attempt.at),
            };
        }
    }
}

type Times = HashMap<EventId, UnixMillis>;

#[tokio::test(flavor = "multi_thread")]
async fn what_fell_due_while_the_broker_was_away_is_released_at_the_pacers_rate() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut rig = Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    let broker = rig.broker();
    let stop = CancellationToken::new();
    let seen = releases(&broker, &stop);
    let now = posthorn_wiring::now();
    let mut publishing = tokio::task::JoinSet::new();
    let due_by = now + Duration::from_secs(25);
    for event in 1..=5_000 {
        let due = now + Duration::from_millis(rand::rng().random_range(12_000..=25_000));
        let (broker, next) = (broker.clone(), waiting(event, due));
        publishing.spawn(async move {
            broker
                .publish_waiting(&next, Broker::near(), now, Patience::WORKER)
                .await
                .unwrap();
        });
    }
    publishing.join_all().await;
    let parked = || async {
        broker
            .near_backlog()
            .await
            .is_ok_and(|(_, parked)| parked == 5_000)
    };
    eventually(Duration::from_secs(10), "all are parked", parked)
        .await
        .unwrap();
    rig.nats.kill().await.unwrap();
    assert_eq!(distinct(&seen), 0, "nothing was due before the outage");
    let over = || async { posthorn_wiring::now() >= due_by + Duration::from_secs(2) };
    eventually(Duration::from_secs(60), "the outage is over", over)
        .await
        .unwrap();
    rig.nats.restart().await.unwrap();
    let all = || async { distinct(&seen) == 5_000 };
    eventually(Duration::from_secs(90), "all are released", all)
        .await
        .unwrap();
    stop.cancel();
    let seen = seen.lock().unwrap().clone();
    let early = seen.iter().map(|release| -release.late_ms).max().unwrap();
    assert!(early <= 1_000, "one came {early} ms early");
    let first = seen.iter().map(|release| release.at).min().unwrap();
    let last = seen.iter().map(|release| release.at).max().unwrap();
    let took = last.since(first);
    println!(
        "5,000 overdue released over {took:?}, {} of them twice",
        seen.len() - 5_000
    );
    assert!(took >= Duration::from_secs(8), "all within {took:?}");
    let fullest = (0..took.as_secs() + 1)
        .map(|second| {
            seen.iter()
                .filter(|release| release.at.since(first).as_secs() == second)
                .count()
        })
        .max()
        .unwrap();
    assert!(fullest <= 750, "{fullest} in one second");
}

#[tokio::test(flavor = "multi_thread")]
async fn bo_05_jitter_spreads_what_failed_together() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    for n in 0..100 {
        let path = format!("/{n}");
        receiver.answer_by(&path, |request| match request.header("webhook-attempt") {
            Some("1") => Reply::status(500),
            _ => Reply::ok(),
        });
        let mut target = endpoint("acme", &receiver.url(&path));
        target.retry = retry(Duration::from_secs(20), 2);
        rig.put(&target).await.unwrap();
    }
    rig.publish("acme", "a", 20).await.unwrap();
    let broker = rig.broker();
    let done = || async { broker.stream_messages(StreamName::Attempts).await.unwrap() == 4_000 };
    eventually(Duration::from_secs(90), "all are delivered", done)
        .await
        .unwrap();
    let requests = receiver.requests();
    let retries: Vec<_> = requests
        .iter()
        .filter(|request| request.header("webhook-attempt") == Some("2"))
        .collect();
    assert_eq!(retries.len(), 2_000);
    let first_failures = requests
        .iter()
        .filter(|r| r.header("webhook-attempt") == Some("1"));
    let begun = first_failures.map(|request| request.at()).max().unwrap();
    let mut seconds = [0_u32; 24];
    for retry in retries {
        let after = retry.at().saturating_duration_since(begun).as_secs();
        seconds[usize::try_from(after).unwrap().min(23)] += 1;
    }
    println!("arrivals per second: {seconds:?}");
    // 2,000 over 20 s: a mean of 100 a second.
    assert!(seconds.iter().skip(1).all(|n| *n <= 150), "{seconds:?}");
}
