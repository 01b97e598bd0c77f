//! Callers that want to hurt: whatever they send, each is answered by what the contract says or
//! loses its connection, nothing they sent is stored, and the next caller is served.

use crate::support::{SOON, Town, shared, text};
use posthorn_tests::{Cluster, Role};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PUBLISH: &str = "/v1/tenants/acme/events/a.b";
const BATCH: &str = "/v1/tenants/acme/events";
/// A body that ends so was cut off by its sender.
const STOPPED: &[u8] = b"{\"stopped\":";
const ENDPOINTS: &str = "/v1/tenants/acme/endpoints";

/// Address of an API, as `host:port`.
fn address(town: &Town, role: Role) -> String {
    town.cluster.urls(role)[0].replace("http://", "")
}

/// Writes these bytes on a connection of their own, and returns what came back until the other
/// side closed.
async fn exchange(to: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // It may close before all is written.
    let _ = stream.write_all(bytes).await;
    if bytes.ends_with(STOPPED) {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let ended = tokio::time::timeout(Duration::from_secs(10), reading).await;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]);
    assert!(ended.is_ok(), "it neither answers nor closes: {shown}");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of the first answer; 0 where there is none.
fn status(answer: &str) -> u16 {
    let code = answer.split(' ').nth(1).unwrap_or_default();
    code.parse().unwrap_or_default()
}

fn head(method: &str, path: &str, more: &str) -> String {
    let key = posthorn_tests::cluster::ADMIN_KEY;
    format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\nconnection: close\r\n{more}\r\n"
    )
}

/// Nothing of all that was stored, and an honest caller is served at once.
async fn unharmed(town: &Town) {
    let before = town.receiver.count();
    let began = Instant::now();
    town.publish("acme", "{\"honest\":true}").await;
    town.got("/hook", before + 1).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    town.settled().await;
    let all = town.receiver.requests();
    let honest = |r: &std::sync::Arc<posthorn_tests::receiver::Received>| {
        &r.body()[..] == b"{\"honest\":true}"
    };
    assert!(all.iter().all(honest), "something else was delivered");
}

/// What is tried, its bytes, and the statuses that answer it.
type Trick = (&'static str, Vec<u8>, &'static [u16]);

/// Heads that are too much. Who is cut off while it still writes may lose the answer with the
/// connection.
fn heads() -> Vec<Trick> {
    let post = |more: &str| head("POST", PUBLISH, more).into_bytes();
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(200 * 1024));
    let key = format!("idempotency-key: {}\r\n", "k".repeat(70_000));
    let path = format!("/v1/tenants/acme/events/{}", "a".repeat(100_000));
    vec![
        ("many headers", post(&many), &[431]),
        ("a long header", post(&long), &[0, 431]),
        ("a long key", post(&key), &[0, 400, 431]),
        (
            "a long path",
            head("POST", &path, "").into(),
            &[0, 400, 414, 431],
        ),
        ("a name with a space", post("x y: z\r\n"), &[400]),
        ("a bare return", post("x: y\rz: w\r\n"), &[400]),
        ("a nul", post("x: y\0z\r\n"), &[400]),
        ("folding", post("x: y\r\n z\r\n"), &[400]),
    ]
}

/// Bodies whose length is not what it is said to be.
fn framing() -> Vec<Trick> {
    let post = |more: &str, body: &str| (head("POST", PUBLISH, more) + body).into_bytes();
    let chunked = "transfer-encoding: chunked\r\n";
    let endless = "content-length: 18446744073709551615\r\n";
    let two = "content-length: 2\r\ncontent-length: 3\r\n";
    vec![
        ("two lengths", post(two, "abc"), &[400]),
        ("a sign", post("content-length: +2\r\n", "{}"), &[400]),
        ("less than none", post("content-length: -1\r\n", ""), &[400]),
        ("an endless length", post(endless, ""), &[400, 413, 431]),
        (
            "odd coding",
            post("transfer-encoding: chunked, gzip\r\n", ""),
            &[400, 501],
        ),
        (
            "a broken chunk",
            post(chunked, "zz\r\n{}\r\n0\r\n\r\n"),
            &[400],
        ),
        (
            "half a body",
            post("content-length: 100\r\n", "{\"stopped\":"),
            &[0, 400],
        ),
    ]
}

