//! A publisher's trace goes through every process to the receiver, and to a collector.

use crate::support::{SOON, Town, shared};
use posthorn_tests::api::send;
use posthorn_tests::wait::eventually;
use posthorn_tests::{Cluster, Receiver};
use serde_json::json;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parent() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

/// Trace id and span id of a well-formed `traceparent`.
fn parts(header: &str) -> (String, String) {
    let parts: Vec<&str> = header.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{header}");
    assert_eq!((parts[1].len(), parts[2].len()), (32, 16), "{header}");
    (parts[1].to_owned(), parts[2].to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_sees_the_publishers_trace_with_a_span_of_its_own() {
    let _machine = shared().await;
    let town = Town::start().await;
    town.endpoint("acme", "/hook", json!({})).await;
    let request = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("traceparent", parent());
    assert_eq!(send(request).await.unwrap().status, 202);
    let got = town.got("/hook", 1).await;
    let (trace, span) = parts(got[0].header("traceparent").unwrap());
    assert_eq!(trace, TRACE, "by HTTP");
    assert_ne!(span, SPAN);

    let context = async_nats::jetstream::new(town.cluster.nats.client().await.unwrap());
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("traceparent", parent().as_str());
    let subject = "posthorn.events.acme.a.b";
    let sent = context
        .publish_with_headers(subject, headers, "{}".into())
        .await;
    sent.unwrap().await.unwrap();
    let got = town.got("/hook", 2).await;
    let (trace, span) = parts(got[1].header("traceparent").unwrap());
    assert_eq!(trace, TRACE, "by NATS");
    assert_ne!(span, SPAN);

    // Without one, and with one that is malformed, a trace is begun.
    town.publish("acme", "{}").await;
    let got = town.got("/hook", 3).await;
    let (made, _) = parts(got[2].header("traceparent").unwrap());
    assert!(made != TRACE && made != "0".repeat(32));
    let sent = context.publish(subject, "{}".into()).await;
    sent.unwrap().await.unwrap();
    let got = town.got("/hook", 4).await;
    let (other, _) = parts(got[3].header("traceparent").unwrap());
    assert!(other != TRACE && other != made && other != "0".repeat(32));
    let broken = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("traceparent", "00-xyz");
    assert_eq!(send(broken).await.unwrap().status, 202);
    let got = town.got("/hook", 5).await;
    assert_ne!(
        parts(got[4].header("traceparent").unwrap()).0,
        "0".repeat(32)
    );
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_every_process_reach_a_collector_under_the_publishers_trace() {
    let _machine = shared().await;
    let collector = Receiver::start().await.unwrap();
    let builder = Cluster::builder()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
        .env("OTEL_BSP_SCHEDULE_DELAY", "200");
    let town = Town::of(builder).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let request = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("traceparent", parent());
    assert_eq!(send(request).await.unwrap().status, 202);
    town.got("/hook", 1).await;
    let trace = bytes_of(TRACE);
    for (service, span) in [
        ("posthorn-ingest", "request"),
        ("posthorn-scheduler", "fan_out"),
        ("posthorn-dispatcher", "attempt"),
    ] {
        let what = format!("the span of {service}");
        eventually(SOON, &what, || async {
            collector.requests_to("/v1/traces").iter().any(|request| {
                let body = request.body();
                contains(body, &trace)
                    && contains(body, service.as_bytes())
                    && contains(body, span.as_bytes())
            })
        })
        .await
        .unwrap();
    }
    let batches = collector.requests_to("/v1/traces");
    let secret = town.receiver.url("/hook");
    assert!(
        batches
            .iter()
            .all(|batch| !contains(batch.body(), secret.as_bytes()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_filter_does_not_break_the_trace() {
    let _machine = shared().await;
    let town = Town::of(Cluster::builder().env("POSTHORN_LOG", "error")).await;
    town.endpoint("acme", "/hook", json!({})).await;
    let request = town
        .api
        .publishing("acme", "a.b", "{}")
        .header("traceparent", parent());
    assert_eq!(send(request).await.unwrap().status, 202);
    let got = town.got("/hook", 1).await;
    assert_eq!(parts(got[0].header("traceparent").unwrap()).0, TRACE);
}
