//! TLS and HTTP/2.

use crate::raw::read_head;
use crate::support::{SOON, attempts_at, letters, line_with, send, settled};
use posthorn_broker::BucketName;
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{BreakerState, Disposition, Endpoint, Failure, Reason};
use posthorn_dispatcher::Settings;
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::receiver::Receiver;
use posthorn_tests::rig::{Rig, breaker, endpoint};
use posthorn_tests::tls::{Authority, Http2Receiver, Http2Reply, TlsFront, Validity, self_signed};
use posthorn_tests::wait::eventually;
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

pub const NAME: &str = "hooks.example.com";

/// A line that trusts an authority, and names that all lead to this machine.
pub struct Trusting {
    pub rig: Rig,
    pub authority: Authority,
    _dns: DnsServer,
    _file: NamedTempFile,
}

impl Trusting {
    pub async fn start() -> Trusting {
        let dns = DnsServer::start().await.unwrap();
        dns.answer_others(DnsAnswer::of(&["127.0.0.1"]));
        let authority = Authority::new().unwrap();
        let file = authority.file().unwrap();
        let settings = Settings {
            dns_servers: vec![dns.address()],
            egress_ca: Some(file.path().to_owned()),
            ..Settings::default()
        };
        Trusting {
            rig: line_with(settings).await,
            authority,
            _dns: dns,
            _file: file,
        }
    }
}

pub fn at(port: u16) -> Endpoint {
    endpoint("acme", &format!("https://{NAME}:{port}/hook"))
}

#[tokio::test(flavor = "multi_thread")]
async fn http_14_a_delivery_over_tls_arrives() {
    let line = Trusting::start().await;
    let receiver = Receiver::start().await.unwrap();
    let config = line.authority.server(NAME, Validity::Now, &["http/1.1"]);
    let front = TlsFront::start(config.unwrap(), receiver.address())
        .await
        .unwrap();
    line.rig.put(&at(front.port())).await.unwrap();
    send(&line.rig, "acme", "{\"over\":\"tls\"}").await;
    let got = receiver.wait_for(1, SOON).await.unwrap();
    assert_eq!(&got[0].body()[..], b"{\"over\":\"tls\"}");
}

/// A server that answers everything in plain text, as many do on a wrong port.
async fn no_tls() -> (u16, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            // Until the other side has had enough.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    (port, AbortOnDropHandle::new(serving))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_to_be_trusted_is_a_tls_failure_and_is_tried_again() {
    let line = Trusting::start().await;
    let receiver = Receiver::start().await.unwrap();
    let other = Authority::new().unwrap();
    let configs = [
        line.authority
            .server("other.example.com", Validity::Now, &[]),
        line.authority
            .server("*.hooks.example.com", Validity::Now, &[]),
        line.authority.server(NAME, Validity::Expired, &[]),
        line.authority.server(NAME, Validity::NotYet, &[]),
        other.server(NAME, Validity::Now, &[]),
        self_signed(NAME),
    ];
    let mut fronts = Vec::new();
    for config in configs {
        fronts.push(
            TlsFront::start(config.unwrap(), receiver.address())
                .await
                .unwrap(),
        );
    }
    let (plain, _serving) = no_tls().await;
    let ports = fronts.iter().map(TlsFront::port).chain([plain]);
    for port in ports {
        let target = at(port);
        line.rig.put(&target).await.unwrap();
        send(&line.rig, "acme", "{}").await;
        let recorded = attempts_at(&line.rig, &target, 2).await;
        for attempt in &recorded[..2] {
            assert_eq!(attempt.result, AttemptResult::Error(Failure::Tls));
        }
        line.rig.remove(&target).await.unwrap();
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_13_an_early_refusal_over_tls_keeps_its_status_every_time() {
    let line = Trusting::start().await;
    let config = line
        .authority
        .server(NAME, Validity::Now, &["http/1.1"])
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(config);
        while let Ok((stream, _)) = listener.accept().await {
            // The answer must not wait for the acknowledgement of the handshake.
            stream.set_nodelay(true).unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            read_head(&mut stream).await;
            let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig";
            stream.write_all(answer).await.unwrap();
            stream.flush().await.unwrap();
            // What was not read makes this a reset.
            drop(stream);
        }
    });
    line.rig.put(&at(port)).await.unwrap();
    for size in [200, 900] {
        for n in 0..20_u8 {
            send(&line.rig, "acme", vec![b'a' + n; size * 1024]).await;
        }
    }
    for letter in letters(&line.rig, 40).await {
        let results: Vec<_> = letter.history.iter().map(|a| a.result).collect();
        assert_eq!(results, [AttemptResult::Status(413)]);
        assert_eq!(letter.reason, Reason::PermanentStatus);
    }
    serving.abort();
}

/// A breaker that one counted failure would open.
fn touchy(port: u16) -> Endpoint {
    let mut target = at(port);
    target.breaker = breaker(1, Duration::from_secs(60));
    target
}

