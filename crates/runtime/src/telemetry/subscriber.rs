//! The subscriber: a log layer and, where there is a provider, a trace layer.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, FilterFn, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::TelemetryError;
use crate::config::LogFormat;

type BoxedLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// `colours` only where a terminal reads along.
pub(super) fn build<W>(
    filter: &str,
    format: LogFormat,
    colours: bool,
    writer: W,
    provider: Option<&SdkTracerProvider>,
) -> Result<impl Subscriber + Send + Sync + use<W>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Our spans are kept at every level, so that a warning says which delivery it is about.
    let filter = log_filter(filter)?
        .or(our_spans())
        .and(filter_fn(|meta| is_discreet(meta.target(), *meta.level())));
    let logs = log_layer(format, colours, writer).with_filter(filter);
    let traces = provider.map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("posthorn"))
            .with_filter(our_spans_and_events())
    });
    Ok(Registry::default().with(logs).with(traces))
}

/// A level, or directives.
pub(super) fn log_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    // Within brackets a comma separates fields of a span, which are words too.
    if !filter.contains('[') && filter.split(',').any(is_misspelt_level) {
        return Err(TelemetryError::Level);
    }
    EnvFilter::builder()
        .parse(filter)
        .map_err(TelemetryError::Filter)
}

/// Whether a directive is a bare word and no level. What holds more than a word is a module's
/// or a span's own directive.
fn is_misspelt_level(directive: &str) -> bool {
    let word = directive.trim();
    let bare = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    bare && word
        .parse::<tracing_subscriber::filter::LevelFilter>()
        .is_err()
}

fn log_layer<S, W>(format: LogFormat, colours: bool, writer: W) -> BoxedLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => layer.with_ansi(colours).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

fn our_spans() -> FilterFn {
    filter_fn(|meta| meta.is_span() && is_ours(meta.target(), *meta.level()))
}

/// Ours alone: the exporter's own HTTP client would otherwise be traced, exported and traced.
fn our_spans_and_events() -> FilterFn {
    filter_fn(|meta| is_ours(meta.target(), *meta.level()))
}

fn is_ours(target: &str, level: Level) -> bool {
    target.starts_with("posthorn") && level <= Level::INFO
}

/// Whatever the filter says: a foreign library's finest words hold whole messages, and with
/// them URLs, secrets and payloads. The broker's client prints requests one level earlier.
fn is_discreet(target: &str, level: Level) -> bool {
    if target.starts_with("posthorn") {
        return true;
    }
    let most = if target.starts_with("async_nats") {
        Level::INFO
    } else {
        Level::DEBUG
    };
    level <= most
}
