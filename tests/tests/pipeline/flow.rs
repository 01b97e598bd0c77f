//! Delivered, signed, retried, given up.

use posthorn_signing::{Secret, Verifier};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, SECRET, endpoint};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_event_published_to_nats_arrives_signed() {
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    rig.publish("acme", "invoice.paid", 1).await.unwrap();
    let got = &receiver.wait_for(1, SOON).await.unwrap()[0];
    assert_eq!((got.method(), &got.body()[..]), ("POST", &b"{\"n\":0}"[..]));
    let now = i64::try_from(got.unix_ms() / 1_000).unwrap();
    let verifier = Verifier::new([Secret::parse(SECRET).unwrap()]);
    let header = |name| got.header(name).unwrap();
    verifier
        .verify(
            header("webhook-id"),
            header("webhook-timestamp"),
            header("webhook-signature"),
            got.body(),
            now,
        )
        .unwrap();
    assert_eq!(header("webhook-attempt"), "1");
    assert_eq!(header("idempotency-key"), header("webhook-id"));
    assert!(header("user-agent").starts_with("Posthorn/"));
}

#[tokio::test]
async fn a_receiver_that_fails_first_gets_the_same_event_again() {
    let mut rig = Rig::start().await.unwrap();
    rig.line().await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(503), Reply::status(500)]);
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    rig.publish("acme", "invoice.paid", 1).await.unwrap();
    let got = receiver.wait_for(3, SOON).await.unwrap();
    let attempts: Vec<_> = got
        .iter()
        .map(|request| request.header("webhook-attempt").unwrap())
        .collect();
    assert_eq!(attempts, ["1", "2", "3"]);
    assert!(
        got.iter()
            .all(|request| request.webhook_id() == got[0].webhook_id())
    );
}
