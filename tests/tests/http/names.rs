//! Names and addresses: what may be called, and what becomes of names that do not resolve.

use crate::support::{SOON, attempts, attempts_at, letters, line_with, send, settled};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{DeadLetter, Disposition, Endpoint, Failure, Reason};
use posthorn_dispatcher::Settings;
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::receiver::{Receiver, Reply};
use posthorn_tests::rig::{Rig, endpoint, retry};
use std::time::{Duration, Instant};

const NAME: &str = "hooks.example.com";

/// A line that asks `dns`, and a receiver.
async fn line_asking(dns: &DnsServer) -> (Rig, Receiver) {
    let settings = Settings {
        dns_servers: vec![dns.address()],
        ..Settings::default()
    };
    (line_with(settings).await, Receiver::start().await.unwrap())
}

fn at(name: &str, receiver: &Receiver) -> Endpoint {
    let port = receiver.address().port();
    endpoint("acme", &format!("http://{name}:{port}/hook"))
}

fn is_denied(letter: &DeadLetter) -> bool {
    let denied = AttemptResult::Error(Failure::EgressDenied);
    letter.reason == Reason::EgressDenied && letter.history.iter().all(|a| a.result == denied)
}

#[tokio::test(flavor = "multi_thread")]
async fn http_07_a_name_that_does_not_resolve_yet_is_tried_again() {
    let dns = DnsServer::start().await.unwrap();
    dns.script(
        NAME,
        [
            DnsAnswer::NoName,
            DnsAnswer::NoName,
            DnsAnswer::of(&["127.0.0.1"]),
        ],
    );
    let (rig, receiver) = line_asking(&dns).await;
    let target = at(NAME, &receiver);
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    receiver.wait_for(1, SOON).await.unwrap();
    settled(&rig).await;
    let recorded = attempts_at(&rig, &target, 2).await;
    let (last, failed) = recorded.split_last().unwrap();
    assert!(!failed.is_empty());
    assert!(
        failed
            .iter()
            .all(|a| a.result == AttemptResult::Error(Failure::Dns))
    );
    assert_eq!(last.disposition, Disposition::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dns_server_that_fails_or_says_nothing_is_a_dns_failure_in_bounded_time() {
    let dns = DnsServer::start().await.unwrap();
    dns.script("broken.example.com", [DnsAnswer::Failure]);
    dns.script("silent.example.com", [DnsAnswer::Silence]);
    dns.script("empty.example.com", [DnsAnswer::of(&[])]);
    let (rig, receiver) = line_asking(&dns).await;
    let mut targets = Vec::new();
    for name in [
        "broken.example.com",
        "silent.example.com",
        "empty.example.com",
    ] {
        let mut target = at(name, &receiver);
        target.timeout = Duration::from_secs(60);
        target.retry = retry(Duration::from_millis(10), 1);
        rig.put(&target).await.unwrap();
        targets.push(target);
    }
    let begun = Instant::now();
    send(&rig, "acme", "{}").await;
    for target in &targets {
        let recorded = attempts_at(&rig, target, 1).await;
        assert_eq!(recorded[0].result, AttemptResult::Error(Failure::Dns));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_02_ssrf_06_one_forbidden_address_forbids_the_name() {
    let dns = DnsServer::start().await.unwrap();
    let answers: [(&str, &[&str]); 6] = [
        ("mapped.example.com", &["::ffff:10.0.0.5"]),
        (
            "mixed.example.com",
            &["127.0.0.1", "::ffff:169.254.169.254"],
        ),
        ("two.example.com", &["127.0.0.1", "10.0.0.9"]),
        ("turned.example.com", &["10.0.0.9", "127.0.0.1"]),
        ("six.example.com", &["127.0.0.1", "fd00::1"]),
        ("nat64.example.com", &["127.0.0.1", "64:ff9b::a9fe:a9fe"]),
    ];
    let (rig, receiver) = line_asking(&dns).await;
    for (name, addresses) in answers {
        dns.script(name, [DnsAnswer::of(addresses)]);
        rig.put(&at(name, &receiver)).await.unwrap();
    }
    send(&rig, "acme", "{}").await;
    let letters = letters(&rig, answers.len()).await;
    assert!(letters.iter().all(is_denied), "{letters:?}");
    assert!(letters.iter().all(|letter| letter.history.len() == 1));
    settled(&rig).await;
    assert_eq!((receiver.connections(), receiver.count()), (0, 0));
}

/// So many addresses of this machine at which nobody listens, and one more.
fn after(dead: u8, last: &str) -> DnsAnswer {
    let dead = (2..2 + dead).map(|n| format!("127.0.0.{n}"));
    let all: Vec<String> = dead.chain([last.to_owned()]).collect();
    DnsAnswer::of(&all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// An answer is as long as its owner likes: all of it is judged, and a few of it are tried.
#[tokio::test(flavor = "multi_thread")]
async fn ssrf_06_all_of_a_long_answer_is_judged_and_eight_addresses_of_it_are_tried() {
    let dns = DnsServer::start().await.unwrap();
    dns.script("eighth.example.com", [after(7, "127.0.0.1")]);
    dns.script("ninth.example.com", [after(8, "127.0.0.1")]);
    dns.script("hidden.example.com", [after(20, "10.0.0.5")]);
    let (rig, receiver) = line_asking(&dns).await;
    let [eighth, ninth, hidden] = ["eighth", "ninth", "hidden"].map(|name| {
        let mut target = at(&format!("{name}.example.com"), &receiver);
        target.retry = retry(Duration::from_millis(10), 1);
        target
    });
    for target in [&eighth, &ninth, &hidden] {
        rig.put(target).await.unwrap();
    }
    send(&rig, "acme", "{}").await;
    let result = async |target| attempts_at(&rig, target, 1).await[0].result;
    assert_eq!(result(&eighth).await, AttemptResult::Status(200));
    assert_eq!(result(&ninth).await, AttemptResult::Error(Failure::Connect));
    assert_eq!(
        result(&hidden).await,
        AttemptResult::Error(Failure::EgressDenied)
    );
    assert_eq!((receiver.connections(), receiver.count()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_05_the_address_that_was_checked_is_the_one_that_is_dialled() {
    let dns = DnsServer::start().await.unwrap();
    dns.script(
        NAME,
        [DnsAnswer::of(&["127.0.0.1"]), DnsAnswer::of(&["10.0.0.9"])],
    );
    let (rig, receiver) = line_asking(&dns).await;
    receiver.answer("/hook", Reply::ok().header("connection", "close"));
    rig.put(&at(NAME, &receiver)).await.unwrap();
    send(&rig, "acme", "{}").await;
    receiver.wait_for(1, SOON).await.unwrap();
    settled(&rig).await;
    assert_eq!(
        dns.lookups(NAME),
        1,
        "one look-up serves check and connection"
    );
    send(&rig, "acme", "{}").await;
    assert!(is_denied(&letters(&rig, 1).await[0]));
    assert_eq!((dns.lookups(NAME), receiver.count()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_02_ssrf_04_ssrf_09_forbidden_urls_are_dead_at_the_first_attempt() {
    let settings = Settings {
        egress_allow: Some(String::new()),
        ..Settings::default()
    };
    let rig = line_with(settings).await;
    let receiver = Receiver::start().await.unwrap();
    let port = receiver.address().port();
    let hosts = [
        "127.0.0.1",
        "10.0.0.5",
        "100.64.0.1",
        "0.1.2.3",
        "198.18.0.1",
        "192.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "224.0.0.1",
        "0xa9fea9fe",
        "[::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:10.0.0.5]",
        "[fe80::1]",
        "localhost.",
        "LOCALHOST",
        "api.localhost",
        "metadata.google.internal.",
    ];
    for host in hosts {
        rig.put(&endpoint("acme", &format!("http://{host}:{port}/hook")))
            .await
            .unwrap();
    }
    send(&rig, "acme", "{}").await;
    let letters = letters(&rig, hosts.len()).await;
    assert!(letters.iter().all(is_denied));
    assert_eq!(attempts(&rig).await.len(), hosts.len());
    assert_eq!(receiver.connections(), 0);
}