/// What is for another server, or no HTTP.
fn strangers() -> Vec<Trick> {
    let upward = "/v1/tenants/..%2f..%2fx/endpoints";
    let metadata = "http://169.254.169.254/latest";
    vec![
        (
            "no version",
            b"POST /v1/tenants/acme/events/a\r\n\r\n".to_vec(),
            &[0, 400],
        ),
        (
            "another protocol",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            &[0, 400, 505],
        ),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            &[0, 400],
        ),
        ("zeros", vec![0; 10_000], &[0, 400]),
        (
            "a tunnel",
            head("CONNECT", "169.254.169.254:80", "").into(),
            &[400, 401, 404, 405],
        ),
        (
            "the server",
            head("OPTIONS", "*", "").into(),
            &[400, 404, 405],
        ),
        ("another server", head("GET", metadata, "").into(), &[404]),
        (
            "an upward path",
            head("GET", "/v1/../../etc/passwd", "").into(),
            &[404],
        ),
        (
            "an encoded path",
            head("GET", upward, "").into(),
            &[400, 404],
        ),
        ("a made-up method", head("BREW", PUBLISH, "").into(), &[405]),
    ]
}

/// Two ways of saying how long a body is: the connection ends with that request, so that what one
/// of them would take for a second request is none.
async fn smuggled(to: &str) -> Option<String> {
    let both = "content-length: 4\r\ntransfer-encoding: chunked\r\n";
    let first = head("POST", "/v1/nowhere", both).replace("connection: close\r\n", "");
    let second = head("POST", PUBLISH, "content-length: 2\r\n") + "{}";
    let answer = exchange(to, (first + "0\r\n\r\n" + &second).as_bytes()).await;
    let one = answer.matches("HTTP/1.1").count() <= 1 && status(&answer) >= 400;
    (!one).then_some(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_04_hdr_05_requests_that_break_http_are_refused_and_store_nothing() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let mut wrong = Vec::new();
    for role in [Role::Ingest, Role::DlqAdmin] {
        let to = address(&town, role);
        for (what, bytes, allowed) in [heads(), framing(), strangers()].concat() {
            let answer = exchange(&to, &bytes).await;
            let code = status(&answer);
            // What ingest has, the other has not.
            let absent = role == Role::DlqAdmin && code == 404;
            if !allowed.contains(&code) && !absent {
                wrong.push(format!("{role:?} {what}: {answer}"));
            }
        }
        wrong.extend(smuggled(&to).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    unharmed(&town).await;
}

/// Names that mean something to a broker, a file system or nobody, as they stand in a path.
const NAMES: [&str; 20] = [
    "*",
    "%3E",
    "a.%3E",
    "a.*",
    "%24SYS",
    "a%0Ab",
    "a%0D%0APUB%20x%201",
    "%00",
    "%FF",
    "%C3%28",
    "a%20b",
    "%20",
    "a%09b",
    "a%2Fb",
    "..",
    ".a",
    "a.",
    "a..b",
    "%E2%80%8B",
    "%F0%9F%8E%BA",
];
/// Names that are a type and no tenant.
const NO_TENANTS: [&str; 4] = ["ACME", "acme%2Eother", "-a", "_posthorn"];

async fn asked(town: &Town, method: Method, path: &str) -> u16 {
    let asked = town.api.ingest(method, path).body("{}").send().await;
    asked.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_05_names_that_mean_something_to_a_broker_are_refused_everywhere() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    for name in NAMES.into_iter().chain(NO_TENANTS) {
        for rest in ["events/a.b", "events", "endpoints"] {
            // The operational tenant has endpoints, to read and to make.
            if name == "_posthorn" && rest == "endpoints" {
                continue;
            }
            let path = format!("/v1/tenants/{name}/{rest}");
            for method in [Method::POST, Method::GET] {
                let code = asked(&town, method, &path).await;
                assert!((400..500).contains(&code), "{path}: {code}");
            }
        }
    }
    for name in NAMES {
        let path = format!("/v1/tenants/acme/events/{name}");
        let code = asked(&town, Method::POST, &path).await;
        assert!((400..500).contains(&code), "{path}: {code}");
    }
    for pattern in [
        "a.>.b", "a b", "a.\nb", "*a", ">>", "", ".", "a..b", "\u{0}",
    ] {
        let document = json!({"url": town.receiver.url("/hook"), "event_types": [pattern]});
        let answer = town.api.post(ENDPOINTS, &document).await.unwrap();
        assert_eq!(answer.status, 422, "{pattern:?}: {}", answer.json());
    }
    unharmed(&town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_04_keys_that_are_no_visible_ascii_are_refused() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let long = [b'k'; 10_000];
    let keys: [&[u8]; 7] = [
        b"",
        b"a b",
        b"a\tb",
        b"\xff\xfe",
        b"caf\xc3\xa9",
        &long,
        b" ",
    ];
    for key in keys {
        let value = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        let asked = town.api.publishing("acme", "a.b", "{}");
        let asked = asked.header("idempotency-key", value).send().await;
        let shown = String::from_utf8_lossy(key);
        assert_eq!(asked.unwrap().status().as_u16(), 400, "{shown}");
    }
    unharmed(&town).await;
}

/// A document nested so deep.
fn deep(open: &str, middle: &str, close: &str, levels: usize) -> String {
    [&open.repeat(levels), middle, &close.repeat(levels)].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn ing_04_bombs_in_batches_and_documents_are_refused_within_bounds() {
    let _machine = shared().await;
    let mut town = Town::of(Cluster::builder().env("POSTHORN_MAX_PAYLOAD", "4KiB")).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let levels = 500_000;
    let bodies = [
        deep("[", "", "]", levels),
        deep("{\"a\":", "1", "}", levels),
        "[".repeat(levels),
        deep("{\"url\":", "1", "}", levels),
        format!(
            "[{{\"type\":\"a.b\",\"payload\":{}}}]",
            deep("[", "", "]", levels)
        ),
        format!("[{}]", vec!["{}"; 200_000].join(",")),
        format!("[{}]", vec!["1"; 400_000].join(",")),
        "\n".repeat(500_000),
        "\u{feff}[]".to_owned(),
        "[{\"type\":\"a.b\",\"payload\":1e999999999}]".repeat(2),
        format!("{{\"url\":\"{}\"}}", "\\u0000".repeat(100_000)),
        format!("{{{}}}", vec!["\"url\":1"; 100_000].join(",")),
    ];
    for body in &bodies {
        for (kind, path) in [
            ("application/json", BATCH),
            ("application/x-ndjson", BATCH),
            ("application/json", ENDPOINTS),
        ] {
            let began = Instant::now();
            let asked = town
                .api
                .ingest(Method::POST, path)
                .header("content-type", kind);
            let answer = asked.body(body.clone()).send().await.unwrap();
            let code = answer.status().as_u16();
            // A batch says of each item what it is; that nothing was taken is looked at below.
            let told = code == 207 && path == BATCH;
            let shown = &body[..body.len().min(40)];
            assert!(
                (400..500).contains(&code) || told,
                "{path} {kind} {shown}: {code}"
            );
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{shown}: {:?}",
                began.elapsed()
            );
        }
        let asked = town.api.admin(Method::POST, "/v1/replays");
        let asked = asked
            .header("content-type", "application/json")
            .body(body.clone());
        let code = asked.send().await.unwrap().status().as_u16();
        assert!((400..500).contains(&code), "replays: {code}");
    }
    assert!(town.cluster.service(Role::Ingest, 0).unwrap().is_running());
    unharmed(&town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn js_15_every_413_says_the_limit_that_is_real() {
    let _machine = shared().await;
    let town = Town::of(Cluster::builder().env("POSTHORN_MAX_PAYLOAD", "4KiB")).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let json = "application/json";
    let cases: [(Role, &str, &str, usize); 4] = [
        (Role::Ingest, PUBLISH, "text/plain", 4_096),
        (Role::Ingest, BATCH, json, 4_096_000),
        (Role::Ingest, ENDPOINTS, json, 1_048_576),
        (Role::DlqAdmin, "/v1/replays", json, 1_048_576),
    ];
    for (role, path, kind, limit) in cases {
        let ask = |size: usize| {
            let asked = match role {
                Role::Ingest => town.api.ingest(Method::POST, path),
                _ => town.api.admin(Method::POST, path),
            };
            asked.header("content-type", kind).body(" ".repeat(size))
        };
        let over = posthorn_tests::api::send(ask(limit + 1)).await.unwrap();
        assert_eq!(over.status, 413, "{path}");
        let said = text(&over.json()["detail"]);
        assert!(said.contains(&limit.to_string()), "{path}: {said}");
        if path != PUBLISH {
            let within = ask(limit).send().await.unwrap().status().as_u16();
            assert!(within != 413 && within < 500, "{path}: {within}");
        }
    }
    unharmed(&town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_a_key_cannot_make_a_body_be_read() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    for role in [Role::Ingest, Role::DlqAdmin] {
        let path = if role == Role::Ingest {
            BATCH
        } else {
            "/v1/replays"
        };
        let began = Instant::now();
        let mut stream = TcpStream::connect(address(&town, role)).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer wrong\r\n\
             content-length: 60000000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body never comes. Whoever waits for it answers after a minute.
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 401", "{role:?}");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
    }
    unharmed(&town).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_connections_that_drip_their_heads_keep_nobody_out() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let to = address(&town, Role::Ingest);
    let mut slow = Vec::new();
    for _ in 0..500 {
        let mut stream = TcpStream::connect(&to).await.unwrap();
        stream.write_all(b"POST /v1/tenants/acme/ev").await.unwrap();
        slow.push(stream);
    }
    unharmed(&town).await;
    // Each is ended by the service, whatever it goes on to drip.
    let began = Instant::now();
    for stream in &mut slow {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "a connection is held open");
    }
    assert!(
        began.elapsed() < Duration::from_secs(50),
        "{:?}",
        began.elapsed()
    );
}
