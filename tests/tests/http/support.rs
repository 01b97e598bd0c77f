//! What the tests of the HTTP side share.

use async_nats::{HeaderMap, jetstream};
use bytes::Bytes;
use posthorn_broker::StreamName;
use posthorn_delivery::{Attempt, DeadLetter, Endpoint};
use posthorn_dispatcher::Settings;
use posthorn_tests::rig::Rig;
use posthorn_tests::wait::{eventually, eventually_some};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(30);

/// A line whose dispatcher has these settings.
pub async fn line_with(settings: Settings) -> Rig {
    let mut rig = Rig::start().await.unwrap();
    rig.scheduler(posthorn_scheduler::Settings::default())
        .await
        .unwrap();
    rig.dispatcher(settings).await.unwrap();
    rig
}

pub async fn line() -> Rig {
    line_with(Settings::default()).await
}

/// Publishes one event of `tenant` with these bytes.
pub async fn send(rig: &Rig, tenant: &str, payload: impl Into<Bytes>) {
    send_as(rig, tenant, "application/json", payload).await;
}

/// Publishes one event of `tenant` with these bytes of this media type.
pub async fn send_as(rig: &Rig, tenant: &str, content_type: &str, payload: impl Into<Bytes>) {
    let context = jetstream::new(rig.nats.client().await.unwrap());
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", content_type);
    let subject = format!("posthorn.events.{tenant}.order.paid");
    let sent = context.publish_with_headers(subject, headers, payload.into());
    sent.await.unwrap().await.unwrap();
}

/// Every attempt on record.
pub async fn attempts(rig: &Rig) -> Vec<Attempt> {
    let broker = rig.broker();
    let log = broker.log::<Attempt>(StreamName::Attempts).await.unwrap();
    let page = log.read("posthorn.attempts.>", 1, 1_000).await.unwrap();
    page.items.into_iter().map(|logged| logged.value).collect()
}

/// The attempts at `endpoint`, once there are `count`.
pub async fn attempts_at(rig: &Rig, endpoint: &Endpoint, count: usize) -> Vec<Attempt> {
    let what = format!("{count} attempts are on record");
    eventually_some(SOON, &what, || async {
        let mut all = attempts(rig).await;
        all.retain(|attempt| attempt.endpoint_id == endpoint.id);
        (all.len() >= count).then_some(all)
    })
    .await
    .unwrap()
}

/// Every letter, once there are `count`.
pub async fn letters(rig: &Rig, count: usize) -> Vec<DeadLetter> {
    let broker = rig.broker();
    let log = broker.log::<DeadLetter>(StreamName::Dlq).await.unwrap();
    eventually_some(SOON, "the letters are there", || async {
        let page = log.read("posthorn.dlq.>", 1, 1_000).await.ok()?;
        let letters: Vec<_> = page.items.into_iter().map(|logged| logged.value).collect();
        (letters.len() >= count).then_some(letters)
    })
    .await
    .unwrap()
}

/// Waits until nothing is left to be done.
pub async fn settled(rig: &Rig) {
    let broker = rig.broker();
    let idle = || async {
        let mut left = 0;
        for stream in [
            StreamName::Events,
            StreamName::Deliveries,
            StreamName::Retries,
        ] {
            left += broker.stream_messages(stream).await.unwrap();
        }
        left == 0
    };
    eventually(SOON, "everything is settled", idle)
        .await
        .unwrap();
}

/// The most memory that a process has had, in bytes.
pub fn peak_memory(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap();
    kib * 1024
}
