//! Logs to stderr, and traces to an OTLP collector where one is configured.
//!
//! The log filter belongs to the log layer alone. As a filter of the whole subscriber, `warn`
//! would remove the spans, and with them the `traceparent` of every request.
//!
//! The exporter is the blocking one on the batch processor's own thread: the asynchronous one
//! needs a runtime that is no longer there when the last spans are flushed. The flush is bounded,
//! because a collector that hangs must not eat the grace period of a restart.

mod otlp;
mod subscriber;

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogFormat;

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log filter is neither a level nor a list of directives.
    #[error(
        "the log filter must be a level (error, warn, info, debug, trace, off) or directives like `info,posthorn_dispatcher=debug`"
    )]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// A word stands alone in the log filter and is no level: a misspelt one would be taken for
    /// the name of a module, and nothing at all would be logged.
    #[error(
        "a word alone in the log filter must be a level (error, warn, info, debug, trace, off); a module takes one, like `posthorn_dispatcher=debug`"
    )]
    Level,
    /// An `OTEL_*` variable is wrong.
    #[error("cannot set up the trace exporter from the OTEL_* variables")]
    Exporter(#[source] opentelemetry_otlp::ExporterBuildError),
}

/// Keeps the trace exporter; [`flush`](Self::flush) it before the process ends.
#[derive(Debug)]
#[must_use = "spans are lost unless the guard is flushed at the end"]
pub struct TelemetryGuard {
    provider: Option<SdkTracerProvider>,
}

/// Starts logging for `posthorn-<service>`, and tracing where `OTEL_EXPORTER_OTLP_ENDPOINT` or
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set. When the process already has a subscriber, it
/// stays and this does nothing.
///
/// # Errors
/// [`TelemetryError`] when the filter or an `OTEL_*` variable cannot be read.
pub fn init(
    service: &str,
    filter: &str,
    format: LogFormat,
) -> Result<TelemetryGuard, TelemetryError> {
    check_filter(filter)?;
    if tracing::dispatcher::has_been_set() {
        return Ok(TelemetryGuard { provider: None });
    }
    let provider = otlp::provider(service, |name| std::env::var(name).ok())?;
    let colours = std::io::stderr().is_terminal();
    let subscriber =
        subscriber::build(filter, format, colours, std::io::stderr, provider.as_ref())?;
    // Lost against another thread's `init`: its subscriber is as good.
    let _ = subscriber.try_init();
    Ok(TelemetryGuard { provider })
}

/// Whether `filter` can be read.
///
/// # Errors
/// [`TelemetryError::Filter`] when it cannot.
pub fn check_filter(filter: &str) -> Result<(), TelemetryError> {
    subscriber::log_filter(filter).map(drop)
}

impl TelemetryGuard {
    /// Sends what is not yet sent and stops the exporter, within `timeout`. False when a span may
    /// have been lost.
    ///
    /// Call it outside of a tokio runtime's threads.
    pub fn flush(self, timeout: Duration) -> bool {
        let Some(provider) = self.provider else {
            return true;
        };
        // On a thread of its own, so that the bound holds whatever the exporter does with it.
        let (done, wait) = mpsc::channel();
        let stopping = std::thread::Builder::new()
            .name("telemetry-flush".to_owned())
            .spawn(move || {
                let flushed = provider.shutdown_with_timeout(timeout).is_ok();
                // The receiver is gone when the bound has passed; nobody is interested then.
                let _ = done.send(flushed);
            });
        stopping.is_ok() && wait.recv_timeout(timeout).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
