//! The whole surface: who gets in, and that the document tells the truth.

use crate::room::{KEY, Room};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use posthorn_dlq_admin::{Deps, Settings, api, serve};
use posthorn_runtime::{ExitKind, Readiness, Shutdown};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The contract's own list.
const ROUTES: [(&str, &str); 35] = [
    ("GET", "/v1/dead-letters"),
    ("GET", "/v1/retention"),
    ("GET", "/v1/dead-letters/count"),
    ("GET", "/v1/dead-letters/{id}"),
    ("DELETE", "/v1/dead-letters/{id}"),
    ("POST", "/v1/dead-letters/{id}/replay"),
    ("POST", "/v1/dead-letters/purge"),
    ("POST", "/v1/replays"),
    ("GET", "/v1/replays"),
    ("GET", "/v1/replays/{id}"),
    ("POST", "/v1/replays/{id}/pause"),
    ("POST", "/v1/replays/{id}/resume"),
    ("POST", "/v1/replays/{id}/cancel"),
    ("GET", "/v1/deliveries"),
    ("GET", "/v1/attempts"),
    ("GET", "/v1/breakers"),
    ("GET", "/v1/breakers/{endpoint}"),
    ("POST", "/v1/breakers/{endpoint}/open"),
    ("POST", "/v1/breakers/{endpoint}/close"),
    ("GET", "/v1/lanes"),
    ("POST", "/v1/api-keys"),
    ("GET", "/v1/api-keys"),
    ("GET", "/v1/api-keys/{id}"),
    ("DELETE", "/v1/api-keys/{id}"),
    ("GET", "/v1/audit"),
    ("GET", "/v1/openapi.json"),
    ("GET", "/v1/overview"),
    ("GET", "/v1/endpoints"),
    ("GET", "/v1/endpoints/{endpoint}"),
    ("GET", "/session"),
    ("POST", "/session"),
    ("DELETE", "/session"),
    ("GET", "/ingest/tenants/{tenant}/endpoints"),
    ("GET", "/ingest/tenants/{tenant}/endpoints/{endpoint}"),
    (
        "POST",
        "/ingest/tenants/{tenant}/endpoints/{endpoint}/{action}",
    ),
];

fn documented() -> BTreeSet<(String, String)> {
    let document = serde_json::to_value(api::document()).unwrap();
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            found.insert((method.to_uppercase(), path.clone()));
        }
    }
    found
}

#[test]
fn every_response_of_the_document_has_its_description_and_media_type() {
    let document = serde_json::to_value(api::document()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            for (status, response) in call["responses"].as_object().unwrap() {
                let said = response["description"].as_str().unwrap_or_default();
                assert!(!said.is_empty(), "{method} {path} {status}");
                let problem = &response["content"]["application/problem+json"];
                let failed = status.as_str() >= "400";
                assert_eq!(problem.is_object(), failed, "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn the_document_has_every_route_of_the_contract_and_no_other() {
    let wanted: BTreeSet<_> = ROUTES
        .iter()
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(documented(), wanted);
}

#[tokio::test]
async fn every_documented_route_is_there_and_wants_a_key() {
    let room = Room::open().await;
    for (method, template) in documented() {
        let names = ["{id}", "{endpoint}", "{tenant}", "{action}"];
        let path = names
            .iter()
            .fold(template, |path, name| path.replace(name, "x"));
        for key in [None, Some("Bearer wrong"), Some("Basic b3A6"), Some(KEY)] {
            let mut request = Request::builder().method(method.as_str()).uri(&path);
            if let Some(key) = key {
                request = request.header(header::AUTHORIZATION, key);
            }
            let (status, _) = room.send(request.body(Body::empty()).unwrap()).await;
            let wanted = match (method.as_str(), path.as_str()) {
                ("GET", "/v1/openapi.json" | "/session") => StatusCode::OK,
                (_, "/session") => StatusCode::FORBIDDEN,
                _ => StatusCode::UNAUTHORIZED,
            };
            assert_eq!(status, wanted, "{method} {path} with {key:?}");
        }
    }
    let (status, problem) = room.call(Method::GET, "/v1/nothing", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(problem["title"], "Not found");
    let (status, _) = room.call(Method::PUT, "/v1/replays", "").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let document = room.get("/v1/openapi.json").await;
    assert!(document["components"]["schemas"]["LetterDetail"].is_object());
    assert!(document["components"]["securitySchemes"]["key"].is_object());
}

fn settings(key: Option<&str>) -> Settings {
    Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        admin_key: key.map(|key| key.parse().unwrap()),
        key_rate_limit: 0,
        ingest_url: None,
    }
}

async fn deps(room: &Room, readiness: &Readiness) -> (Deps, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deps = Deps {
        broker: room.broker.clone(),
        readiness: readiness.clone(),
        listener,
    };
    (deps, address)
}

#[tokio::test]
async fn without_an_admin_key_nothing_is_served() {
    let room = Room::open().await;
    let (deps, _) = deps(&room, &Readiness::new()).await;
    let error = serve(settings(None), deps, Shutdown::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ExitKind::Config);
}

#[tokio::test]
async fn the_service_becomes_ready_answers_and_drains() {
    let room = Room::open().await;
    let readiness = Readiness::new();
    let (deps, address) = deps(&room, &readiness).await;
    let shutdown = Shutdown::new();
    let service = tokio::spawn(serve(settings(Some(KEY)), deps, shutdown.clone()));
    crate::room::eventually("readiness", || async { readiness.is_ready().then_some(()) }).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "GET /v1/replays HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let request = format!("{head}authorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    shutdown.trigger();
    service.await.unwrap().unwrap();
    assert!(shutdown.drain(crate::room::PATIENCE).await);
}
