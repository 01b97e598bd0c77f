//! Receivers that want to hurt, over HTTP/1: each costs a bounded time and bounded bytes, leaves
//! one record that says what happened, and no connection.

use crate::raw::{self, Raw};
use crate::support::{SOON, attempts_at, line, send, settled};
use posthorn_delivery::attempt::{AttemptResult, MAX_RESPONSE_BODY};
use posthorn_delivery::{Attempt, Disposition, Endpoint, Failure};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{endpoint, retry};
use posthorn_tests::wait::eventually;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout, and what a busy machine adds to it.
const LONGEST_MS: u32 = 4_000;

/// One attempt that may take so long, and no other.
fn once(url: &str) -> Endpoint {
    let mut target = endpoint("acme", url);
    target.timeout = TIMEOUT;
    target.retry = retry(Duration::from_millis(10), 1);
    target
}

/// Writes `head`, and then `more` for as long as somebody takes it.
async fn flood(mut stream: TcpStream, head: Vec<u8>, more: Vec<u8>) {
    if stream.write_all(&head).await.is_err() {
        return;
    }
    while stream.write_all(&more).await.is_ok() {}
}

/// A server that answers `head` and then `more` without an end.
async fn endless(head: &str, more: &str) -> Raw {
    let (head, more) = (head.as_bytes().to_vec(), more.repeat(512).into_bytes());
    Raw::start(move |stream| flood(stream, head.clone(), more.clone())).await
}

fn check(what: &str, recorded: &[Attempt], expected: AttemptResult) {
    assert_eq!(recorded.len(), 1, "{what}: one request, one record");
    let attempt = &recorded[0];
    assert_eq!(attempt.result, expected, "{what}");
    assert!(
        attempt.latency_ms < LONGEST_MS,
        "{what}: {} ms",
        attempt.latency_ms
    );
    assert!(attempt.response_body.len() <= MAX_RESPONSE_BODY, "{what}");
    let ok = matches!(expected, AttemptResult::Status(200..=299));
    assert_eq!(attempt.disposition == Disposition::Complete, ok, "{what}");
}

