//! The receiver through a client it did not write, and through bare sockets.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::DEADLINE;

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(DEADLINE)
        .retry(reqwest::retry::never())
        .build()
        .unwrap()
}

async fn post(client: &reqwest::Client, url: &str) -> reqwest::Result<u16> {
    let response = client.post(url).body("x").send().await?;
    let status = response.status().as_u16();
    response.bytes().await?;
    Ok(status)
}

#[tokio::test]
async fn a_request_is_recorded_as_it_came() {
    let receiver = Receiver::start().await.unwrap();
    let before = Instant::now();
    let response = client()
        .post(receiver.url("/hook?key=1"))
        .header("Webhook-Id", "evt_1")
        .body(&b"\x00\xff{}"[..])
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let requests = receiver.wait_for(1, DEADLINE).await.unwrap();
    let request = &requests[0];
    assert_eq!(request.method(), "POST");
    assert_eq!(request.path(), "/hook");
    assert_eq!(request.target(), "/hook?key=1");
    assert_eq!(request.webhook_id(), "evt_1");
    assert_eq!(request.body().as_ref(), b"\x00\xff{}");
    assert_eq!(request.answered(), Some(200));
    assert!(request.at() >= before && request.at() <= Instant::now());
    assert!(request.unix_ms() > 1_600_000_000_000);
}

#[tokio::test]
async fn a_script_is_followed_and_then_the_default() {
    let receiver = Receiver::start().await.unwrap();
    let client = client();
    receiver.script("/a", [Reply::status(503), Reply::status(404)]);
    receiver.answer("/a", Reply::status(204));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(post(&client, &receiver.url("/a")).await.unwrap());
    }
    assert_eq!(statuses, [503, 404, 204, 204]);
    // Another path has a script of its own, which is none.
    assert_eq!(post(&client, &receiver.url("/b")).await.unwrap(), 200);
    assert_eq!(receiver.requests_to("/a").len(), 4);
    assert_eq!(receiver.count(), 5);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn an_answer_can_depend_on_the_request() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_by("/", |request| {
        Reply::status(if request.webhook_id() == "bad" {
            500
        } else {
            200
        })
        .header("retry-after", "7")
        .body("why")
    });
    for (id, status) in [("bad", 500), ("good", 200)] {
        let response = client()
            .post(receiver.url("/"))
            .header("webhook-id", id)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.bytes().await.unwrap(), "why");
    }
}

#[tokio::test]
async fn a_delay_is_kept() {
    let receiver = Receiver::start().await.unwrap();
    let delay = Duration::from_millis(120);
    receiver.answer("/", Reply::ok().delay(delay));
    let begin = Instant::now();
    post(&client(), &receiver.url("/")).await.unwrap();
    assert!(begin.elapsed() >= delay);
    assert!(receiver.requests()[0].answered_after().unwrap() >= delay);
}

#[tokio::test]
async fn one_that_hangs_is_recorded_and_has_not_answered() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/", Reply::hang());
    let client = client();
    let url = receiver.url("/");
    let sending = tokio::spawn(async move { post(&client, &url).await });
    let requests = receiver.wait_for(1, DEADLINE).await.unwrap();
    assert_eq!(requests[0].answered(), None);
    assert_eq!(receiver.most_at_once("/"), 1);
    sending.abort();
}

#[tokio::test]
async fn every_way_to_break_an_answer_breaks_it() {
    let receiver = Receiver::start().await.unwrap();
    let client = client();
    let broken = [
        Reply::close(),
        Reply::reset(),
        Reply::raw("HTTP/9 what\r\n\r\n"),
        Reply::ok().body("0123456789").truncate(),
    ];
    let count = broken.len();
    receiver.script("/", broken);
    for _ in 0..count {
        assert!(post(&client, &receiver.url("/")).await.is_err());
    }
    assert!(
        receiver
            .requests()
            .iter()
            .all(|request| request.answered().is_none())
    );
    assert_eq!(post(&client, &receiver.url("/")).await.unwrap(), 200);
}

#[tokio::test]
async fn a_reset_is_a_reset_and_a_close_is_an_end() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/", [Reply::close(), Reply::reset()]);
    let mut ends = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        ends.push(stream.read_to_end(&mut rest).await.map_err(|e| e.kind()));
    }
    assert_eq!(ends, [Ok(0), Err(std::io::ErrorKind::ConnectionReset)]);
}

