//! Receivers that want to hurt, over HTTP/2, frame by frame.

use crate::secure::{NAME, Trusting, at};
use crate::support::{SOON, attempts_at, send, settled};
use posthorn_broker::BucketName;
use posthorn_delivery::attempt::{AttemptResult, MAX_RESPONSE_BODY};
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{Attempt, BreakerState, Endpoint, Failure};
use posthorn_tests::rig::{breaker, retry};
use posthorn_tests::tls::{Http2Receiver, Http2Reply, Validity};
use posthorn_tests::wait::eventually;
use rustls::ServerConfig;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

type Stream = TlsStream<TcpStream>;
type Act = Pin<Box<dyn Future<Output = ()> + Send>>;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// `:status 200`, entry 8 of the static table.
const OK: &[u8] = &[0x88];
/// `:status 103`.
const EARLY: &[u8] = &[0x08, 3, b'1', b'0', b'3'];
/// Every request here is the first of its connection.
const FIRST: u32 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], payload].concat()
}

/// A server that does something else than to answer.
struct Frames {
    port: u16,
    open: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Frames {
    /// Sends these settings, waits for the head of a request, and does `act`.
    async fn start(
        config: Arc<ServerConfig>,
        settings: Vec<u8>,
        act: impl Fn(Stream) -> Act + Clone + Send + 'static,
    ) -> Frames {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (still, counted) = (open.clone(), connections.clone());
        let serving = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(config);
            let mut acts = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                still.fetch_add(1, Ordering::SeqCst);
                let (act, still) = (act.clone(), still.clone());
                let (acceptor, settings) = (acceptor.clone(), settings.clone());
                acts.spawn(async move {
                    if let Ok(stream) = asked(&acceptor, stream, &settings).await {
                        act(stream).await;
                    }
                    still.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Frames {
            port,
            open,
            connections,
            _serving: AbortOnDropHandle::new(serving),
        }
    }
}

/// A connection on which a request has begun.
async fn asked(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    settings: &[u8],
) -> std::io::Result<Stream> {
    let mut stream = acceptor.accept(stream).await?;
    stream.read_exact(&mut [0; 24]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, settings)).await?;
    while next(&mut stream).await? != HEADERS {}
    Ok(stream)
}

/// The kind of the next frame.
async fn next(stream: &mut Stream) -> std::io::Result<u8> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; length as usize]).await?;
    Ok(head[3])
}

/// Says `first` and reads until the other side has had enough.
fn says(first: Vec<u8>) -> impl Fn(Stream) -> Act + Clone + Send + 'static {
    move |mut stream| {
        let first = first.clone();
        Box::pin(async move {
            let _ = stream.write_all(&first).await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        })
    }
}

/// Says `first`, and `again` for as long as somebody takes it; reads what comes.
fn floods(first: Vec<u8>, again: &[u8]) -> impl Fn(Stream) -> Act + Clone + Send + 'static {
    let again = again.repeat(100);
    move |stream| {
        let (first, again) = (first.clone(), again.clone());
        Box::pin(async move {
            let (mut reading, mut writing) = tokio::io::split(stream);
            let mut sink = tokio::io::sink();
            let flood = async {
                if writing.write_all(&first).await.is_ok() {
                    while writing.write_all(&again).await.is_ok() {}
                }
            };
            tokio::select! {
                () = flood => {}
                _ = tokio::io::copy(&mut reading, &mut sink) => {}
            }
        })
    }
}

/// The same, and reads nothing.
fn floods_deaf(again: &[u8]) -> impl Fn(Stream) -> Act + Clone + Send + 'static {
    let again = again.repeat(100);
    move |mut stream| {
        let again = again.clone();
        Box::pin(async move { while stream.write_all(&again).await.is_ok() {} })
    }
}

struct Trick {
    what: &'static str,
    server: Frames,
    expected: AttemptResult,
}

struct Tricks {
    line: Trusting,
    all: Vec<Trick>,
}

impl Tricks {
    async fn new() -> Tricks {
        let line = Trusting::start().await;
        Tricks {
            line,
            all: Vec::new(),
        }
    }

