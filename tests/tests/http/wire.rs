//! What a receiver gets: bytes, headers, signatures.

use crate::support::{SOON, attempts_at, letters, line, send, send_as, settled};
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::retry::{Jitter, Schedule};
use posthorn_delivery::{Endpoint, Reason, RetryPolicy, UnixMillis};
use posthorn_signing::{Secret, Verifier};
use posthorn_tests::receiver::{Received, Receiver, Reply};
use posthorn_tests::rig::{SECRET, endpoint};
use std::time::Duration;

const NEW_SECRET: &str = "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3";

fn verifies(got: &Received, secret: &str) -> bool {
    let header = |name| got.header(name).unwrap();
    let verifier = Verifier::new([Secret::parse(secret).unwrap()]);
    let now = i64::try_from(got.unix_ms() / 1_000).unwrap();
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    verifier
        .verify(id, at, header("webhook-signature"), got.body(), now)
        .is_ok()
}

fn secret(text: &str, expires_at: Option<UnixMillis>) -> StoredSecret {
    StoredSecret {
        text: Hidden::new(text.to_owned()),
        expires_at,
    }
}

/// Retries after exactly `pause`.
fn paced(mut target: Endpoint, pause: Duration) -> Endpoint {
    let mut parts = target.retry.parts().clone();
    parts.schedule = Schedule::Ladder(vec![pause]);
    parts.jitter = Jitter::None;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    target
}

fn signatures(got: &Received) -> usize {
    got.header("webhook-signature").unwrap().split(' ').count()
}

#[tokio::test(flavor = "multi_thread")]
async fn sig_02_a_retry_has_its_own_time_and_signature_and_the_same_id() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500)]);
    let target = paced(
        endpoint("acme", &receiver.url("/hook")),
        Duration::from_millis(2_100),
    );
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    let got = receiver.wait_for(2, SOON).await.unwrap();
    assert!(got.iter().all(|request| verifies(request, SECRET)));
    let stamp = |at: usize| {
        got[at]
            .header("webhook-timestamp")
            .unwrap()
            .parse::<i64>()
            .unwrap()
    };
    assert!(stamp(1) - stamp(0) >= 2, "{} and {}", stamp(0), stamp(1));
    assert_ne!(
        got[0].header("webhook-signature"),
        got[1].header("webhook-signature")
    );
    assert_eq!(got[0].webhook_id(), got[1].webhook_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn sig_04_a_queued_retry_is_signed_with_what_is_live_when_it_is_sent() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/hook", [Reply::status(500), Reply::status(500)]);
    let mut target = paced(
        endpoint("acme", &receiver.url("/hook")),
        Duration::from_millis(1_500),
    );
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    receiver.wait_for(1, SOON).await.unwrap();
    let later = UnixMillis(i64::MAX / 2);
    target.secrets = vec![secret(NEW_SECRET, None), secret(SECRET, Some(later))];
    rig.put(&target).await.unwrap();
    receiver.wait_for(2, SOON).await.unwrap();
    target.secrets = vec![
        secret(NEW_SECRET, None),
        secret(SECRET, Some(UnixMillis(1))),
    ];
    rig.put(&target).await.unwrap();
    let got = receiver.wait_for(3, SOON).await.unwrap();
    let by: Vec<_> = got
        .iter()
        .map(|r| (verifies(r, SECRET), verifies(r, NEW_SECRET), signatures(r)))
        .collect();
    assert_eq!(by, [(true, false, 1), (true, true, 2), (false, true, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sig_07_sig_08_bytes_arrive_as_they_were_published() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    rig.put(&endpoint("acme", &receiver.url("/hook")))
        .await
        .unwrap();
    let bodies: [(&str, &[u8]); 9] = [
        ("application/json", "{\"a\":\"\u{1f600}\"}".as_bytes()),
        ("application/json", b"\xef\xbb\xbf{}"),
        ("application/json", br#"{"s":"a\u0000b"}"#),
        ("application/json", br#"{"s":"\ud800"}"#),
        ("application/json", b"{ \"b\" : 1.0,\n\"a\":1e400 }"),
        ("text/plain; charset=iso-8859-1", b"caf\xe9"),
        ("application/octet-stream", b"\x00\xff\x00"),
        ("application/xml", b"<a/>"),
        ("text/plain", b""),
    ];
    for (content_type, body) in bodies {
        send_as(&rig, "acme", content_type, body.to_vec()).await;
    }
    let got = receiver.wait_for(bodies.len(), SOON).await.unwrap();
    for (content_type, body) in bodies {
        let same = |r: &&std::sync::Arc<Received>| &r.body()[..] == body;
        let request = got.iter().find(same).expect("it arrived unchanged");
        assert_eq!(request.header("content-type"), Some(content_type));
        let length = body.len().to_string();
        assert_eq!(request.header("content-length"), Some(length.as_str()));
        assert!(verifies(request, SECRET));
    }
    settled(&rig).await;
    assert_eq!(receiver.count(), bodies.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_custom_headers_arrive_and_replace_none_of_ours() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let custom = [
        ("X-Env", "prod"),
        ("Authorization", "Bearer t"),
        ("webhook-id", "forged"),
        ("Webhook-Signature", "v1,forged"),
        ("webhook-timestamp", "1"),
        ("webhook-attempt", "99"),
        ("idempotency-key", "forged"),
        ("content-type", "text/forged"),
        ("user-agent", "forged"),
        ("traceparent", "forged"),
    ];
    let own = |(name, value): (&str, &str)| (name.to_owned(), Hidden::new(value.to_owned()));
    target.headers = custom.into_iter().map(own).collect();
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    let got = &receiver.wait_for(1, SOON).await.unwrap()[0];
    assert!(verifies(got, SECRET));
    assert_eq!(got.header("x-env"), Some("prod"));
    assert_eq!(got.header("authorization"), Some("Bearer t"));
    let forged = got
        .headers()
        .iter()
        .filter(|(_, value)| value.contains("forged"));
    assert_eq!(forged.count(), 0, "{:?}", got.headers());
    for (name, _) in custom {
        let same = |(have, _): &&(String, String)| have.eq_ignore_ascii_case(name);
        assert_eq!(got.headers().iter().filter(same).count(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_01_hdr_03_a_header_that_cannot_be_sent_is_dead_at_once_and_sends_nothing() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let bad = [
        ("X-A", "v\r\nX-B: 1"),
        ("X-A", "\0"),
        ("X A", "v"),
        ("", "v"),
        ("Content-Length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Host", "other.example"),
        ("Connection", "upgrade"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic x"),
    ];
    for (name, value) in bad {
        let mut target = endpoint("acme", &receiver.url("/hook"));
        target.headers = vec![(name.to_owned(), Hidden::new(value.to_owned()))];
        rig.put(&target).await.unwrap();
    }
    send(&rig, "acme", "{}").await;
    let letters = letters(&rig, bad.len()).await;
    assert!(
        letters
            .iter()
            .all(|l| l.reason == Reason::Unsignable && l.history.len() == 1)
    );
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_and_password_of_the_url_are_basic_authentication_and_no_part_of_the_target() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let url = format!(
        "http://us%40er:p%3Aw@{}/hook?key=1&b=%20",
        receiver.address()
    );
    let target = endpoint("acme", &url);
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    attempts_at(&rig, &target, 1).await;
    let got = &receiver.requests()[0];
    assert_eq!(got.header("authorization"), Some("Basic dXNAZXI6cDp3"));
    assert_eq!(got.target(), "/hook?key=1&b=%20");
    assert_eq!(
        got.header("host"),
        Some(receiver.address().to_string().as_str())
    );
}
