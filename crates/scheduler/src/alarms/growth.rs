//! The number of dead letters over the last half hour.

use posthorn_delivery::UnixMillis;
use std::collections::VecDeque;
use std::time::Duration;

/// Dead letters are compared with their number so long ago.
const GROWTH: Duration = Duration::from_secs(30 * 60);
/// Between two counts that are kept.
const SAMPLE: Duration = Duration::from_secs(30);

/// The counts of the last half hour.
#[derive(Default)]
pub(super) struct Growth {
    samples: VecDeque<(UnixMillis, u64)>,
}

impl Growth {
    /// How many more there are than half an hour ago, and how long ago that was exactly: less
    /// where the process is younger.
    pub fn take_in(&mut self, letters: u64, now: UnixMillis) -> (u64, Duration) {
        let newest = self.samples.back();
        if newest.is_none_or(|(at, _)| now.since(*at) >= SAMPLE) {
            self.samples.push_back((now, letters));
        }
        while self.samples.len() > 1 && now.since(self.samples[0].0) > GROWTH {
            self.samples.pop_front();
        }
        let (at, then) = self.samples[0];
        (letters.saturating_sub(then), now.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_over_half_an_hour_and_no_longer() {
        let mut growth = Growth::default();
        let at = |minutes: i64| UnixMillis(minutes * 60_000);
        assert_eq!(growth.take_in(50, at(0)), (0, Duration::ZERO));
        assert_eq!(growth.take_in(80, at(10)).0, 30);
        assert_eq!(growth.take_in(150, at(30)).0, 100);
        let (more, within) = growth.take_in(150, at(35));
        assert_eq!((more, within), (70, Duration::from_secs(25 * 60)));
        assert_eq!(growth.take_in(20, at(36)).0, 0, "fewer is no growth");
    }
}