/// Sends one event to each, and judges what was recorded and that nothing stays open.
async fn tried(tricks: Vec<(&str, Raw, AttemptResult)>) {
    let rig = line().await;
    let mut targets = Vec::new();
    for (_, server, _) in &tricks {
        let target = once(&server.url());
        rig.put(&target).await.unwrap();
        targets.push(target);
    }
    send(&rig, "acme", "{}").await;
    for ((what, ..), target) in tricks.iter().zip(&targets) {
        let recorded = attempts_at(&rig, target, 1).await;
        assert_eq!(recorded.len(), 1, "{what}");
    }
    settled(&rig).await;
    for ((what, server, expected), target) in tricks.iter().zip(&targets) {
        check(what, &attempts_at(&rig, target, 1).await, *expected);
        let closed = || std::future::ready(server.open() == 0);
        eventually(SOON, what, closed).await.unwrap();
        assert_eq!(server.connections(), 1, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_09_heads_without_an_end_are_malformed_and_end_at_a_bound() {
    let malformed = AttemptResult::Error(Failure::MalformedResponse);
    let timeout = AttemptResult::Error(Failure::Timeout);
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    tried(vec![
        (
            "a status line",
            endless("HTTP/1.1 200 ", "aaaaaaaa").await,
            malformed,
        ),
        (
            "headers",
            endless("HTTP/1.1 200 OK\r\n", "x: y\r\n").await,
            malformed,
        ),
        (
            "one name",
            endless("HTTP/1.1 200 OK\r\n", "aaaaaaaa").await,
            malformed,
        ),
        (
            "one value",
            endless("HTTP/1.1 200 OK\r\nx: ", "aaaaaaaa").await,
            malformed,
        ),
        ("blank lines", endless("", "\r\n").await, malformed),
        ("zeros", endless("", "\0").await, malformed),
        ("interim answers", endless("", interim).await, timeout),
        (
            "continues",
            endless("", "HTTP/1.1 100 Continue\r\n\r\n").await,
            timeout,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_09_bodies_without_an_end_are_what_their_status_says() {
    let ok = AttemptResult::Status(200);
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let of = |encoding: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n\r\n\x1f\u{8b}\x08")
    };
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775807\r\n\r\n";
    let extension = format!("{chunked}1;");
    let huge = format!("{chunked}7fffffffffffffff\r\n");
    let trailers = format!("{chunked}0\r\n");
    let teapot = "HTTP/1.1 418 Teapot\r\n\r\n";
    tried(vec![
        (
            "until the end",
            endless("HTTP/1.1 200 OK\r\n\r\n", "aaaa").await,
            ok,
        ),
        ("a length", endless(long, "aaaa").await, ok),
        ("a chunk", endless(&huge, "aaaa").await, ok),
        ("small chunks", endless(chunked, "1\r\na\r\n").await, ok),
        ("a chunk's size", endless(chunked, "0000").await, ok),
        ("an extension", endless(&extension, "aaaa").await, ok),
        ("trailers", endless(&trailers, "x: y\r\n").await, ok),
        ("gzip", endless(&of("gzip"), "\0\0\0\0").await, ok),
        (
            "br and gzip",
            endless(&of("br, gzip, gzip"), "\0\0\0\0").await,
            ok,
        ),
        (
            "a refusal",
            endless(teapot, "aaaa").await,
            AttemptResult::Status(418),
        ),
    ])
    .await;
}

/// A server that does `act` with what is open after the head of a request.
async fn acting<F>(act: fn(TcpStream) -> F) -> Raw
where
    F: Future<Output = ()> + Send + 'static,
{
    Raw::start(act).await
}

/// Until the other side has had enough.
async fn read_on(stream: &mut TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_connections_held_half_open_end_at_the_timeout() {
    let timeout = AttemptResult::Error(Failure::Timeout);
    let reset = AttemptResult::Error(Failure::Reset);
    let silent = acting(|mut stream| async move { read_on(&mut stream).await }).await;
    let half = acting(|mut stream| async move {
        stream.shutdown().await.unwrap();
        read_on(&mut stream).await;
    })
    .await;
    let word = acting(|mut stream| async move {
        stream.write_all(b"HTTP/1.1").await.unwrap();
        read_on(&mut stream).await;
    })
    .await;
    let cut = acting(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: y").await.unwrap();
        stream.shutdown().await.unwrap();
        read_on(&mut stream).await;
    })
    .await;
    let gone = acting(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: y").await.unwrap();
        raw::reset(stream);
    })
    .await;
    tried(vec![
        ("silence", silent, timeout),
        ("a half-close", half, reset),
        ("one word", word, timeout),
        ("half a head", cut, reset),
        ("half a head and a reset", gone, reset),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_a_receiver_that_reads_nothing_ends_at_the_timeout() {
    let rig = line().await;
    // The kernel accepts, nobody reads: the window closes in the middle of the body.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = once(&format!("http://{}/hook", deaf.local_addr().unwrap()));
    rig.put(&target).await.unwrap();
    send(&rig, "acme", vec![b'a'; 900 * 1024]).await;
    let recorded = attempts_at(&rig, &target, 1).await;
    settled(&rig).await;
    check(
        "a closed window",
        &recorded,
        AttemptResult::Error(Failure::Timeout),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_no_server_should_give_are_read_as_the_standard_says_or_refused() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let malformed = AttemptResult::Error(Failure::MalformedResponse);
    let answers = [
        ("/old", "garbage without a head", malformed),
        ("/two", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", malformed),
        ("/tls", "\x15\x03\x01\x00\x02\x02\x28", malformed),
        ("/request", "GET / HTTP/1.1\r\nhost: a\r\n\r\n", malformed),
        ("/small", "HTTP/1.1 99 Low\r\n\r\n", malformed),
        ("/negative", "HTTP/1.1 -200 OK\r\n\r\n", malformed),
        ("/version", "HTTP/3.7 200 OK\r\n\r\n", malformed),
        (
            "/folded",
            "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
            malformed,
        ),
        ("/space", "HTTP/1.1 200 OK\r\na : b\r\n\r\n", malformed),
        ("/nul", "HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n", malformed),
        ("/return", "HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n", malformed),
        (
            "/much",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            malformed,
        ),
        (
            "/sign",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            malformed,
        ),
        (
            "/plus",
            "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
            malformed,
        ),
        (
            "/retry",
            "HTTP/1.1 503 No\r\nretry-after: 99999999999999999999\r\nretry-after: -1\r\n\
             content-length: 0\r\n\r\n",
            AttemptResult::Status(503),
        ),
        (
            "/last",
            "HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
            AttemptResult::Status(999),
        ),
    ];
    let mut targets = Vec::new();
    for (path, bytes, _) in answers {
        receiver.answer(path, Reply::raw(bytes));
        let target = once(&receiver.url(path));
        rig.put(&target).await.unwrap();
        targets.push(target);
    }
    send(&rig, "acme", "{}").await;
    for ((path, _, expected), target) in answers.iter().zip(&targets) {
        check(path, &attempts_at(&rig, target, 1).await, *expected);
    }
    settled(&rig).await;
    assert_eq!(receiver.count(), answers.len(), "exactly one request each");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_01_ssrf_07_every_3xx_with_every_kind_of_location_is_a_failure_and_not_followed() {
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let inside = Receiver::start().await.unwrap();
    let mut locations: Vec<String> = [
        "",
        "/landing",
        "//127.0.0.1/landing",
        "?again",
        "file:///etc/passwd",
        "gopher://127.0.0.1:25/_HELO",
        "data:text/plain,x",
        "http://[::ffff:169.254.169.254]/latest/meta-data/",
        "http://metadata.google.internal/",
    ]
    .map(str::to_owned)
    .to_vec();
    locations.extend([
        inside.url("/landing"),
        receiver.url("/loop"),
        "x".repeat(8_000),
    ]);
    let mut targets = Vec::new();
    for (n, location) in locations.iter().enumerate() {
        for status in [300, 301, 302, 303, 304, 305, 306, 307, 308, 399] {
            let path = format!("/{n}/{status}");
            receiver.answer(&path, Reply::status(status).header("location", location));
            let target = once(&receiver.url(&path));
            rig.put(&target).await.unwrap();
            targets.push((path, status, target));
        }
    }
    send(&rig, "acme", "{}").await;
    receiver.wait_for(targets.len(), SOON).await.unwrap();
    settled(&rig).await;
    for (path, status, target) in &targets {
        check(
            path,
            &attempts_at(&rig, target, 1).await,
            AttemptResult::Status(*status),
        );
    }
    assert_eq!(receiver.count(), targets.len());
    assert_eq!(inside.connections(), 0);
}

/// Answers the first request twice, the second answer with another status than is given to any
/// later request.
async fn hasty(mut stream: TcpStream) {
    let answer = |status| format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
    let both = [answer(200), answer(418)].concat();
    // The other side may have closed already.
    let _ = stream.write_all(both.as_bytes()).await;
    raw::read_head(&mut stream).await;
    let _ = stream.write_all(answer(200).as_bytes()).await;
    read_on(&mut stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_asked_for_is_no_answer_to_the_next_request() {
    let rig = line().await;
    let server = Raw::start(hasty).await;
    let target = endpoint("acme", &server.url());
    rig.put(&target).await.unwrap();
    for _ in 0..5 {
        send(&rig, "acme", "{}").await;
        settled(&rig).await;
    }
    let recorded = attempts_at(&rig, &target, 5).await;
    let taken: Vec<_> = recorded.iter().map(|attempt| attempt.result).collect();
    assert!(!taken.contains(&AttemptResult::Status(418)), "{taken:?}");
}
