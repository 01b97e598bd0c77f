//! What a healthy endpoint felt of its neighbours.

use super::Verdict;
use super::neighbour::MAX_IN_FLIGHT;
use super::stats::{Latencies, median};
use std::time::Duration;

/// Latencies of one run.
pub(super) struct Run {
    pub baseline: Latencies,
    pub beside: Latencies,
    /// The same by tenth of the samples.
    pub slices: Vec<Latencies>,
    pub requests: usize,
    pub most_open: u64,
    pub most_connections: u64,
    /// Latencies while the trouble came in, which no bar is about.
    pub meanwhile: Latencies,
    pub came_in: Duration,
    pub left: u64,
    pub wanted: u64,
}

/// Says what was seen in all runs; of a neighbour that hangs also what it held.
pub(super) fn judge(verdict: &mut Verdict, hangs: bool, runs: &[Run]) {
    latencies(verdict, runs);
    let least = runs.iter().map(|run| run.left).min().unwrap_or(0);
    let wanted = runs.first().map_or(0, |run| run.wanted);
    // What it was asked to hold, less what its first requests were for.
    let still = least + 1_000 >= wanted || least * 10 >= wanted * 9;
    verdict.check(
        "still waiting at the end",
        format!("nearly all of {wanted}"),
        least.to_string(),
        still,
    );
    let most = |figure: fn(&Run) -> u64| runs.iter().map(figure).max().unwrap_or(0);
    let (open, connections) = (most(|run| run.most_open), most(|run| run.most_connections));
    if hangs {
        let bar = format!("at most {MAX_IN_FLIGHT}");
        let kept = |seen: u64| seen <= MAX_IN_FLIGHT;
        verdict.check(
            "requests in flight to the neighbour",
            &bar,
            open.to_string(),
            kept(open),
        );
        verdict.check(
            "connections of the neighbour",
            &bar,
            connections.to_string(),
            kept(connections),
        );
    }
    let requests: Vec<String> = runs.iter().map(|run| run.requests.to_string()).collect();
    verdict.figure("requests to the neighbour", requests.join(", "));
    let meanwhile: Vec<String> = runs
        .iter()
        .map(|run| {
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| run.meanwhile.quantile(share));
            format!(
                "{p50:.1}/{p99:.0}/{max:.0} in {:.1} s",
                run.came_in.as_secs_f64()
            )
        })
        .collect();
    verdict.figure(
        "healthy p50/p99/maximum while it came in, ms",
        meanwhile.join(", "),
    );
}

fn latencies(verdict: &mut Verdict, runs: &[Run]) {
    for (name, share, slack) in [("p50", 0.5, 0.5), ("p99", 0.99, 2.0)] {
        let of = |latencies: &Latencies| latencies.quantile(share);
        let over = median(runs.iter().map(|run| {
            let limit = of(&run.baseline) * 1.2 + slack;
            of(&run.beside) - limit
        }));
        let seen: Vec<String> = runs
            .iter()
            .map(|run| format!("{:.2} -> {:.2}", of(&run.baseline), of(&run.beside)))
            .collect();
        verdict.check(
            format!("healthy {name}, baseline -> beside, ms"),
            format!("1.2 times + {slack} ms (median run)"),
            format!("{} (median {over:+.2} to the bar)", seen.join(", ")),
            over <= 0.0,
        );
    }
    let worst: Vec<String> = runs
        .iter()
        .map(|run| {
            let (baseline, beside) = (&run.baseline, &run.beside);
            format!(
                "{:.1} -> {:.1}",
                baseline.quantile(1.0),
                beside.quantile(1.0)
            )
        })
        .collect();
    verdict.figure("healthy maximum, ms", worst.join(", "));
    for (n, run) in runs.iter().enumerate() {
        let slices: Vec<String> = run
            .slices
            .iter()
            .map(|slice| format!("{:.1}/{:.0}", slice.quantile(0.5), slice.quantile(0.99)))
            .collect();
        verdict.figure(
            format!("run {}: p50/p99 by tenth of the samples, ms", n + 1),
            slices.join(" "),
        );
    }
    let samples: Vec<String> = runs
        .iter()
        .map(|run| run.beside.len().to_string())
        .collect();
    verdict.figure("samples beside", samples.join(", "));
}