    async fn with(
        &mut self,
        what: &'static str,
        settings: &[u8],
        act: impl Fn(Stream) -> Act + Clone + Send + 'static,
        expected: impl Into<Expected>,
    ) {
        let config = self.line.authority.server(NAME, Validity::Now, &["h2"]);
        let server = Frames::start(config.unwrap(), settings.to_vec(), act).await;
        let expected = expected.into().0;
        self.all.push(Trick {
            what,
            server,
            expected,
        });
    }

    async fn add(
        &mut self,
        what: &'static str,
        act: impl Fn(Stream) -> Act + Clone + Send + 'static,
        expected: impl Into<Expected>,
    ) {
        self.with(what, &[], act, expected).await;
    }

    /// Sends one event to each, and judges what was recorded and that nothing stays open.
    async fn tried(self, payload: Vec<u8>) {
        let rig = &self.line.rig;
        let mut targets = Vec::new();
        for trick in &self.all {
            let target = once(trick.server.port);
            rig.put(&target).await.unwrap();
            targets.push(target);
        }
        send(rig, "acme", payload).await;
        for target in &targets {
            attempts_at(rig, target, 1).await;
        }
        settled(rig).await;
        for (trick, target) in self.all.iter().zip(&targets) {
            trick.check(&attempts_at(rig, target, 1).await);
            let closed = || std::future::ready(trick.server.open.load(Ordering::SeqCst) == 0);
            eventually(SOON, trick.what, closed).await.unwrap();
        }
    }
}

impl Trick {
    fn check(&self, recorded: &[Attempt]) {
        let what = self.what;
        // What the receiver says that it did not process is sent once more, and recorded.
        let unprocessed = self.expected == AttemptResult::Error(Failure::GoAway);
        let requests = self.server.connections.load(Ordering::SeqCst);
        assert_eq!(recorded.len(), requests, "{what}: one request, one record");
        assert_eq!(
            recorded.len(),
            if unprocessed { 2 } else { 1 },
            "{what}: {recorded:?}"
        );
        for attempt in recorded {
            assert_eq!(attempt.result, self.expected, "{what}");
            assert!(
                attempt.latency_ms < 5_000,
                "{what}: {} ms",
                attempt.latency_ms
            );
            assert!(attempt.response_body.len() <= MAX_RESPONSE_BODY, "{what}");
        }
    }
}

struct Expected(AttemptResult);

impl From<Failure> for Expected {
    fn from(failure: Failure) -> Expected {
        Expected(AttemptResult::Error(failure))
    }
}

impl From<u16> for Expected {
    fn from(status: u16) -> Expected {
        Expected(AttemptResult::Status(status))
    }
}

