//! Figures out of arrivals.

use super::spot::Arrival;
use crate::bench::report::to_f64;
use std::time::Duration;

const NANOS_PER_MS: f64 = 1_000_000.0;

/// Latencies from sending to arrival, in milliseconds, sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    /// Of everything that says when it was sent.
    pub fn of(arrivals: &[Arrival]) -> Latencies {
        let pair = |arrival: &Arrival| Some((arrival.sent?, arrival.at));
        Latencies::between(arrivals.iter().filter_map(pair))
    }

    /// From the first to the second of each, both in nanoseconds.
    pub fn between(pairs: impl IntoIterator<Item = (u64, u64)>) -> Latencies {
        let mut millis: Vec<f64> = pairs
            .into_iter()
            .map(|(sent, came)| to_f64(came.saturating_sub(sent)) / NANOS_PER_MS)
            .collect();
        millis.sort_by(f64::total_cmp);
        Latencies(millis)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The nearest rank of a share from 0 to 1; infinite where there is nothing.
    pub fn quantile(&self, share: f64) -> f64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank between 1 and a count that is far below 2^53"
        )]
        let rank = (share * self.0.len() as f64).ceil() as usize;
        let found = self.0.get(rank.clamp(1, self.0.len().max(1)) - 1);
        found.copied().unwrap_or(f64::INFINITY)
    }
}

/// The middle one; infinite where there is none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() / 2)
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// The most and the fewest of sorted `times` that lie in a window of `length` that begins
/// between `from` and `to` less the window, moved by `step`. All in nanoseconds.
pub(crate) fn windows(times: &[u64], (from, to): (u64, u64), length: Duration) -> (usize, usize) {
    let length = nanos(length);
    let step = (length / 100).max(1);
    let (mut most, mut fewest) = (0, usize::MAX);
    let mut begin = from;
    while begin.saturating_add(length) <= to {
        let count = count_between(times, begin, begin + length);
        most = most.max(count);
        fewest = fewest.min(count);
        begin += step;
    }
    (most, if fewest == usize::MAX { 0 } else { fewest })
}

/// The longest time during which each quarter of a second had more than `limit` of sorted
/// `times` in it.
pub(crate) fn longest_above(times: &[u64], (from, to): (u64, u64), limit: f64) -> Duration {
    let quarter = Duration::from_millis(250);
    let step = nanos(quarter);
    let (mut longest, mut run, mut begin) = (0_u32, 0_u32, from);
    while begin < to {
        let count = count_between(times, begin, begin + step);
        let above = u32::try_from(count).is_ok_and(|count| f64::from(count) > limit);
        run = if above { run + 1 } else { 0 };
        longest = longest.max(run);
        begin += step;
    }
    quarter * longest
}

/// How many of sorted `times` lie from `from` on and before `to`.
pub(crate) fn count_between(times: &[u64], from: u64, to: u64) -> usize {
    let before = |limit| times.partition_point(|&at| at < limit);
    before(to).saturating_sub(before(from))
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let latencies = Latencies((1..=100).map(f64::from).collect());
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|share| latencies.quantile(share));
        assert_eq!(quantiles, [1.0, 50.0, 99.0, 100.0]);
        assert!(Latencies(Vec::new()).quantile(0.5).is_infinite());
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn every_window_counts_and_not_only_the_aligned_ones() {
        let second = nanos(Duration::from_secs(1));
        let times = [second - 1, second, second + 1, 5 * second];
        let window = windows(&times, (0, 6 * second), Duration::from_secs(1));
        assert_eq!(window, (3, 0));
    }

    #[test]
    fn what_is_above_for_a_while_is_measured_in_quarters() {
        let quarter = nanos(Duration::from_millis(250));
        let times: Vec<u64> = [1, 1, 1, 2, 2, 2, 5]
            .map(|q: u64| q * quarter)
            .into_iter()
            .collect();
        let above = longest_above(&times, (0, 6 * quarter), 2.0);
        assert_eq!(above, Duration::from_millis(500));
    }
}
