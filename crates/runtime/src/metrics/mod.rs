//! Metrics in Prometheus' text form, served by [`crate::ops`].
//!
//! What is counted is a written contract: [`names`] holds each metric with its kind, unit and
//! help, and a service takes the name from there, so a chart or an alert cannot be broken by a
//! typing error.

pub mod names;

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusRecorder;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use tokio::task::JoinHandle;

use crate::shutdown::Shutdown;

/// Upper bounds of histogram buckets in seconds, from a local call to the longest timeout.
const LATENCY_BUCKETS: [f64; 15] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// The same for a whole delivery, which retries may stretch to days.
const DELIVERY_BUCKETS: [f64; 18] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0,
    7_200.0, 28_800.0, 86_400.0,
];

/// Histograms are drained this often; without it their samples pile up between scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder and describes every metric. The second call does nothing: a process has
/// one recorder, also where several services share it.
pub fn install() {
    HANDLE.get_or_init(|| {
        let recorder = recorder().expect("the bucket lists are not empty");
        let handle = recorder.handle();
        // Refused only when someone else's recorder is installed; ours then renders nothing.
        let _ = metrics::set_global_recorder(recorder);
        names::describe();
        begin_at_zero(&[names::BROKER_PUBLISH_FAILURES_TOTAL]);
        handle
    });
}

fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let delivery = Matcher::Full(names::DELIVERY_LATENCY_SECONDS.to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(seconds, &LATENCY_BUCKETS)?
        .set_buckets_for_metric(delivery, &DELIVERY_BUCKETS)?;
    Ok(builder.build_recorder())
}

/// Shows metrics at zero before anything has happened; each service says which are its own. A
/// counter that comes with its first count has no rise that a monitoring system could see, and a
/// name that is not there yet looks like one that does not exist. What has labels is not begun
/// here: only its service knows their values.
pub fn begin_at_zero(names: &[&str]) {
    let begun = |metric: &&names::Metric| names.contains(&metric.name) && metric.labels.is_empty();
    for metric in names::ALL.iter().filter(begun) {
        match metric.kind {
            names::Kind::Counter => metrics::counter!(metric.name).increment(0),
            names::Kind::Gauge => metrics::gauge!(metric.name).increment(0.0),
            names::Kind::Histogram => drop(metrics::histogram!(metric.name)),
        }
    }
}

/// Everything recorded so far in Prometheus' text format; empty before [`install`].
#[must_use]
pub fn render() -> String {
    HANDLE
        .get()
        .map(PrometheusHandle::render)
        .unwrap_or_default()
}

/// Keeps histograms small, every 5 seconds until the drain is over. Call it inside a tokio
/// runtime.
pub fn spawn_upkeep(shutdown: Shutdown) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut every = tokio::time::interval(UPKEEP_EVERY);
        loop {
            tokio::select! {
                () = shutdown.drained() => return,
                _ = every.tick() => {}
            }
            if let Some(handle) = HANDLE.get() {
                handle.run_upkeep();
            }
        }
    })
}

#[cfg(test)]
mod tests;
