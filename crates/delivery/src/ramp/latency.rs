//! Has the latency risen?
//!
//! Single answers say little: one receiver in ten pauses now and then, and with jitter the
//! lowest of a thousand answers is far below the usual. So answers are gathered in rounds, a
//! round is its median, and the baseline is the lowest median of late. It is forgotten after
//! ten to twenty seconds: an endpoint that has become slower for good is not slowed down for
//! it for ever.

/// A round ends with so many good answers,
const ENOUGH: usize = 25;
/// or after this time, in milliseconds,
const LONG_MS: u64 = 1_000;
/// if it has at least so many.
const FEWEST: usize = 8;
/// A baseline of one epoch and the one before is kept.
const EPOCH_MS: u64 = 10_000;
/// Latency is high above so many times the baseline: half of it is then waiting.
const HIGH_FACTOR: f64 = 2.0;
/// What is added to that, in milliseconds: a short queue is no harm, and with a few fast
/// workers it comes and goes by chance.
const SLACK_MS: f64 = 20.0;

/// Latencies of good answers, in milliseconds, up to the end of the round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    latencies: [f64; ENOUGH],
    count: usize,
    began: u64,
}

impl Round {
    pub(super) fn start(at: u64) -> Round {
        Round {
            latencies: [0.0; ENOUGH],
            count: 0,
            began: at,
        }
    }

    /// Adds a latency; returns the median when that ends the round. The next one has begun
    /// then.
    pub(super) fn add(&mut self, latency_ms: f64, at: u64) -> Option<f64> {
        self.latencies[self.count] = latency_ms;
        self.count += 1;
        let is_old = at.saturating_sub(self.began) >= LONG_MS;
        if self.count < ENOUGH && !(is_old && self.count >= FEWEST) {
            return None;
        }
        let gathered = &mut self.latencies[..self.count];
        gathered.sort_unstable_by(f64::total_cmp);
        let median = gathered[gathered.len() / 2];
        *self = Round::start(at);
        Some(median)
    }
}

/// The lowest median of this epoch and of the one before, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Baseline {
    current: Option<f64>,
    previous: Option<f64>,
    began: u64,
}

impl Baseline {
    /// Takes a round's median into account.
    pub(super) fn add(&mut self, median_ms: f64, at: u64) {
        if at.saturating_sub(self.began) >= EPOCH_MS {
            self.previous = self.current.take();
            self.began = at;
        }
        let lowest = self.current.map_or(median_ms, |low| low.min(median_ms));
        self.current = Some(lowest);
    }

    /// Only this is known from now on.
    pub(super) fn replace(&mut self, median_ms: f64, at: u64) {
        *self = Baseline {
            current: Some(median_ms),
            previous: None,
            began: at,
        };
    }

    /// How far `median_ms` is above the baseline, if that is high; none while it is not.
    pub(super) fn excess(&self, median_ms: f64) -> Option<f64> {
        let lowest = self.lowest()?;
        let is_high = median_ms > HIGH_FACTOR * lowest + SLACK_MS;
        is_high.then_some(median_ms - lowest)
    }

    fn lowest(&self) -> Option<f64> {
        match (self.current, self.previous) {
            (Some(current), Some(previous)) => Some(current.min(previous)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_median_of_enough_answers() {
        let mut round = Round::start(0);
        let medians: Vec<f64> = (0..50)
            .filter_map(|n| round.add(if n % 5 == 0 { 3_000.0 } else { 20.0 }, n))
            .collect();
        assert_eq!(medians, [20.0, 20.0]);
    }

    #[test]
    fn a_slow_endpoint_has_rounds_too() {
        let mut round = Round::start(0);
        let ends: Vec<u64> = (1..=20)
            .map(|n| n * 500)
            .filter(|at| round.add(900.0, *at).is_some())
            .collect();
        assert_eq!(ends, [4_000, 8_000]);
    }

    #[test]
    fn the_baseline_is_the_lowest_of_late_and_is_forgotten() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.excess(1_000.0), None, "nothing is known");
        baseline.add(20.0, 0);
        baseline.add(45.0, 100);
        assert_eq!(baseline.excess(60.0), None);
        assert_eq!(baseline.excess(100.0), Some(80.0));
        baseline.add(100.0, 10_000);
        assert_eq!(baseline.excess(100.0), Some(80.0), "still of late");
        baseline.add(100.0, 20_000);
        assert_eq!(baseline.excess(100.0), None);
    }

    #[test]
    fn a_receiver_of_one_millisecond_may_take_twenty() {
        let mut baseline = Baseline::default();
        baseline.add(1.0, 0);
        assert_eq!(baseline.excess(20.0), None);
        assert_eq!(baseline.excess(31.0), Some(30.0));
    }
}