/// One attempt that may take two seconds, and no other.
fn once(port: u16) -> Endpoint {
    let mut target = at(port);
    target.timeout = Duration::from_secs(2);
    target.retry = retry(Duration::from_millis(10), 1);
    target
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_floods_of_frames_end_at_the_timeout_and_with_them_the_connection() {
    let mut tricks = Tricks::new().await;
    let timeout = Failure::Timeout;
    let ping = frame(PING, 0, 0, &[7; 8]);
    let settings = frame(SETTINGS, 0, 0, &[]);
    let window = frame(WINDOW_UPDATE, 0, FIRST, &1_u32.to_be_bytes());
    let priority = frame(PRIORITY, 0, FIRST, &[0, 0, 0, 3, 1]);
    let unknown = frame(0xfa, 0, 0, &[1; 64]);
    let early = frame(HEADERS, END_HEADERS, FIRST, EARLY);
    tricks
        .add("pings", floods(Vec::new(), &ping), timeout)
        .await;
    tricks
        .add("pings, unread", floods_deaf(&ping), timeout)
        .await;
    tricks
        .add("settings", floods(Vec::new(), &settings), timeout)
        .await;
    tricks
        .add("settings, unread", floods_deaf(&settings), timeout)
        .await;
    tricks
        .add("priorities", floods(Vec::new(), &priority), timeout)
        .await;
    tricks
        .add("unknown frames", floods(Vec::new(), &unknown), timeout)
        .await;
    tricks
        .add("interim answers", floods(Vec::new(), &early), timeout)
        .await;
    tricks.add("silence", says(Vec::new()), timeout).await;
    tricks.add("one window", says(window), timeout).await;
    tricks.tried(b"{}".to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_a_window_that_never_opens_ends_at_the_timeout() {
    let mut tricks = Tricks::new().await;
    let closed = [&[0, 4][..], &0_u32.to_be_bytes()].concat();
    tricks
        .with("closed", &closed, says(Vec::new()), Failure::Timeout)
        .await;
    let few = [&[0, 4][..], &1_u32.to_be_bytes()].concat();
    let drop_by_drop = frame(WINDOW_UPDATE, 0, FIRST, &1_u32.to_be_bytes());
    tricks
        .with("one byte", &few, says(drop_by_drop), Failure::Timeout)
        .await;
    tricks
        .add("as it is", says(Vec::new()), Failure::Timeout)
        .await;
    tricks.tried(vec![b'a'; 200 * 1024]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_09_headers_without_an_end_over_http2_end_at_a_bound() {
    let mut tricks = Tricks::new().await;
    let malformed = Failure::MalformedResponse;
    // A header that is not in the table, again and again, in frames that do not end the block.
    let entry = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let some = entry.repeat(100);
    let opened = frame(HEADERS, 0, FIRST, OK);
    let more = frame(CONTINUATION, 0, FIRST, &some);
    tricks
        .add("continuations", floods(opened.clone(), &more), malformed)
        .await;
    let nothing = frame(CONTINUATION, 0, FIRST, &[]);
    tricks
        .add("empty ones", floods(opened, &nothing), malformed)
        .await;
    // One entry of the dynamic table of 3,000 bytes, and references to it of one byte each.
    let stored = [&[0x40, 1, b'x', 0x7f, 0xb9, 0x16][..], &[b'y'; 3_000]].concat();
    let bomb = [OK, &stored, &[0xbe; 10_000]].concat();
    let bomb = frame(HEADERS, END_HEADERS | END_STREAM, FIRST, &bomb);
    tricks.add("references", says(bomb), malformed).await;
    tricks.tried(b"{}".to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_the_protocol_is_malformed_and_not_blamed_on_the_connection() {
    let mut tricks = Tricks::new().await;
    let malformed = Failure::MalformedResponse;
    let promise = [&2_u32.to_be_bytes()[..], OK].concat();
    let overflow = frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes());
    let cases = [
        ("data first", frame(DATA, 0, FIRST, b"x")),
        (
            "no status",
            frame(HEADERS, END_HEADERS, FIRST, &[0, 1, b'x', 1, b'y']),
        ),
        ("a push", frame(PUSH_PROMISE, END_HEADERS, FIRST, &promise)),
        ("another stream", frame(HEADERS, END_HEADERS, 3, OK)),
        ("an even stream", frame(HEADERS, END_HEADERS, 2, OK)),
        ("a window of zero", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("a window too large", overflow),
        (
            "a frame too large",
            frame(HEADERS, END_HEADERS, FIRST, &vec![0x88; 20_000]),
        ),
        ("a short ping", frame(PING, 0, 0, &[0; 3])),
        ("settings of a stream", frame(SETTINGS, 0, FIRST, &[])),
        (
            "a continuation",
            frame(CONTINUATION, END_HEADERS, FIRST, OK),
        ),
        (
            "a broken block",
            frame(HEADERS, END_HEADERS, FIRST, &[0xff; 40]),
        ),
        (
            "plain text",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(),
        ),
    ];
    for (what, bytes) in cases {
        tricks.add(what, says(bytes), malformed).await;
    }
    tricks.tried(b"{}".to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_04_each_way_of_ending_a_stream_is_recorded_as_what_it_is() {
    let mut tricks = Tricks::new().await;
    for code in [0_u32, 1, 2, 5, 8, 11, 13] {
        let end = frame(RST_STREAM, 0, FIRST, &code.to_be_bytes());
        tricks.add("a reset", says(end), Failure::Reset).await;
    }
    let away = |last: u32, code: u32| {
        let text = [&last.to_be_bytes()[..], &code.to_be_bytes(), &[b'z'; 1_000]].concat();
        frame(GOAWAY, 0, 0, &text)
    };
    tricks
        .add("disowned", says(away(0, 0)), Failure::GoAway)
        .await;
    tricks
        .add("too much", says(away(0, 11)), Failure::GoAway)
        .await;
    tricks
        .add("kept waiting", says(away(FIRST, 0)), Failure::Timeout)
        .await;
    let ok = frame(HEADERS, END_HEADERS, FIRST, OK);
    let reset = frame(RST_STREAM, 0, FIRST, &2_u32.to_be_bytes());
    tricks
        .add(
            "a status and a reset",
            says([ok.clone(), reset].concat()),
            200,
        )
        .await;
    let empty = frame(DATA, 0, FIRST, &[]);
    tricks
        .add("empty data", floods(ok.clone(), &empty), 200)
        .await;
    let data = frame(DATA, 0, FIRST, &[b'a'; 16_384]);
    tricks.add("data", floods(ok.clone(), &data), 200).await;
    tricks.add("a body that does not come", says(ok), 200).await;
    tricks.tried(b"{}".to_vec()).await;
}

/// Once is how a load balancer recycles its connections; always is how nothing is ever delivered.
#[tokio::test(flavor = "multi_thread")]
async fn http_04_a_receiver_that_disowns_every_request_opens_the_breaker() {
    let line = Trusting::start().await;
    let config = line.authority.server(NAME, Validity::Now, &["h2"]).unwrap();
    let away = frame(GOAWAY, 0, 0, &[0; 8]);
    let goaways = Frames::start(config.clone(), Vec::new(), says(away)).await;
    let refusals = Http2Receiver::start(config, |_| Http2Reply::Refuse);
    let refusals = refusals.await.unwrap();
    for port in [goaways.port, refusals.port()] {
        let mut target = at(port);
        target.breaker = breaker(2, Duration::from_secs(600));
        line.rig.put(&target).await.unwrap();
        send(&line.rig, "acme", "{}").await;
        let broker = line.rig.broker();
        let breakers = broker.bucket::<BreakerState>(BucketName::Breakers).await;
        let (breakers, key) = (breakers.unwrap(), target.id.to_string());
        eventually(SOON, "the breaker opens", || async {
            let state = breakers.get(&key).await.unwrap();
            state.is_some_and(|state| state.value.phase == Phase::Open)
        })
        .await
        .unwrap();
        // Two attempts, each repeated once, and no request more.
        let recorded = attempts_at(&line.rig, &target, 4).await;
        let numbers: Vec<_> = recorded.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [1, 1, 2, 2]);
        let disowned = AttemptResult::Error(Failure::GoAway);
        assert!(recorded.iter().all(|attempt| attempt.result == disowned));
        line.rig.remove(&target).await.unwrap();
    }
    assert_eq!(goaways.connections.load(Ordering::SeqCst), 4);
    assert_eq!(refusals.requests().len(), 4);
}

/// Answers the first request of a connection and nothing after it, and leaves it open.
fn freezes_after_one(mut stream: Stream) -> Act {
    Box::pin(async move {
        let answer = frame(HEADERS, END_HEADERS | END_STREAM, FIRST, OK);
        stream.write_all(&answer).await.unwrap();
        // Reads, so that nothing fails; writes nothing, not even the answer to a ping.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn http_03_a_shared_connection_that_died_without_a_word_is_given_up() {
    let line = Trusting::start().await;
    let config = line.authority.server(NAME, Validity::Now, &["h2"]);
    let server = Frames::start(config.unwrap(), Vec::new(), freezes_after_one).await;
    let mut target = at(server.port);
    target.timeout = Duration::from_secs(3);
    line.rig.put(&target).await.unwrap();
    send(&line.rig, "acme", "{}").await;
    settled(&line.rig).await;
    // Each that times out is followed by another at once, so that it is never idle.
    send(&line.rig, "acme", "{}").await;
    settled(&line.rig).await;
    let recorded = attempts_at(&line.rig, &target, 3).await;
    let last = recorded.last().unwrap();
    assert_eq!(last.result, AttemptResult::Status(200), "{recorded:?}");
    assert!(last.number <= 6, "{recorded:?}");
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}