async fn breaker_is_untouched(rig: &Rig, target: &Endpoint) -> bool {
    let broker = rig.broker();
    let bucket = broker.bucket::<BreakerState>(BucketName::Breakers).await;
    let key = target.id.to_string();
    bucket.unwrap().get(&key).await.unwrap().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn http_04_streams_that_end_with_a_goaway_are_sent_again_and_blame_nobody() {
    let line = Trusting::start().await;
    let config = line.authority.server(NAME, Validity::Now, &["h2"]).unwrap();
    // One to open the connection, four that stay open, and the sixth shuts it down.
    let receiver = Http2Receiver::start(config, |number| match number {
        2..=5 => Http2Reply::Hold,
        6 => Http2Reply::GoAway,
        _ => Http2Reply::Status(200),
    })
    .await
    .unwrap();
    let target = touchy(receiver.port());
    line.rig.put(&target).await.unwrap();
    send(&line.rig, "acme", "{}").await;
    settled(&line.rig).await;
    line.rig.publish("acme", "a", 4).await.unwrap();
    receiver.wait_for(5, SOON).await.unwrap();
    let held = Instant::now();
    let long = || std::future::ready(held.elapsed() > Duration::from_millis(700));
    eventually(SOON, "they have been open for long", long)
        .await
        .unwrap();
    send(&line.rig, "acme", "{}").await;
    let got = receiver.wait_for(11, SOON).await.unwrap();
    settled(&line.rig).await;
    assert!(got[..6].iter().all(|request| request.connection == 1));
    assert!(got[6..].iter().all(|request| request.connection > 1));
    assert!(
        got.iter()
            .all(|request| request.header("webhook-attempt") == "1")
    );
    let recorded = attempts_at(&line.rig, &target, 11).await;
    let failed: Vec<_> = recorded
        .iter()
        .filter(|attempt| attempt.disposition != Disposition::Complete)
        .collect();
    assert_eq!(failed.len(), 5);
    for attempt in failed {
        // The last one may be among those that the receiver disowned.
        let cut = [Failure::StaleConnection, Failure::GoAway].map(AttemptResult::Error);
        assert!(cut.contains(&attempt.result), "{attempt:?}");
        assert_eq!(attempt.number, 1);
    }
    assert!(breaker_is_untouched(&line.rig, &target).await);
}

/// Speaks as much of HTTP/2 as it takes to say of the first request that it was not processed,
/// which libraries do not say by themselves, and 200 to all others.
async fn unwilling_at_first(config: Arc<ServerConfig>) -> (u16, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(config);
        let mut willing = false;
        while let Ok((stream, _)) = listener.accept().await {
            let stream = acceptor.accept(stream).await.unwrap();
            // The other side ends it, as it should after a GOAWAY.
            let _ = frames(stream, willing).await;
            willing = true;
        }
    });
    (port, AbortOnDropHandle::new(serving))
}

async fn frames(mut stream: TlsStream<TcpStream>, willing: bool) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    stream.read_exact(&mut [0; 24]).await?;
    // Empty settings.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] != HEADERS {
            continue;
        }
        if willing {
            // Headers that end the stream: `:status 200`, entry 8 of the static table.
            let id = &head[5..9];
            stream
                .write_all(&[&[0, 0, 1, HEADERS, 5][..], id, &[0x88]].concat())
                .await?;
        } else {
            // GOAWAY, last stream 0, no error.
            stream
                .write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .await?;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_04_a_request_that_a_goaway_disowns_is_sent_again_and_blames_nobody() {
    let line = Trusting::start().await;
    let config = line.authority.server(NAME, Validity::Now, &["h2"]).unwrap();
    let (port, _serving) = unwilling_at_first(config).await;
    let target = touchy(port);
    line.rig.put(&target).await.unwrap();
    send(&line.rig, "acme", "{}").await;
    let recorded = attempts_at(&line.rig, &target, 2).await;
    let results: Vec<_> = recorded.iter().map(|a| (a.number, a.result)).collect();
    let disowned = AttemptResult::Error(Failure::GoAway);
    assert_eq!(results, [(1, disowned), (1, AttemptResult::Status(200))]);
    assert!(breaker_is_untouched(&line.rig, &target).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_04_a_refused_stream_is_sent_again_and_blames_nobody() {
    let line = Trusting::start().await;
    let config = line.authority.server(NAME, Validity::Now, &["h2"]).unwrap();
    let receiver = Http2Receiver::start(config, |number| match number {
        2 => Http2Reply::Refuse,
        _ => Http2Reply::Status(200),
    })
    .await
    .unwrap();
    let target = touchy(receiver.port());
    line.rig.put(&target).await.unwrap();
    for _ in 0..2 {
        send(&line.rig, "acme", "{}").await;
        settled(&line.rig).await;
    }
    let recorded = attempts_at(&line.rig, &target, 3).await;
    let results: Vec<_> = recorded.iter().map(|a| (a.number, a.result)).collect();
    let ok = AttemptResult::Status(200);
    assert_eq!(
        results,
        [(1, ok), (1, AttemptResult::Error(Failure::GoAway)), (1, ok)]
    );
    let got = receiver.requests();
    assert_eq!(got[1].header("webhook-id"), got[2].header("webhook-id"));
    assert_eq!(&got[2].body[..], b"{}");
    assert!(breaker_is_untouched(&line.rig, &target).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_a_handshake_that_never_ends_is_a_timeout() {
    let line = Trusting::start().await;
    // It reads all it gets and says nothing.
    let silent = Receiver::start().await.unwrap();
    let mut target = at(silent.address().port());
    target.timeout = Duration::from_secs(1);
    line.rig.put(&target).await.unwrap();
    send(&line.rig, "acme", "{}").await;
    let recorded = attempts_at(&line.rig, &target, 1).await;
    assert_eq!(recorded[0].result, AttemptResult::Error(Failure::Timeout));
    assert!((990..2_000).contains(&recorded[0].latency_ms));
}