#[tokio::test]
async fn a_dripped_answer_arrives_whole_and_slowly() {
    let receiver = Receiver::start().await.unwrap();
    let pause = Duration::from_millis(3);
    receiver.script(
        "/",
        [
            Reply::ok().body("0123456789").drip_body(pause),
            Reply::ok().body("ok").drip_head(pause),
        ],
    );
    for (body, bytes) in [("0123456789", 10), ("ok", 38)] {
        let begin = Instant::now();
        let response = client().post(receiver.url("/")).send().await.unwrap();
        assert_eq!(response.bytes().await.unwrap(), body);
        assert!(begin.elapsed() >= pause * bytes);
    }
}

#[tokio::test]
async fn an_endless_body_goes_on() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/", Reply::ok().endless());
    let mut response = client().post(receiver.url("/")).send().await.unwrap();
    let mut length = 0;
    while length < 5_000_000 {
        length += response.chunk().await.unwrap().unwrap().len();
    }
}

#[tokio::test]
async fn an_early_answer_does_not_wait_for_the_body() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_early("/", Reply::status(413));
    let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\nabc")
        .await
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
}

#[tokio::test]
async fn an_unannounced_close_leaves_a_stale_connection() {
    let receiver = Receiver::start().await.unwrap();
    receiver.script("/", [Reply::ok().close_after()]);
    let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_high_water_mark_is_what_was_in_hand_at_once() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_by("/held", |_| Reply::hang());
    let senders: Vec<_> = (0..7)
        .map(|_| {
            let (client, url) = (client(), receiver.url("/held"));
            tokio::spawn(async move { post(&client, &url).await })
        })
        .collect();
    receiver.wait_for_path("/held", 7, DEADLINE).await.unwrap();
    let client = client();
    for _ in 0..20 {
        post(&client, &receiver.url("/one-by-one")).await.unwrap();
    }
    assert_eq!(receiver.most_at_once("/held"), 7);
    assert_eq!(receiver.most_at_once("/one-by-one"), 1);
    senders.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_stopped_receiver_refuses_and_comes_back_on_its_port() {
    let mut receiver = Receiver::start().await.unwrap();
    let (client, url) = (client(), receiver.url("/"));
    post(&client, &url).await.unwrap();
    receiver.stop().await;
    assert!(post(&client, &url).await.unwrap_err().is_connect());
    receiver.restart().await.unwrap();
    post(&client, &url).await.unwrap();
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn too_few_requests_are_an_error_that_says_how_many() {
    let receiver = Receiver::start().await.unwrap();
    post(&client(), &receiver.url("/")).await.unwrap();
    let waiting = receiver.wait_for(2, Duration::from_millis(20));
    let error = waiting.await.unwrap_err().to_string();
    assert!(error.contains("1 of 2"), "{error}");
    receiver.clear();
    assert_eq!(receiver.count(), 0);
}

/// Suites send thousands of requests a second in a debug build; a receiver that is itself the
/// bottleneck would measure nothing. The bound is a fifth of what two quiet cores do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_takes_thousands_of_requests_a_second() {
    const EACH: usize = 1_000;
    const SENDERS: usize = 8;
    let receiver = Receiver::start().await.unwrap();
    let begin = Instant::now();
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let address = receiver.address();
            tokio::spawn(async move { flood(address, EACH).await })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap().unwrap();
    }
    let took = begin.elapsed();
    assert_eq!(receiver.count(), EACH * SENDERS);
    assert!(
        took < Duration::from_millis(2_600),
        "8000 requests took {took:?}"
    );
}

async fn flood(address: SocketAddr, count: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = b"POST /flood HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n\
        user-agent: u\r\nwebhook-id: evt_1\r\nwebhook-timestamp: 1\r\n\
        webhook-signature: v1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=\r\n\
        content-length: 16\r\n\r\n{\"id\":\"12345678}";
    let mut answer = [0; 38];
    for _ in 0..count {
        stream.write_all(request).await?;
        stream.read_exact(&mut answer).await?;
    }
    Ok(())
}
