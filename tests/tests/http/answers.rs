//! Answers: what counts, what does not, and what they may cost.

use crate::raw::{self, Raw};
use crate::support::{SOON, attempts, attempts_at, letters, line, send, settled};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{Disposition, Failure, Reason};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::endpoint;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

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
async fn http_10_a_dripping_head_ends_at_the_timeout() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::ok().drip_head(Duration::from_millis(200))]);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.timeout = Duration::from_secs(1);
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    let recorded = attempts_at(&rig, &target, 2).await;
    assert_eq!(recorded[0].result, AttemptResult::Error(Failure::Timeout));
    assert!(
        (990..2_000).contains(&recorded[0].latency_ms),
        "{} ms",
        recorded[0].latency_ms
    );
    assert_eq!(recorded[1].disposition, Disposition::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_http_12_a_dripping_body_is_a_success_and_does_not_hold_its_slot() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let dripping = Reply::ok()
        .body("x".repeat(500))
        .drip_body(Duration::from_millis(200));
    receiver.answer("/hook", dripping);
    let mut target = endpoint("acme", &receiver.url("/hook"));
    target.timeout = Duration::from_secs(60);
    rig.put(&target).await.unwrap();
    let begun = Instant::now();
    send(&rig, "acme", "{}").await;
    let recorded = attempts_at(&rig, &target, 1).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(recorded[0].disposition, Disposition::Complete);
    settled(&rig).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_12_a_2xx_is_a_success_whatever_its_body_is() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let cut = Raw::start(|mut stream| async move {
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
        raw::reset(stream);
    })
    .await;
    receiver.answer("/none", Reply::status(204));
    receiver.answer("/empty", Reply::ok());
    receiver.answer("/odd", Reply::ok().body(vec![0x00, 0xff, 0xfe]));
    receiver.answer("/short", Reply::ok().body("0123456789").truncate());
    receiver.answer("/endless", Reply::ok().endless());
    let mut targets = Vec::new();
    for path in ["/none", "/empty", "/odd", "/short", "/endless"] {
        targets.push(endpoint("acme", &receiver.url(path)));
    }
    targets.push(endpoint("acme", &cut.url()));
    for target in &targets {
        rig.put(target).await.unwrap();
    }
    send(&rig, "acme", "{}").await;
    for target in &targets {
        let recorded = attempts_at(&rig, target, 1).await;
        assert_eq!(recorded[0].disposition, Disposition::Complete);
    }
    settled(&rig).await;
    let odd = attempts_at(&rig, &targets[2], 1).await;
    assert_eq!(&odd[0].response_body[..], [0x00, 0xff, 0xfe]);
    assert_eq!((receiver.count(), cut.connections()), (5, 1));
    assert_eq!(attempts(&rig).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_13_an_early_refusal_keeps_its_status_every_time() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_early("/hook", Reply::status(413).body("too large"));
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    for size in [200, 900] {
        for n in 0..20_u8 {
            send(&rig, "acme", vec![b'a' + n; size * 1024]).await;
        }
    }
    for letter in letters(&rig, 40).await {
        let results: Vec<_> = letter.history.iter().map(|a| a.result).collect();
        assert_eq!(letter.reason, Reason::PermanentStatus);
        assert_eq!(results, [AttemptResult::Status(413)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_a_malformed_response_and_is_tried_again() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200));
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(300 * 1024));
    let answers = [
        ("/garbage", "\0\x01 nonsense \r\n\r\n".to_owned()),
        ("/status", "HTTP/1.1 9999 OK\r\n\r\n".to_owned()),
        (
            "/lengths",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        ),
        ("/many", many),
        ("/long", long),
    ];
    for (path, bytes) in answers {
        receiver.script(path, [Reply::raw(bytes)]);
        let target = endpoint("acme", &receiver.url(path));
        rig.put(&target).await.unwrap();
        rig.publish("acme", "a", 1).await.unwrap();
        let recorded = attempts_at(&rig, &target, 2).await;
        let failed = AttemptResult::Error(Failure::MalformedResponse);
        assert_eq!(recorded[0].result, failed, "{path}");
        assert_eq!(recorded[1].disposition, Disposition::Complete, "{path}");
        rig.remove(&target).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_not_asked_for_and_never_inflated() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    // The beginning of a gzip stream. Only its bytes matter: nobody may look into them.
    let bomb = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0; 90]].concat();
    let reply = Reply::ok()
        .header("content-encoding", "gzip")
        .body(bomb.clone());
    receiver.answer("/hook", reply);
    let target = endpoint("acme", &receiver.url("/hook"));
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    let recorded = attempts_at(&rig, &target, 1).await;
    assert_eq!(recorded[0].response_body, bomb);
    assert_eq!(receiver.requests()[0].header("accept-encoding"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_but_proper_answers_are_understood() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let whole = "HTTP/1.1 202 Fine\r\ncontent-length: 2\r\n\r\nok";
    let answers = [
        ("/interim", format!("{hints}{hints}{whole}"), 202),
        (
            "/old",
            "HTTP/1.0 200 OK\r\n\r\nuntil the end".to_owned(),
            200,
        ),
        ("/wordless", "HTTP/1.1 299\r\n\r\n".to_owned(), 299),
        (
            "/chunks",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nt: 1\r\n\r\n"
                .to_owned(),
            200,
        ),
        // Nobody asked for another protocol.
        (
            "/switch",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
                .to_owned(),
            101,
        ),
    ];
    for (path, bytes, status) in answers {
        receiver.script(path, [Reply::raw(bytes)]);
        let target = endpoint("acme", &receiver.url(path));
        rig.put(&target).await.unwrap();
        rig.publish("acme", "a", 1).await.unwrap();
        let recorded = attempts_at(&rig, &target, 1).await;
        assert_eq!(recorded[0].result, AttemptResult::Status(status), "{path}");
        let complete = recorded[0].disposition == Disposition::Complete;
        assert_eq!(complete, status >= 200, "{path}");
        rig.remove(&target).await.unwrap();
    }
}
