//! Percentiles, and whether delays are spread as they should be.

use std::time::Duration;

/// The `p`-th percentile (0 to 100) by the nearest-rank method: the smallest value that at
/// least `p` per cent of the values do not exceed. `None` of no values.
#[must_use]
pub fn percentile(values: &[Duration], p: f64) -> Option<Duration> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (p.clamp(0.0, 100.0) / 100.0 * to_f64(sorted.len())).ceil();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number between 0 and the length"
    )]
    let rank = rank as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The result of a Kolmogorov–Smirnov test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KolmogorovSmirnov {
    /// The largest distance between the empirical and the expected distribution, 0 to 1.
    pub distance: f64,
    /// How likely a distance at least so large is if the values are as expected.
    pub p_value: f64,
}

/// Tests whether `values` are spread evenly over `[0, upper]`.
///
/// The distance is the two-sided one-sample statistic D. The p-value is Kolmogorov's
/// asymptotic distribution, `Q(x) = 2 Σ (-1)^(k-1) exp(-2 k² x²)` (Kolmogorov, "Sulla
/// determinazione empirica di una legge di distribuzione", 1933), at
/// `x = (√n + 0.12 + 0.11/√n) D`, the correction for a finite n of Stephens ("Use of the
/// Kolmogorov-Smirnov, Cramér-von Mises and Related Statistics Without Extensive Tables",
/// 1970). It is good from about five values on. `None` of no values, or of an empty interval.
#[must_use]
pub fn uniform_test(values: &[f64], upper: f64) -> Option<KolmogorovSmirnov> {
    if values.is_empty() || upper <= 0.0 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = to_f64(sorted.len());
    let distance = sorted
        .iter()
        .enumerate()
        .map(|(index, value)| {
            let expected = (value / upper).clamp(0.0, 1.0);
            let below = expected - to_f64(index) / count;
            let above = to_f64(index + 1) / count - expected;
            below.max(above)
        })
        .fold(0.0, f64::max);
    let root = count.sqrt();
    Some(KolmogorovSmirnov {
        distance,
        p_value: kolmogorov_tail((root + 0.12 + 0.11 / root) * distance),
    })
}

/// The probability that Kolmogorov's variable exceeds `x`.
fn kolmogorov_tail(x: f64) -> f64 {
    // Below this the series converges slowly, and the tail differs from 1 by less than 1e-9.
    if x < 0.2 {
        return 1.0;
    }
    let mut sum = 0.0;
    let mut sign = 1.0;
    for k in 1..=100 {
        let k = f64::from(k);
        let term = (-2.0 * k * k * x * x).exp();
        sum += sign * term;
        if term < 1e-12 {
            break;
        }
        sign = -sign;
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a number of test values is far below 2^52"
)]
fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    fn close(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() < by, "{a} is not {b}");
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let values: Vec<Duration> = (1..=10).rev().map(Duration::from_millis).collect();
        let at = |p| percentile(&values, p).unwrap().as_millis();
        assert_eq!(at(0.0), 1);
        assert_eq!(at(50.0), 5);
        assert_eq!(at(51.0), 6);
        assert_eq!(at(90.0), 9);
        assert_eq!(at(99.0), 10);
        assert_eq!(at(100.0), 10);
        assert_eq!(percentile(&[], 50.0), None);
    }

    /// The critical values that every table of the distribution gives.
    #[test]
    fn the_tail_is_kolmogorovs() {
        close(kolmogorov_tail(1.2238), 0.10, 1e-4);
        close(kolmogorov_tail(1.3581), 0.05, 1e-4);
        close(kolmogorov_tail(1.6276), 0.01, 1e-4);
        close(kolmogorov_tail(1.9495), 0.001, 1e-5);
        close(kolmogorov_tail(0.5), 0.963_945, 1e-5);
        close(kolmogorov_tail(0.1), 1.0, 1e-9);
    }

    #[test]
    fn the_distance_is_the_largest_gap() {
        // Two values at a quarter and three quarters: each is a quarter away from a step.
        let test = uniform_test(&[7.5, 2.5], 10.0).unwrap();
        close(test.distance, 0.25, 1e-12);
        // All at one end.
        let test = uniform_test(&[0.0; 20], 10.0).unwrap();
        close(test.distance, 1.0, 1e-12);
        assert!(test.p_value < 1e-9);
    }

    #[test]
    fn even_values_pass_and_others_do_not() {
        let mut rng = StdRng::seed_from_u64(7);
        let even: Vec<f64> = (0..2_000).map(|_| rng.random_range(0.0..4.0)).collect();
        assert!(uniform_test(&even, 4.0).unwrap().p_value > 0.01);
        // Equal jitter: the upper half only.
        let upper: Vec<f64> = even.iter().map(|value| 2.0 + value / 2.0).collect();
        assert!(uniform_test(&upper, 4.0).unwrap().p_value < 1e-6);
        // A slight lean, which an eye would miss.
        let lean: Vec<f64> = even.iter().map(|v| 4.0 * (v / 4.0).powf(1.2)).collect();
        assert!(uniform_test(&lean, 4.0).unwrap().p_value < 0.001);
    }

    /// Under the hypothesis p-values are even themselves: about one in twenty is below 0.05.
    #[test]
    fn the_p_value_is_honest() {
        let mut rng = StdRng::seed_from_u64(11);
        let below = (0..2_000)
            .filter(|_| {
                let values: Vec<f64> = (0..50).map(|_| rng.random_range(0.0..1.0)).collect();
                uniform_test(&values, 1.0).unwrap().p_value < 0.05
            })
            .count();
        assert!((70..=130).contains(&below), "{below} of 2000");
    }

    #[test]
    fn of_nothing_there_is_nothing_to_say() {
        assert_eq!(uniform_test(&[], 1.0), None);
        assert_eq!(uniform_test(&[0.5], 0.0), None);
    }
}
