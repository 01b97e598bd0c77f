//! The figures, side by side.

use super::args::BenchArgs;
use super::cpu::CpuSeconds;
use crate::failure::Failure;
use crate::output::{self, Output};
use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// Everything that was measured.
pub(crate) struct Report {
    pub args: BenchArgs,
    pub product: Product,
    /// The dispatcher alone, on deliveries that are there already.
    pub dispatcher: Measured,
    pub bare: Bare,
}

/// One rate, and what it cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    count: u64,
    seconds: f64,
    per_second: f64,
    cpu_seconds_per_10k: CpuSeconds,
}

/// The product's figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Product {
    throughput: Measured,
    latency_at_per_second: u32,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    latency_max_ms: f64,
}

/// The bare parts' figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bare {
    /// Pull, post, acknowledge.
    pub pull_post_ack: Measured,
    /// Fetch and acknowledge.
    pub fetch_and_ack: Measured,
    /// Post.
    pub post: Measured,
}

impl Measured {
    /// `count` in `took`.
    pub fn new(count: u64, took: Duration, cpu: CpuSeconds) -> Measured {
        let seconds = took.as_secs_f64();
        Measured {
            count,
            seconds,
            per_second: match seconds > 0.0 {
                true => to_f64(count) / seconds,
                false => 0.0,
            },
            cpu_seconds_per_10k: cpu,
        }
    }

    fn cpu(&self) -> Option<f64> {
        let cpu = self.cpu_seconds_per_10k;
        Some(cpu.process? + cpu.nats_server?)
    }
}

impl Product {
    /// A throughput, and latencies in microseconds at a rate of events.
    pub fn new(throughput: Measured, rate: u32, latencies: &Histogram<u64>) -> Product {
        let millis = |micros: u64| to_f64(micros) / 1_000.0;
        Product {
            throughput,
            latency_at_per_second: rate,
            latency_p50_ms: millis(latencies.value_at_quantile(0.5)),
            latency_p99_ms: millis(latencies.value_at_quantile(0.99)),
            latency_max_ms: millis(latencies.max()),
        }
    }
}

/// Prints the report.
///
/// # Errors
/// [`Failure::Closed`].
pub(crate) fn show(report: &Report, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => output::line(&as_json(report).to_string()),
        Output::Table => output::line(&as_text(report)),
    }
}

fn as_json(report: &Report) -> serde_json::Value {
    let args = &report.args;
    let (product, bare) = (report.product.throughput, &report.bare);
    json!({
        "debug_build": cfg!(debug_assertions),
        "endpoints": args.endpoints,
        "events": args.events,
        "payload_bytes": args.payload,
        "concurrency": args.concurrency,
        "product": report.product,
        "dispatcher": report.dispatcher,
        "bare": bare,
        "ratio": {
            "dispatcher_to_pull_post_ack": report.dispatcher.per_second / bare.pull_post_ack.per_second,
            "rate_to_pull_post_ack": product.per_second / bare.pull_post_ack.per_second,
            "rate_to_post": product.per_second / bare.post.per_second,
            "cpu_to_pull_post_ack": ratio(product.cpu(), bare.pull_post_ack.cpu()),
        },
    })
}

fn as_text(report: &Report) -> String {
    let (args, product) = (&report.args, &report.product);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "",
        "per second",
        "to bare pull, POST, ack",
        "CPU s per 10,000",
        "this process",
        "nats-server",
    ]);
    let bare = &report.bare;
    let limit = bare.pull_post_ack.per_second;
    for (name, measured) in [
        ("Posthorn, whole line", &product.throughput),
        ("Posthorn, dispatcher alone", &report.dispatcher),
        ("bare pull, POST, ack", &bare.pull_post_ack),
        ("bare fetch and ack", &bare.fetch_and_ack),
        ("bare POST", &bare.post),
    ] {
        table.add_row(row(name, measured, Some(measured.per_second / limit)));
    }
    for index in 1..=5 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "{} events of {} bytes to {} endpoints, {} requests in flight, one run each\n\n{}\n\n\
         The whole line is publishing, fan-out, the attempt and its record; the dispatcher alone \
         and the bare parts find their messages ready.\n\
         Latency from publish to arrival at {} events/s: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        args.events,
        args.payload,
        args.endpoints,
        args.concurrency,
        table.trim_fmt(),
        product.latency_at_per_second,
        product.latency_p50_ms,
        product.latency_p99_ms,
        product.latency_max_ms,
    )
}

fn row(name: &str, measured: &Measured, ratio: Option<f64>) -> [String; 6] {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    let cpu = measured.cpu_seconds_per_10k;
    [
        name.to_owned(),
        format!("{:.0}", measured.per_second),
        figure(ratio),
        figure(measured.cpu()),
        figure(cpu.process),
        figure(cpu.nats_server),
    ]
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b.filter(|b| *b > 0.0)?)
}

/// A count as a number to calculate with; exact up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
pub(crate) fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let measured = |count, process| {
            let cpu = CpuSeconds {
                process,
                nats_server: process,
            };
            Measured::new(count, Duration::from_secs(2), cpu)
        };
        let mut latencies = Histogram::new(3).unwrap();
        for micros in 1..=1_000 {
            latencies.record(micros).unwrap();
        }
        Report {
            args: BenchArgs {
                endpoints: 1,
                events: 100,
                payload: 1_024,
                concurrency: 8,
                publishers: 8,
                rate: 50,
                seconds: 1,
                scenario: Default::default(),
            },
            product: Product::new(measured(100, Some(1.0)), 50, &latencies),
            dispatcher: measured(150, Some(0.75)),
            bare: Bare {
                pull_post_ack: measured(200, Some(0.5)),
                fetch_and_ack: measured(1_000, None),
                post: measured(400, Some(0.25)),
            },
        }
    }

    #[test]
    fn the_ratio_is_the_products_share_of_the_bare_rate() {
        let json = as_json(&sample());
        assert_eq!(json["product"]["throughput"]["per_second"], 50.0);
        assert_eq!(json["ratio"]["rate_to_pull_post_ack"], 0.5);
        assert_eq!(json["ratio"]["dispatcher_to_pull_post_ack"], 0.75);
        assert_eq!(json["ratio"]["cpu_to_pull_post_ack"], 2.0);
        assert_eq!(json["product"]["latency_p50_ms"], 0.5);
    }

    #[test]
    fn a_figure_that_the_system_does_not_tell_is_left_out() {
        let text = as_text(&sample());
        let line = text.lines().find(|l| l.contains("fetch and ack")).unwrap();
        assert_eq!(line.matches('-').count(), 3, "{line}");
        assert!(text.contains("p50 0.50 ms"), "{text}");
    }
}
