use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use tracing::subscriber::with_default;

use super::*;
use crate::trace::{self, Traceparent};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// What `work` logs under `filter`.
fn logged(
    filter: &str,
    format: LogFormat,
    provider: Option<&SdkTracerProvider>,
    work: impl FnOnce(),
) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        subscriber::build(filter, format, false, move || writer.clone(), provider).unwrap();
    with_default(subscriber, work);
    lines.text()
}

fn parent() -> Traceparent {
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        .parse()
        .unwrap()
}

#[test]
fn at_warn_the_traceparent_is_kept() {
    let provider = SdkTracerProvider::builder().build();
    let text = logged("warn", LogFormat::Text, Some(&provider), || {
        let span = tracing::info_span!("attempt");
        trace::link(&span, &parent());
        let own = trace::of(&span).unwrap();
        assert_eq!(own.trace_id(), parent().trace_id());
        assert_ne!(own.span_id(), parent().span_id());
        span.in_scope(|| tracing::info!("not logged"));
    });
    assert_eq!(text, "");
}

#[test]
fn a_child_span_stays_in_the_trace() {
    let provider = SdkTracerProvider::builder().build();
    logged("off", LogFormat::Text, Some(&provider), || {
        let outer = tracing::info_span!("delivery");
        trace::link(&outer, &parent());
        let inner = outer.in_scope(|| tracing::info_span!("attempt"));
        let own = trace::of(&inner).unwrap();
        assert_eq!(own.trace_id(), parent().trace_id());
    });
}

#[test]
fn a_warning_says_what_it_is_about_also_at_warn() {
    let text = logged("warn", LogFormat::Text, None, || {
        let span = tracing::info_span!("attempt", delivery = "dlv_1");
        span.in_scope(|| tracing::warn!(status = 503, "endpoint failed"));
    });
    assert!(text.contains("attempt{delivery=\"dlv_1\"}"), "{text}");
    assert!(text.contains("status=503"), "{text}");
}

#[test]
fn json_is_one_object_a_line() {
    let text = logged("info", LogFormat::Json, None, || {
        let span = tracing::info_span!("attempt", delivery = "dlv_1");
        span.in_scope(|| tracing::info!(note = "a\nb", "sent"));
        tracing::debug!("not logged");
    });
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["message"], "sent");
    assert_eq!(line["note"], "a\nb");
    assert_eq!(line["span"]["delivery"], "dlv_1");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn directives_choose_per_crate_and_nonsense_is_refused() {
    let text = logged("off,posthorn_runtime=debug", LogFormat::Text, None, || {
        tracing::debug!("ours");
        tracing::error!(target: "other", "theirs");
    });
    assert!(text.contains("ours") && !text.contains("theirs"), "{text}");
    assert!(matches!(
        check_filter("a=b=c"),
        Err(TelemetryError::Filter(_))
    ));
    for misspelt in ["loud", "inof", "info,posthorn_dispatcher", "DEBUGG"] {
        let refused = check_filter(misspelt);
        assert!(matches!(refused, Err(TelemetryError::Level)), "{misspelt}");
    }
    for good in [
        "WARN",
        "off",
        "info,posthorn=debug",
        "[attempt{event}]=trace",
        "",
    ] {
        assert!(check_filter(good).is_ok(), "{good}");
    }
}

#[test]
fn dlq_06_foreign_libraries_never_print_what_passes_through_them() {
    let text = logged("trace", LogFormat::Text, None, || {
        tracing::trace!(target: "posthorn_broker", "ours at trace");
        tracing::debug!(target: "h2::codec", "theirs at debug");
        tracing::trace!(target: "h2::codec", "secret");
        tracing::info!(target: "async_nats::connector", "connected");
        tracing::debug!(target: "async_nats::jetstream", "secret");
        tracing::trace_span!(target: "async_nats", "op", secret = 1).in_scope(|| {
            tracing::info!(target: "posthorn_broker", "inside");
        });
    });
    for kept in ["ours at trace", "theirs at debug", "connected", "inside"] {
        assert!(text.contains(kept), "{text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn starting_twice_is_harmless() {
    let first = init("runtime", "off", LogFormat::Text).unwrap();
    let second = init("runtime", "info", LogFormat::Json).unwrap();
    assert!(first.flush(Duration::from_secs(2)));
    assert!(second.flush(Duration::from_secs(2)));
}

fn exporting_to(collector: SocketAddr) -> SdkTracerProvider {
    crate::tls::install_crypto_provider();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("http://{collector}/v1/traces"))
        .build()
        .unwrap();
    SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .build()
}

fn record_a_span(provider: &SdkTracerProvider) {
    logged("off", LogFormat::Text, Some(provider), || {
        tracing::info_span!("attempt-of-this-test").in_scope(|| {});
    });
}

#[test]
fn spans_reach_a_collector_before_the_flush_returns() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = exporting_to(listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || receive_one(&listener));
    record_a_span(&provider);
    let guard = TelemetryGuard {
        provider: Some(provider),
    };
    assert!(guard.flush(Duration::from_secs(20)));
    let request = collector.join().unwrap();
    let has = |text: &str| request.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has("POST /v1/traces HTTP/1.1"));
    assert!(has("attempt-of-this-test"));
}

/// Reads one request to the end of its body and answers 200.
fn receive_one(listener: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_complete(&request) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the exporter hung up early");
        request.extend_from_slice(&buffer[..read]);
    }
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .unwrap();
    request
}

fn is_complete(request: &[u8]) -> bool {
    let Some(head) = request.windows(4).position(|w| w == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().trim().parse().unwrap();
    request.len() >= head + 4 + length
}

#[test]
fn ops_01_a_collector_that_hangs_does_not_hold_the_process() {
    // It accepts in the kernel and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = exporting_to(listener.local_addr().unwrap());
    record_a_span(&provider);
    let guard = TelemetryGuard {
        provider: Some(provider),
    };
    let began = Instant::now();
    assert!(!guard.flush(Duration::from_millis(200)));
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}
