//! When it is tried again, when it is given up, and what is remembered of it.

use async_nats::jetstream;
use posthorn_broker::{BucketName, StreamName};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::retry::{Preset, RetryPolicyParts};
use posthorn_delivery::{Attempt, DeadLetter, Disposition, Endpoint, Reason, RetryPolicy};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, breaker, endpoint, retry};
use posthorn_tests::wait::{eventually, eventually_some};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

async fn line() -> (Rig, Receiver) {
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    (rig, Receiver::start().await.unwrap())
}

async fn letters(rig: &Rig, count: usize) -> Vec<DeadLetter> {
    let log = rig
        .broker()
        .log::<DeadLetter>(StreamName::Dlq)
        .await
        .unwrap();
    eventually_some(SOON, "the letters are there", || async {
        let page = log.read("posthorn.dlq.>", 1, 1_000).await.ok()?;
        (page.items.len() >= count)
            .then(|| page.items.into_iter().map(|logged| logged.value).collect())
    })
    .await
    .unwrap()
}

async fn attempts(rig: &Rig) -> Vec<Attempt> {
    let log = rig
        .broker()
        .log::<Attempt>(StreamName::Attempts)
        .await
        .unwrap();
    let page = log.read("posthorn.attempts.>", 1, 1_000).await.unwrap();
    page.items.into_iter().map(|logged| logged.value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_delivery_is_a_letter_with_every_attempt() {
    let (rig, receiver) = line().await;
    receiver.answer("/hook", Reply::status(500).body("the database is down"));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.retry = retry(Duration::from_millis(30), 4);
    rig.put(&target).await.unwrap();
    rig.publish("acme", "invoice.paid", 1).await.unwrap();
    let letter = &letters(&rig, 1).await[0];
    assert_eq!(
        (letter.reason, letter.event_type.as_str()),
        (Reason::Exhausted, "invoice.paid")
    );
    assert_eq!(&letter.payload[..], b"{\"n\":0}");
    let numbers: Vec<u32> = letter
        .history
        .iter()
        .map(|attempt| attempt.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert!(
        letter
            .history
            .iter()
            .all(|attempt| attempt.result == AttemptResult::Status(500))
    );
    let bodies = attempts(&rig).await;
    assert!(
        bodies
            .iter()
            .all(|attempt| &attempt.response_body[..] == b"the database is down")
    );
    assert_eq!(receiver.count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_refusal_is_not_repeated() {
    let (rig, receiver) = line().await;
    for status in [400, 404, 422] {
        let path = format!("/{status}");
        receiver.answer(&path, Reply::status(status));
        rig.put(&endpoint("acme", &receiver.url(&path)))
            .await
            .unwrap();
    }
    rig.publish("acme", "a", 1).await.unwrap();
    let letters = letters(&rig, 3).await;
    assert!(
        letters
            .iter()
            .all(|l| l.reason == Reason::PermanentStatus && l.history.len() == 1)
    );
    assert_eq!(receiver.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoints_own_permanent_statuses_replace_the_default() {
    let (rig, receiver) = line().await;
    receiver.script("/hook", [Reply::status(404)]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = target.retry.parts().clone();
    parts.permanent = Some(Vec::new());
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for(2, SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_rests_the_whole_endpoint_and_is_never_early() {
    let (rig, receiver) = line().await;
    receiver.script("/hook", [Reply::status(429).header("Retry-After", "3")]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.max_in_flight = 1;
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    let told = receiver.wait_for(1, SOON).await.unwrap()[0].at();
    rig.publish("acme", "a", 10).await.unwrap();
    let got = receiver.wait_for(12, SOON).await.unwrap();
    let early = got[1..]
        .iter()
        .map(|request| request.at() - told)
        .min()
        .unwrap();
    assert!(
        early >= Duration::from_secs(3),
        "a request {early:?} after the 429"
    );
    // The record of an attempt is written after its answer.
    let recorded = || async { attempts(&rig).await.len() >= 12 };
    eventually(SOON, "every attempt is recorded", recorded)
        .await
        .unwrap();
    assert_eq!(
        attempts(&rig).await.len(),
        12,
        "what was held spent no attempt"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ra_05_retry_after_zero_leaves_the_schedule_as_it_is() {
    let (rig, receiver) = line().await;
    receiver.answer("/hook", Reply::status(503).header("Retry-After", "0"));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = RetryPolicyParts::of(Preset::Exponential);
    parts.max_attempts = 5;
    parts.schedule = posthorn_delivery::retry::Schedule::Ladder(vec![Duration::from_millis(700)]);
    parts.jitter = posthorn_delivery::retry::Jitter::None;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    let got = receiver.wait_for(5, SOON).await.unwrap();
    let shortest = got
        .windows(2)
        .map(|pair| pair[1].at() - pair[0].at())
        .min()
        .unwrap();
    assert!(
        shortest >= Duration::from_millis(690),
        "{shortest:?} between two attempts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bo_03_a_retry_outlives_every_process() {
    let mut rig = Rig::start().await.unwrap();
    let first = rig
        .scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    let second = rig
        .dispatcher(posthorn_dispatcher::Settings::default())
        .await
        .unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500)]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = target.retry.parts().clone();
    parts.schedule = posthorn_delivery::retry::Schedule::Ladder(vec![Duration::from_secs(4)]);
    parts.jitter = posthorn_delivery::retry::Jitter::None;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    let failed = receiver.wait_for(1, SOON).await.unwrap()[0].at();
    // Until it is stored it is the first attempt that may come again, and that at once.
    let broker = rig.broker();
    let stored = || async { broker.stream_messages(StreamName::Retries).await.unwrap() == 1 };
    eventually(SOON, "the retry waits", stored).await.unwrap();
    first.trigger();
    second.trigger();
    rig.nats.kill().await.unwrap();
    rig.nats.restart().await.unwrap();
    rig.line().await.unwrap();
    let got = receiver.wait_for(2, SOON).await.unwrap();
    let waited = got[1].at() - failed;
    assert!(waited >= Duration::from_secs(4), "early: {waited:?}");
    assert!(waited < Duration::from_secs(16), "late: {waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passed_its_max_age_expires() {
    let (rig, receiver) = line().await;
    receiver.answer("/hook", Reply::status(500));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = target.retry.parts().clone();
    parts.max_age = Duration::from_secs(1);
    parts.max_attempts = 64;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    target.breaker = breaker(3, Duration::from_secs(5));
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    let letter = &letters(&rig, 1).await[0];
    assert_eq!(letter.reason, Reason::Expired);
    assert!(
        letter.died_at.since(letter.accepted_at) < Duration::from_secs(4),
        "it did not wait for the breaker"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_03_a_deleted_endpoint_gets_nothing_more_and_a_changed_url_counts_at_once() {
    let (rig, receiver) = line().await;
    receiver.answer("/old", Reply::status(500));
    let mut moved = endpoint("acme", &receiver.url("/old"));
    moved.retry = retry(Duration::from_millis(800), 30);
    let mut deleted = endpoint("acme", &receiver.url("/old"));
    deleted.retry = retry(Duration::from_millis(800), 30);
    rig.put(&moved).await.unwrap();
    rig.put(&deleted).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for(2, SOON).await.unwrap();
    moved.url = posthorn_delivery::endpoint::Hidden::new(receiver.url("/new"));
    moved.target_epoch = 1;
    rig.put(&moved).await.unwrap();
    rig.remove(&deleted).await.unwrap();
    receiver.wait_for_path("/new", 1, SOON).await.unwrap();
    let letter = &letters(&rig, 1).await[0];
    assert_eq!(letter.reason, Reason::EndpointDeleted);
    assert_eq!(letter.endpoint_id.as_ref(), Some(&deleted.id));
    let ended = |attempt: &Attempt| matches!(attempt.disposition, Disposition::Dead(_));
    assert!(attempts(&rig).await.iter().any(ended));
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_05_gone_disables_the_endpoint_and_fan_04_later_events_are_recorded_as_skipped() {
    let (rig, receiver) = line().await;
    receiver.script("/hook", [Reply::status(410)]);
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    assert_eq!(letters(&rig, 1).await[0].reason, Reason::Gone);
    let bucket = rig
        .broker()
        .bucket::<Endpoint>(BucketName::Endpoints)
        .await
        .unwrap();
    let key = format!("acme.{}", target.id);
    let gone = || async {
        bucket
            .get(&key)
            .await
            .unwrap()
            .unwrap()
            .value
            .disabled
            .is_some()
    };
    eventually(SOON, "it is disabled", gone).await.unwrap();
    rig.publish("acme", "b", 1).await.unwrap();
    let skipped = || async {
        attempts(&rig)
            .await
            .iter()
            .any(|a| a.disposition == Disposition::Skipped)
    };
    eventually(SOON, "the second is recorded as skipped", skipped)
        .await
        .unwrap();
    assert_eq!(receiver.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn js_17_what_is_no_event_is_a_letter_once_and_hurts_nobody() {
    let (rig, receiver) = line().await;
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    let context = jetstream::new(rig.nats.client().await.unwrap());
    let mut protobuf = async_nats::HeaderMap::new();
    protobuf.insert("Content-Type", "application/vnd.posthorn.event.v1+protobuf");
    let zeros = vec![0_u8; 900 * 1024];
    for payload in [&b"\xff\xff\xff"[..], b"", &zeros] {
        let sent = context.publish_with_headers(
            "posthorn.events.acme.a",
            protobuf.clone(),
            payload.to_vec().into(),
        );
        sent.await.unwrap().await.unwrap();
    }
    context
        .publish("posthorn.events.ACME.a", "{}".into())
        .await
        .unwrap()
        .await
        .unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    let letters = letters(&rig, 4).await;
    assert!(
        letters
            .iter()
            .all(|letter| letter.reason == Reason::InvalidEvent && !letter.detail.is_empty())
    );
    let broker = rig.broker();
    let settled = || async { broker.stream_messages(StreamName::Events).await.unwrap() == 0 };
    eventually(SOON, "none of them comes again", settled)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn js_01_a_thousand_long_retries_do_not_hold_up_a_healthy_event() {
    let (rig, receiver) = line().await;
    receiver.answer("/dead", Reply::status(500));
    let mut dead = endpoint("dead", &receiver.url("/dead"));
    dead.retry = retry(Duration::from_secs(290), 3);
    rig.put(&dead).await.unwrap();
    rig.put(&endpoint("acme", &receiver.url("/healthy")))
        .await
        .unwrap();
    rig.publish("dead", "a", 1_500).await.unwrap();
    receiver
        .wait_for_path("/dead", 1_500, Duration::from_secs(60))
        .await
        .unwrap();
    let begun = Instant::now();
    rig.publish("acme", "a", 1).await.unwrap();
    receiver.wait_for_path("/healthy", 1, SOON).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_event_goes_out_when_it_is_due() {
    let (rig, receiver) = line().await;
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    let context = jetstream::new(rig.nats.client().await.unwrap());
    let due = time::OffsetDateTime::now_utc() + Duration::from_secs(3);
    let mut headers = async_nats::HeaderMap::new();
    headers.insert(
        "Deliver-At",
        due.format(&time::format_description::well_known::Rfc3339)
            .unwrap(),
    );
    let begun = Instant::now();
    let sent = context.publish_with_headers("posthorn.events.acme.a", headers, "{}".into());
    sent.await.unwrap().await.unwrap();
    receiver.wait_for(1, SOON).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(2_990),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_due_in_hours_waits_in_the_calendar_and_comes_back() {
    let (rig, receiver) = line().await;
    receiver.answer("/hook", Reply::status(500));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = target.retry.parts().clone();
    parts.schedule = posthorn_delivery::retry::Schedule::Ladder(vec![Duration::from_secs(7_200)]);
    parts.jitter = posthorn_delivery::retry::Jitter::None;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    rig.publish("acme", "a", 1).await.unwrap();
    let broker = rig.broker();
    let waits = || async {
        broker
            .far_hours()
            .await
            .unwrap()
            .iter()
            .map(|(_, n)| n)
            .sum::<u64>()
            == 1
    };
    eventually(SOON, "it is in the calendar", waits)
        .await
        .unwrap();
    assert_eq!(broker.near_backlog().await.unwrap(), (0, 0));
}
