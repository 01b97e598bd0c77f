//! An explicit egress proxy: everything goes through it, and the guard still stands before it.

use crate::support::{SOON, attempts_at, letters, line_with, send};
use posthorn_delivery::{Disposition, Reason};
use posthorn_dispatcher::Settings;
use posthorn_tests::dns::{DnsAnswer, DnsServer};
use posthorn_tests::receiver::Receiver;
use posthorn_tests::rig::endpoint;
use posthorn_tests::tls::{Authority, TlsFront, Validity};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A proxy for tunnels, to any port of this machine.
struct Tunnels {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Tunnels {
    async fn start() -> Tunnels {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heads = asked.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, heads.clone()));
            }
        });
        Tunnels {
            port,
            asked,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn tunnel(mut outside: TcpStream, heads: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(outside.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let port = head
        .split([':', ' '])
        .nth(2)
        .and_then(|port| port.parse().ok());
    heads.lock().unwrap().push(head);
    let mut inside = TcpStream::connect(("127.0.0.1", port.unwrap_or(0)))
        .await
        .unwrap();
    outside
        .write_all(b"HTTP/1.1 200 Go on\r\n\r\n")
        .await
        .unwrap();
    // Either side may end first.
    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
}

/// Names: one that may be called, one that may not.
async fn names() -> DnsServer {
    let dns = DnsServer::start().await.unwrap();
    dns.script("good.example.com", [DnsAnswer::of(&["127.0.0.1"])]);
    dns.script("bad.example.com", [DnsAnswer::of(&["10.0.0.5"])]);
    dns
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_08_plain_deliveries_go_through_the_configured_proxy_and_forbidden_names_do_not() {
    let dns = names().await;
    let proxy = Receiver::start().await.unwrap();
    let settings = Settings {
        dns_servers: vec![dns.address()],
        egress_proxy: Some(format!("http://us:pw@{}", proxy.address())),
        ..Settings::default()
    };
    let rig = line_with(settings).await;
    rig.put(&endpoint("acme", "http://bad.example.com/hook"))
        .await
        .unwrap();
    rig.put(&endpoint("acme", "http://10.0.0.6/hook"))
        .await
        .unwrap();
    let good = endpoint("acme", "http://good.example.com/hook?a=1");
    rig.put(&good).await.unwrap();
    send(&rig, "acme", "{}").await;
    let letters = letters(&rig, 2).await;
    assert!(
        letters
            .iter()
            .all(|letter| letter.reason == Reason::EgressDenied)
    );
    let recorded = attempts_at(&rig, &good, 1).await;
    assert_eq!(recorded[0].disposition, Disposition::Complete);
    let got = proxy.requests();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].target(), "http://good.example.com/hook?a=1");
    assert_eq!(got[0].header("proxy-authorization"), Some("Basic dXM6cHc="));
    assert_eq!(got[0].header("authorization"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ssrf_08_secure_deliveries_go_through_a_tunnel_and_forbidden_names_do_not() {
    let dns = names().await;
    let proxy = Tunnels::start().await;
    let authority = Authority::new().unwrap();
    let trusted = authority.file().unwrap();
    let receiver = Receiver::start().await.unwrap();
    let config = authority
        .server("good.example.com", Validity::Now, &[])
        .unwrap();
    let front = TlsFront::start(config, receiver.address()).await.unwrap();
    let settings = Settings {
        dns_servers: vec![dns.address()],
        egress_proxy: Some(format!("http://us:pw@127.0.0.1:{}", proxy.port)),
        egress_ca: Some(trusted.path().to_owned()),
        ..Settings::default()
    };
    let rig = line_with(settings).await;
    let port = front.port();
    rig.put(&endpoint(
        "acme",
        &format!("https://good.example.com:{port}/hook"),
    ))
    .await
    .unwrap();
    rig.put(&endpoint(
        "acme",
        &format!("https://bad.example.com:{port}/hook"),
    ))
    .await
    .unwrap();
    send(&rig, "acme", "{}").await;
    assert_eq!(letters(&rig, 1).await[0].reason, Reason::EgressDenied);
    let got = receiver.wait_for(1, SOON).await.unwrap();
    assert_eq!(
        got[0].header("proxy-authorization"),
        None,
        "the receiver sees it"
    );
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with(&format!("CONNECT good.example.com:{port} ")));
    assert!(asked[0].contains("Basic dXM6cHc="));
}
