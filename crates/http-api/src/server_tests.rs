use super::*;
use axum::routing::{get, post};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

struct Running {
    address: std::net::SocketAddr,
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<()>,
}

async fn start(router: Router, limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let task = tokio::spawn(serve(listener, router, shutdown.clone(), limits));
    Running {
        address,
        shutdown,
        task,
    }
}

/// Sends `request` on a connection of its own and reads until the other side closes.
async fn exchange(server: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap().to_ascii_lowercase()
}

fn head(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

async fn fall_over() -> &'static str {
    panic!("as the test wants it")
}

#[tokio::test]
async fn whatever_goes_wrong_is_a_problem() {
    let router = Router::new()
        .route("/here", get(|| async { "ok" }))
        .route("/panic", get(fall_over));
    let server = start(router, Limits::default()).await;
    for (method, path, status, kind) in [
        ("GET", "/nowhere", "404", "not-found"),
        ("POST", "/here", "405", "method-not-allowed"),
        ("GET", "/panic", "500", "internal"),
    ] {
        let answer = exchange(&server, &head(method, path)).await;
        assert!(
            answer.starts_with(&format!("http/1.1 {status}")),
            "{answer}"
        );
        assert!(
            answer.contains("content-type: application/problem+json"),
            "{answer}"
        );
        assert!(
            answer.contains(&format!("urn:posthorn:problem:{kind}")),
            "{answer}"
        );
        assert!(answer.contains("x-request-id: "), "{answer}");
        assert!(!answer.contains("as the test wants it"), "{answer}");
    }
    let ok = exchange(&server, &head("GET", "/here")).await;
    assert!(ok.starts_with("http/1.1 200"), "{ok}");
    assert!(ok.contains("cache-control: no-store"), "{ok}");
}

#[tokio::test]
async fn ops_01_what_is_in_flight_is_finished_and_nothing_more_is_accepted() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (inside, wait) = (entered.clone(), leave.clone());
    let slow = move || async move {
        inside.notify_one();
        wait.notified().await;
        "done"
    };
    let server = start(Router::new().route("/slow", get(slow)), Limits::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    entered.notified().await;
    server.shutdown.trigger();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!server.task.is_finished());
    leave.notify_one();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("done"), "{answer}");
    server.task.await.unwrap();
    assert!(server.shutdown.drain(Duration::from_secs(10)).await);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let limits = Limits {
        header_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = start(Router::new(), limits).await;
    // Ends because the server closes, whatever it says before.
    exchange(&server, "GET / HTTP/1.1\r\nhost: x\r\n").await;
}

#[tokio::test]
async fn a_body_that_does_not_end_is_not_waited_for() {
    let limits = Limits {
        body_deadline: Duration::from_millis(50),
        ..Limits::default()
    };
    async fn read(request: axum::extract::Request) -> Result<String, Problem> {
        let bytes = crate::read_body(request.into_body(), 100).await?;
        Ok(bytes.len().to_string())
    }
    let server = start(Router::new().route("/", post(read)), limits).await;
    let request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab";
    let answer = exchange(&server, request).await;
    assert!(answer.starts_with("http/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_read_to_its_end_so_that_the_answer_arrives() {
    async fn read(request: axum::extract::Request) -> Result<String, Problem> {
        let bytes = crate::read_body(request.into_body(), 1_000).await?;
        Ok(bytes.len().to_string())
    }
    let server = start(Router::new().route("/", post(read)), Limits::default()).await;
    // More than fits into the buffers of a connection many times over.
    let body = "x".repeat(20_000_000);
    let chunked = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let declared = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for request in [chunked, declared] {
        let answer = exchange(&server, &request).await;
        assert!(answer.starts_with("http/1.1 413"), "{answer}");
        assert!(answer.contains("1000 bytes"), "{answer}");
    }
}

#[tokio::test]
async fn a_callers_request_id_is_kept_where_it_can_be_printed() {
    let server = start(Router::new(), Limits::default()).await;
    let with = |id: &str| {
        format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-request-id: {id}\r\n\r\n")
    };
    let kept = exchange(&server, &with("abc-1")).await;
    assert!(kept.contains("x-request-id: abc-1\r\n"), "{kept}");
    let replaced = exchange(&server, &with(&"a".repeat(129))).await;
    assert!(!replaced.contains("aaaa"), "{replaced}");
}
