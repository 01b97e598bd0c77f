//! Rotating a secret, as a receiver sees it.

use crate::support::{SOON, Town, shared, text};
use posthorn_signing::{Secret, Verifier};
use posthorn_tests::receiver::Received;
use posthorn_tests::wait::eventually_some;
use serde_json::json;
use std::time::{Duration, Instant};

/// Whether a receiver that knows `secret` takes this request.
pub fn verifies(got: &Received, secret: &str) -> bool {
    let now = i64::try_from(got.unix_ms() / 1_000).unwrap();
    let header = |name| got.header(name).unwrap();
    Verifier::new([Secret::parse(secret).unwrap()])
        .verify(
            header("webhook-id"),
            header("webhook-timestamp"),
            header("webhook-signature"),
            got.body(),
            now,
        )
        .is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn sig_04_old_and_new_verify_during_the_overlap_and_only_new_after() {
    let _machine = shared().await;
    let town = Town::start().await;
    let document = json!({"url": town.receiver.url("/hook"), "breaker": null});
    let made = town.api.create_endpoint("acme", &document).await.unwrap();
    let old = text(&made["secret"]);
    town.publish("acme", "{}").await;
    let got = town.got("/hook", 1).await;
    assert!(verifies(&got[0], &old));

    let path = format!(
        "/v1/tenants/acme/endpoints/{}/secret/rotate",
        text(&made["id"])
    );
    let overlap = Duration::from_secs(5);
    let asked = Instant::now();
    let rotated = town.api.post(&path, &json!({"overlap": "5s"})).await;
    let rotated = rotated.unwrap().success().unwrap();
    let new = text(&rotated["secret"]);
    assert_ne!(old, new);
    let end_at_the_earliest = asked + overlap;
    town.publish("acme", "{}").await;
    let got = town.got("/hook", 2).await;
    if got[1].at() < end_at_the_earliest {
        assert!(verifies(&got[1], &old) && verifies(&got[1], &new));
        let signatures = got[1].header("webhook-signature").unwrap();
        assert_eq!(signatures.split(' ').count(), 2, "one for each secret");
    }
    // Events go out until one is signed by the new secret alone.
    let single = eventually_some(SOON, "the overlap ends", || async {
        let before = town.receiver.count();
        town.publish("acme", "{}").await;
        let got = town.got("/hook", before + 1).await;
        let last = got.last().unwrap().clone();
        (!verifies(&last, &old)).then_some(last)
    });
    let single = single.await.unwrap();
    assert!(single.at() >= end_at_the_earliest, "the overlap was kept");
    assert!(verifies(&single, &new));
    assert_eq!(
        single
            .header("webhook-signature")
            .unwrap()
            .split(' ')
            .count(),
        1
    );

    // At once, and twice within an overlap.
    let now = town
        .api
        .post(&path, &json!({"overlap": "0s"}))
        .await
        .unwrap();
    let newest = text(&now.success().unwrap()["secret"]);
    town.publish("acme", "{}").await;
    let count = town.receiver.count();
    let got = town.got("/hook", count.max(3)).await;
    let last = eventually_some(SOON, "the newest secret signs", || async {
        let got = town.receiver.requests();
        got.last().filter(|last| verifies(last, &newest)).cloned()
    });
    let last = last.await.unwrap();
    assert!(!verifies(&last, &new), "{} requests", got.len());
}
