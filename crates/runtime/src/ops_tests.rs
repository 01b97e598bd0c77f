use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use super::*;
use crate::error::ExitKind;

async fn get_from(app: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn readyz_of(app: &Router) -> (StatusCode, Value) {
    let (status, body) = get_from(app, "/readyz").await;
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn ops_04_liveness_does_not_depend_on_anything() {
    let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
    let app = router(readiness.clone(), shutdown.clone());
    readiness.component("nats").not_ready("disconnected");
    shutdown.trigger();
    let (status, body) = get_from(&app, "/livez").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "ok\n"));
}

#[tokio::test(start_paused = true)]
async fn ops_04_readiness_names_the_stalled_loop() {
    let readiness = Readiness::new();
    let app = router(readiness.clone(), Shutdown::new());
    let nats = readiness.component("nats");
    let pull = readiness.component_with_heartbeat("pull", Duration::from_secs(10));
    assert_eq!(readyz_of(&app).await.0, StatusCode::SERVICE_UNAVAILABLE);
    nats.ready();
    pull.beat();
    assert_eq!(readyz_of(&app).await.0, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(12)).await;
    let (status, body) = readyz_of(&app).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let expected = json!({
        "ready": false,
        "draining": false,
        "components": [
            {"name": "nats", "ready": true},
            {"name": "pull", "ready": false, "reason": "stalled: no progress for 12s"},
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn ops_01_a_draining_process_takes_no_new_work() {
    let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
    let app = router(readiness.clone(), shutdown.clone());
    readiness.component("nats").ready();
    assert_eq!(readyz_of(&app).await.0, StatusCode::OK);
    shutdown.trigger();
    let (status, body) = readyz_of(&app).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["draining"], json!(true));
}

#[tokio::test]
async fn metrics_are_served_as_prometheus_text() {
    crate::metrics::install();
    metrics::counter!(crate::metrics::names::EVENTS_ACCEPTED_TOTAL).increment(1);
    let app = router(Readiness::new(), Shutdown::new());
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let (_, body) = get_from(&app, "/metrics").await;
    assert!(body.contains("posthorn_events_accepted_total 1"), "{body}");
    assert_eq!(get_from(&app, "/other").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_address_in_use_is_a_configuration_error_that_names_it() {
    let taken = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address).await.unwrap_err();
    assert_eq!(error.kind(), ExitKind::Config);
    assert!(error.chain().contains(&address.to_string()));
}

/// One request over a real connection; an empty answer where nobody listens any more.
async fn ask(address: SocketAddr, path: &str) -> String {
    let Ok(mut stream) = tokio::net::TcpStream::connect(address).await else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn ops_01_probes_answer_until_the_drain_is_over() {
    let (readiness, shutdown) = (Readiness::new(), Shutdown::new());
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = serve(listener, readiness, shutdown.clone());
    shutdown.trigger();
    assert!(ask(address, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 503"));
    assert!(shutdown.drain(Duration::from_secs(5)).await);
    server.await.unwrap();
    assert_eq!(ask(address, "/livez").await, "");
}
