//! The document, the key, and the service as a whole.

use super::harness::{Api, KEY, connect, settings};
use axum::body::Body;
use axum::http::Request;
use posthorn_broker::Topology;
use posthorn_ingest::{Deps, description, serve};
use posthorn_runtime::{Readiness, Shutdown};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the contract promises.
const ROUTES: [&str; 16] = [
    "POST /v1/tenants/{tenant}/events/{type}",
    "POST /v1/tenants/{tenant}/events",
    "POST /v1/tenants/{tenant}/endpoints",
    "GET /v1/tenants/{tenant}/endpoints",
    "GET /v1/tenants/{tenant}/endpoints/{id}",
    "PATCH /v1/tenants/{tenant}/endpoints/{id}",
    "DELETE /v1/tenants/{tenant}/endpoints/{id}",
    "POST /v1/tenants/{tenant}/endpoints/{id}/pause",
    "POST /v1/tenants/{tenant}/endpoints/{id}/resume",
    "POST /v1/tenants/{tenant}/endpoints/{id}/test",
    "POST /v1/tenants/{tenant}/endpoints/{id}/recover",
    "POST /v1/tenants/{tenant}/endpoints/{id}/secret/rotate",
    "GET /v1/tenants/{tenant}/endpoints/{id}/secret",
    "GET /v1/tenants/{tenant}/endpoints/{id}/attempts",
    "POST /v1/secrets/reseal",
    "GET /v1/openapi.json",
];

fn described(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect()
}

#[test]
fn every_response_of_the_document_has_its_description_and_media_type() {
    let document = serde_json::to_value(description()).unwrap();
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

#[tokio::test]
async fn the_document_describes_every_route_and_no_other() {
    let api = Api::start().await;
    let served = Request::builder()
        .uri("/v1/openapi.json")
        .body(Body::empty());
    let served = api.send(served.unwrap()).await;
    assert_eq!(served.status, 200);
    assert_eq!(served.json, serde_json::to_value(description()).unwrap());
    let routes: BTreeSet<String> = ROUTES.map(str::to_owned).into();
    assert_eq!(described(&served.json), routes);
    // A route that is not described would be registered in one of these two ways.
    let registered = include_str!("../../src/router.rs");
    assert!(!registered.contains(".route(") && !registered.contains(".nest("));
    assert!(served.json["webhooks"]["delivery"]["post"].is_object());
    for schema in [
        "Problem",
        "Endpoint",
        "EndpointDocument",
        "Accepted",
        "BatchAnswer",
        "Attempt",
        "Ordering",
        "RateLimit",
    ] {
        assert!(
            served.json["components"]["schemas"][schema].is_object(),
            "{schema}"
        );
    }
}

#[test]
fn the_document_says_the_bounds_of_how_an_endpoint_flows() {
    let document = serde_json::to_value(description()).unwrap();
    let schemas = &document["components"]["schemas"];
    let names: Vec<&Value> = match &schemas["Ordering"]["oneOf"] {
        Value::Array(variants) => variants.iter().map(|variant| &variant["enum"][0]).collect(),
        _ => schemas["Ordering"]["enum"]
            .as_array()
            .unwrap()
            .iter()
            .collect(),
    };
    assert_eq!(names, ["none", "fifo"]);
    let rate = &schemas["RateLimit"]["properties"]["per_second"];
    assert_eq!(
        (rate["minimum"].as_f64(), rate["maximum"].as_f64()),
        (Some(0.01), Some(1e4))
    );
    let written = &schemas["EndpointDocument"]["properties"];
    for (field, most) in [("max_in_flight", 1_024), ("max_backlog", 1_000_000)] {
        assert_eq!(written[field]["minimum"], 1, "{field}");
        assert_eq!(written[field]["maximum"], most, "{field}");
    }
    for schema in ["Endpoint", "EndpointDocument"] {
        let text = schemas[schema]["properties"].to_string();
        assert!(text.contains("schemas/Ordering") && text.contains("schemas/RateLimit"));
        assert!(!text.contains("ot available"), "{schema}");
    }
}

#[tokio::test]
async fn every_reference_of_the_document_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = serde_json::to_value(description()).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 10);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn without_the_key_no_route_answers_anything_else() {
    let api = Api::start().await;
    for route in ROUTES
        .iter()
        .filter(|route| !route.ends_with("openapi.json"))
    {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path
            .replace("{tenant}", "acme")
            .replace("{type}", "a")
            .replace("{id}", "ep_00000000000000000000000000000001");
        for key in [
            None,
            Some("Bearer wrong"),
            Some("Basic dGVzdC1rZXk="),
            Some(KEY),
        ] {
            let start = Request::builder().method(method).uri(&path);
            let start = match key {
                Some(key) => start.header("authorization", key),
                None => start,
            };
            let answer = api.send(start.body(Body::from("{}")).unwrap()).await;
            assert_eq!(answer.status, 401, "{route}");
            assert!(answer.headers.contains_key("www-authenticate"));
        }
    }
    let nowhere = api.get("/v1/nothing").await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(nowhere.headers["content-type"], "application/problem+json");
    let method = api.call("PUT", "/v1/tenants/acme/endpoints", None).await;
    assert_eq!(method.status, 405);
    assert_eq!(method.headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn ops_01_the_service_serves_until_it_is_told_to_stop() {
    let api = Api::start().await;
    let broker = connect(&api.nats, Topology::new("posthorn")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, readiness) = (Shutdown::new(), Readiness::new());
    let deps = Deps {
        broker,
        readiness: readiness.clone(),
        listener,
    };
    let service = tokio::spawn(serve(settings(), deps, shutdown.clone()));
    let give_up = tokio::time::Instant::now() + Duration::from_secs(30);
    while !readiness.is_ready() {
        assert!(tokio::time::Instant::now() < give_up, "never ready");
        tokio::task::yield_now().await;
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /v1/tenants/acme/events/a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         connection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert_eq!(api.events().await.len(), 1);
    shutdown.trigger();
    service.await.unwrap().unwrap();
    assert!(shutdown.drain(Duration::from_secs(10)).await);
}

#[tokio::test]
async fn without_an_admin_key_it_refuses_to_start() {
    let api = Api::start().await;
    let mut open = settings();
    open.admin_key = None;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deps = Deps {
        broker: api.broker.clone(),
        readiness: Readiness::new(),
        listener,
    };
    let error = serve(open, deps, api.shutdown.clone()).await.unwrap_err();
    assert_eq!(error.kind().code(), 64);
}
