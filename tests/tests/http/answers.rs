//! Answers: what counts, what does not, and what they may cost.

use crate::support::{SOON, attempts, attempts_at, letters, line, send, settled};
use posthorn_broker::{BucketName, StreamName};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{BreakerState, Disposition, Reason};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{breaker, endpoint};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn http_01_ssrf_07_a_redirect_is_a_failure_and_is_never_followed() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let inside = Receiver::start().await.unwrap();
    let targets = [
        (301, receiver.url("/landing")),
        (302, "http://169.254.169.254/latest/meta-data/".to_owned()),
        (303, receiver.url("/landing")),
        (307, inside.url("/admin")),
        (308, inside.url("/admin")),
    ];
    let mut endpoints = Vec::new();
    for (status, location) in &targets {
        let path = format!("/{status}");
        receiver.script(&path, [Reply::status(*status).header("location", location)]);
        let target = endpoint("acme", &receiver.url(&path));
        rig.put(&target).await.unwrap();
        endpoints.push((*status, path, target));
    }
    send(&rig, "acme", "{\"n\":1}").await;
    for (status, path, target) in &endpoints {
        let got = receiver.wait_for_path(path, 2, SOON).await.unwrap();
        assert!(
            got.iter()
                .all(|r| r.method() == "POST" && &r.body()[..] == b"{\"n\":1}")
        );
        let recorded = attempts_at(&rig, target, 2).await;
        assert_eq!(recorded[0].result, AttemptResult::Status(*status));
        assert!(matches!(
            recorded[0].disposition,
            Disposition::Retry {
                same_attempt: false,
                ..
            }
        ));
    }
    settled(&rig).await;
    assert_eq!(receiver.requests_to("/landing").len(), 0);
    assert_eq!(inside.count(), 0, "what is inside was called");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_13_an_early_413_is_a_413_every_time() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_early("/hook", Reply::status(413).body("too large"));
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    for n in 0..20_u8 {
        send(&rig, "acme", vec![b'a' + n; 900 * 1024]).await;
    }
    let letters = letters(&rig, 20).await;
    let reasons: Vec<_> = letters
        .iter()
        .map(|l| {
            (
                l.reason,
                l.history.iter().map(|a| a.result).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert!(
        reasons
            .iter()
            .all(|(reason, results)| *reason == Reason::PermanentStatus
                && *results == [AttemptResult::Status(413)]),
        "{reasons:?}"
    );
}
