//! The dispatcher as a process of its own: its environment, its limits, its memory, its words.

use crate::raw::Raw;
use crate::support::{SOON, attempts, attempts_at, letters, peak_memory, send, settled};
use async_nats::jetstream;
use posthorn_delivery::attempt::{AttemptResult, MAX_RESPONSE_BODY};
use posthorn_delivery::endpoint::Hidden;
use posthorn_delivery::{Disposition, Endpoint, Failure, Reason};
use posthorn_tests::bins;
use posthorn_tests::cluster::SECRET_KEYS;
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::process::{Recipe, Service, free_port};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, SECRET, endpoint, retry};
use posthorn_tests::tls::{Authority, Http2Receiver, Http2Reply, Validity};
use posthorn_tests::wait::eventually;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

const START: Duration = Duration::from_secs(60);

/// A scheduler in this process, a dispatcher in another.
struct Line {
    rig: Rig,
    dispatcher: Service,
    dns: DnsServer,
    _folder: TempDir,
}

fn recipe(rig: &Rig, dns: &DnsServer, folder: &TempDir) -> Recipe {
    Recipe::new("posthorn-dispatcher", folder.path())
        .env("POSTHORN_NATS_URL", rig.nats.url())
        .env("POSTHORN_EGRESS_ALLOW", "127.0.0.0/8")
        .env("POSTHORN_EGRESS_ALLOW_HTTP", "true")
        .env("POSTHORN_DNS_SERVERS", dns.address().to_string())
        .env("POSTHORN_SECRET_KEYS", SECRET_KEYS)
        .ops_port(free_port().unwrap())
}

impl Line {
    async fn start(change: impl FnOnce(Recipe) -> Recipe) -> Line {
        let mut rig = Rig::start().await.unwrap();
        rig.scheduler(posthorn_scheduler::Settings::default())
            .await
            .unwrap();
        let dns = DnsServer::start().await.unwrap();
        dns.answer_others(DnsAnswer::of(&["127.0.0.1"]));
        let folder = TempDir::new().unwrap();
        let recipe = change(recipe(&rig, &dns, &folder));
        let mut dispatcher = recipe.spawn().await.unwrap();
        dispatcher.wait_ready(START).await.unwrap();
        Line {
            rig,
            dispatcher,
            dns,
            _folder: folder,
        }
    }

    fn memory(&self) -> u64 {
        peak_memory(&self.dispatcher.pid().to_string())
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.dispatcher.pid());
        std::fs::read_dir(folder).unwrap().count()
    }

    async fn metrics(&self) -> String {
        let port = self.dispatcher.ops_port().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = client
            .get(format!("http://127.0.0.1:{port}/metrics"))
            .send();
        asked.await.unwrap().text().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_09_fifty_endless_bodies_at_once_cost_little_memory() {
    let line = Line::start(|recipe| recipe).await;
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/hook", Reply::ok().endless());
    let target = endpoint("acme", &receiver.url("/hook"));
    line.rig.put(&target).await.unwrap();
    send(&line.rig, "acme", "{}").await;
    attempts_at(&line.rig, &target, 1).await;
    let before = line.memory();
    line.rig.publish("acme", "a", 50).await.unwrap();
    let recorded = attempts_at(&line.rig, &target, 51).await;
    settled(&line.rig).await;
    let grown = line.memory() - before;
    assert!(grown < 32 * 1024 * 1024, "{grown} bytes for 50 answers");
    assert_eq!(receiver.count(), 51, "exactly one POST each");
    for attempt in recorded {
        assert_eq!(attempt.disposition, Disposition::Complete);
        assert_eq!(attempt.response_body.len(), MAX_RESPONSE_BODY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_10_a_flood_of_interim_answers_ends_at_the_timeout_and_costs_no_memory() {
    let line = Line::start(|recipe| recipe).await;
    let flood = Raw::start(|mut stream| async move {
        let early = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(100);
        while stream.write_all(&early).await.is_ok() {}
    })
    .await;
    let mut target = endpoint("acme", &flood.url());
    target.timeout = Duration::from_secs(1);
    target.retry = retry(Duration::from_millis(10), 1);
    line.rig.put(&target).await.unwrap();
    let before = line.memory();
    send(&line.rig, "acme", "{}").await;
    let recorded = attempts_at(&line.rig, &target, 1).await;
    assert_eq!(recorded[0].result, AttemptResult::Error(Failure::Timeout));
    assert!(recorded[0].latency_ms < 2_000);
    let grown = line.memory() - before;
    assert!(grown < 16 * 1024 * 1024, "{grown} bytes");
}

/// A dispatcher with so few files, and so many hosts, each with an endpoint, on one receiver.
async fn crowd(limit: usize, hosts: usize) -> (Line, Receiver) {
    let binary = bins::bin("posthorn-dispatcher").await.unwrap();
    let line = Line::start(|recipe| {
        recipe
            .program("/bin/sh")
            .arg("-c")
            .arg(format!("ulimit -n {limit} && exec \"$0\""))
            .arg(binary)
    })
    .await;
    let receiver = Receiver::start().await.unwrap();
    let port = receiver.address().port();
    for n in 0..hosts {
        let url = format!("http://host{n}.example.com:{port}/hook");
        line.rig.put(&endpoint("acme", &url)).await.unwrap();
    }
    (line, receiver)
}

#[tokio::test(flavor = "multi_thread")]
async fn http_08_a_thousand_hosts_do_not_use_up_the_descriptors() {
    const LIMIT: usize = 256;
    const HOSTS: usize = 1_000;
    let (line, receiver) = crowd(LIMIT, HOSTS).await;
    send(&line.rig, "acme", "{}").await;
    let mut most = 0;
    let all = || {
        most = most.max(line.descriptors());
        std::future::ready(receiver.count() >= HOSTS)
    };
    eventually(2 * SOON, "every host was called", all)
        .await
        .unwrap();
    settled(&line.rig).await;
    assert!(most < LIMIT, "{most} of {LIMIT} descriptors");
    let recorded = attempts(&line.rig).await;
    assert_eq!(recorded.len(), HOSTS);
    for attempt in recorded {
        assert_eq!(attempt.result, AttemptResult::Status(200));
    }
}

/// Lets a running process have so many files and no more.
fn allow_files(line: &Line, limit: usize) {
    let done = std::process::Command::new("prlimit")
        .arg(format!("--pid={}", line.dispatcher.pid()))
        .arg(format!("--nofile={limit}:"))
        .status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn http_08_running_out_of_descriptors_is_no_failure_of_an_endpoint() {
    const HOSTS: usize = 60;
    let (line, receiver) = crowd(256, HOSTS).await;
    // It counted on 256 when it started.
    allow_files(&line, line.descriptors());
    send(&line.rig, "acme", "{}").await;
    let local = AttemptResult::Error(Failure::Local);
    let short = || async { attempts(&line.rig).await.len() >= HOSTS };
    eventually(SOON, "it runs out", short).await.unwrap();
    allow_files(&line, 256);
    receiver.wait_for(HOSTS, 2 * SOON).await.unwrap();
    settled(&line.rig).await;
    let recorded = attempts(&line.rig).await;
    let ok = |result| result == AttemptResult::Status(200);
    for attempt in &recorded {
        assert!(ok(attempt.result) || attempt.result == local, "{attempt:?}");
        assert_eq!(attempt.number, 1);
    }
    let delivered = recorded.iter().filter(|a| ok(a.result)).count();
    assert_eq!(delivered, HOSTS);
    assert!(recorded.len() >= 2 * HOSTS - 5, "it never ran out");
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_08_proxy_variables_of_the_environment_are_ignored() {
    let proxy = Receiver::start().await.unwrap();
    let line = Line::start(|recipe| {
        let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
        let all = names.map(|name| [name.to_owned(), name.to_lowercase()]);
        all.iter()
            .flatten()
            .fold(recipe, |recipe, name| recipe.env(name, proxy.url("")))
    })
    .await;
    line.dns
        .script("inside.example.com", [DnsAnswer::of(&["10.0.0.5"])]);
    let receiver = Receiver::start().await.unwrap();
    let port = receiver.address().port();
    let urls = [
        format!("http://outside.example.com:{port}/hook"),
        format!("http://inside.example.com:{port}/hook"),
        format!("https://inside.example.com:{port}/hook"),
    ];
    for url in urls {
        line.rig.put(&endpoint("acme", &url)).await.unwrap();
    }
    send(&line.rig, "acme", "{}").await;
    let letters = letters(&line.rig, 2).await;
    assert!(letters.iter().all(|l| l.reason == Reason::EgressDenied));
    receiver.wait_for(1, SOON).await.unwrap();
    settled(&line.rig).await;
    assert_eq!((receiver.count(), proxy.connections()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_14_without_certificates_to_trust_the_process_does_not_start() {
    let rig = Rig::start().await.unwrap();
    let dns = DnsServer::start().await.unwrap();
    let folder = TempDir::new().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let ours = recipe(&rig, &dns, &folder).env("POSTHORN_EGRESS_CA", &empty);
    let systems = recipe(&rig, &dns, &folder)
        .env("SSL_CERT_FILE", &empty)
        .env("SSL_CERT_DIR", folder.path());
    for recipe in [ours, systems] {
        let mut process = recipe.spawn().await.unwrap();
        let status = process.wait_exit(START).await.unwrap();
        assert_eq!(status.code(), Some(64), "{}", process.output());
    }
}

/// What may be seen nowhere but in the request itself.
const CANARIES: [&str; 8] = [
    "user-canary",
    "password-canary",
    "path-canary",
    "query-canary",
    "header-canary",
    "payload-canary",
    // The basic authentication made of the first two, and the signing secret.
    "dXNlci1jYW5hcnk6cGFzc3dvcmQtY2FuYXJ5",
    "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
];

fn canary(scheme: &str, host: &str, port: u16) -> Endpoint {
    let url = format!(
        "{scheme}://user-canary:password-canary@{host}:{port}/path-canary?key=query-canary"
    );
    let mut target = endpoint("acme", &url);
    target.retry = retry(Duration::from_millis(10), 2);
    let header = |name: &str, value: &str| (name.to_owned(), Hidden::new(value.to_owned()));
    target.headers = vec![header("X-Token", "header-canary")];
    target
}

/// Every message of a stream, headers and all.
async fn everything_in(rig: &Rig, stream: &str) -> String {
    let context = jetstream::new(rig.nats.client().await.unwrap());
    let mut stream = context.get_stream(stream).await.unwrap();
    let state = stream.info().await.unwrap().state.clone();
    let mut text = String::new();
    for sequence in state.first_sequence..=state.last_sequence {
        if let Ok(message) = stream.get_raw_message(sequence).await {
            text.push_str(&format!("{:?}\n", message.headers));
            text.push_str(&String::from_utf8_lossy(&message.payload));
        }
    }
    text
}

fn assert_clean(what: &str, text: &str, canaries: &[&str]) {
    assert!(!text.is_empty(), "{what} is empty");
    for canary in canaries {
        let leak = text.lines().find(|line| line.contains(canary));
        assert_eq!(leak, None, "{what} holds {canary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_06_no_word_of_the_dispatcher_holds_what_is_secret() {
    assert!(SECRET.contains(CANARIES[7]));
    let authority = Authority::new().unwrap();
    let trusted = authority.file().unwrap();
    let line = Line::start(|recipe| {
        recipe
            .env("POSTHORN_LOG", "trace")
            .env("POSTHORN_EGRESS_CA", trusted.path())
    })
    .await;
    line.dns.script("none.example.com", [DnsAnswer::NoName]);
    line.dns
        .script("inside.example.com", [DnsAnswer::of(&["10.0.0.5"])]);
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/path-canary", Reply::status(500));
    let config = authority.server("h2.example.com", Validity::Now, &["h2"]);
    let secure = Http2Receiver::start(config.unwrap(), |_| Http2Reply::Status(500))
        .await
        .unwrap();
    let port = receiver.address().port();
    let mut unsendable = canary("http", "plain.example.com", port);
    let broken = Hidden::new("header-canary\r\n".to_owned());
    unsendable.headers.push(("X-Broken".to_owned(), broken));
    let targets = [
        canary("http", "none.example.com", port),
        canary("http", "inside.example.com", port),
        canary("http", "refused.example.com", free_port().unwrap()),
        canary("https", "wrong.example.com", secure.port()),
        canary("https", "h2.example.com", secure.port()),
        canary("http", "plain.example.com", port),
        unsendable,
    ];
    for target in &targets {
        line.rig.put(target).await.unwrap();
    }
    send(&line.rig, "acme", "{\"a\":\"payload-canary\"}").await;
    letters(&line.rig, targets.len()).await;
    settled(&line.rig).await;
    let (got, over_tls) = (receiver.requests(), secure.requests());
    assert_eq!(
        (got.len(), over_tls.len()),
        (2, 2),
        "the requests were made"
    );
    let (sent, not_payload) = (&CANARIES[..], [&CANARIES[..5], &CANARIES[6..]].concat());
    assert_clean("the log", &line.dispatcher.output(), sent);
    assert_clean("/metrics", &line.metrics().await, sent);
    let attempts = everything_in(&line.rig, "POSTHORN_ATTEMPTS").await;
    assert_clean("ATTEMPTS", &attempts, sent);
    let letters = everything_in(&line.rig, "POSTHORN_DLQ").await;
    assert_clean("DLQ", &letters, &not_payload);
    assert!(letters.contains("payload-canary"), "the letters were read");
}
