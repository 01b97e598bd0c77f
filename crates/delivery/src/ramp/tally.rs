//! The answers of the last two seconds, counted in slots of 50 ms.

const SLOT_MS: u64 = 50;
const SLOTS_PER_SECOND: u64 = 1_000 / SLOT_MS;
const SLOTS: usize = 40;

/// What was answered in one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    good: u32,
    all: u32,
}

/// A ring over two seconds. Times are milliseconds since the ramp began and never go back.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    ring: [Slot; SLOTS],
    /// Number of the newest slot, counted from the beginning of the ramp.
    newest: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            ring: [Slot::default(); SLOTS],
            newest: 0,
        }
    }

    pub(super) fn add(&mut self, good: bool, at: u64) {
        self.advance(at);
        let slot = &mut self.ring[index(self.newest)];
        slot.all = slot.all.saturating_add(1);
        slot.good = slot.good.saturating_add(u32::from(good));
    }

    /// Empties what is older than two seconds.
    pub(super) fn advance(&mut self, at: u64) {
        let number = at / SLOT_MS;
        let from = (self.newest + 1).max(number.saturating_sub(SLOTS as u64 - 1));
        for stale in from..=number {
            self.ring[index(stale)] = Slot::default();
        }
        self.newest = self.newest.max(number);
    }

    /// Good answers a second, over the second that ends at `at`.
    pub(super) fn good_rate(&self, at: u64) -> f64 {
        self.rate_over_last_second(at, |slot| slot.good)
    }

    /// Answers a second, good or not, over the second that ends at `at`.
    pub(super) fn rate(&self, at: u64) -> f64 {
        self.rate_over_last_second(at, |slot| slot.all)
    }

    /// Good answers in the second before the last one.
    pub(super) fn good_rate_before(&self) -> f64 {
        let last = SLOTS_PER_SECOND..2 * SLOTS_PER_SECOND;
        f64::from(self.sum(last, |slot| slot.good))
    }

    /// The newest slot is still being filled, so the sum covers a little less than a second.
    fn rate_over_last_second(&self, at: u64, count: fn(&Slot) -> u32) -> f64 {
        let covered = 1_000 - SLOT_MS + at % SLOT_MS + 1;
        f64::from(self.sum(0..SLOTS_PER_SECOND, count)) * 1_000.0 / covered as f64
    }

    /// Over slots of the given ages, 0 being the newest.
    fn sum(&self, ages: std::ops::Range<u64>, count: fn(&Slot) -> u32) -> u32 {
        ages.filter_map(|age| self.newest.checked_sub(age))
            .map(|number| count(&self.ring[index(number)]))
            .fold(0, u32::saturating_add)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_the_last_second_and_the_one_before_and_forgets_the_rest() {
        let mut tally = Tally::new();
        for at in 0..2_000 {
            tally.add(at % 10 != 0, at);
        }
        assert!((tally.rate(1_999) - 1_000.0).abs() < 1.0);
        assert!((tally.good_rate(1_999) - 900.0).abs() < 1.0);
        assert!((tally.good_rate_before() - 900.0).abs() < 1.0);
        tally.advance(2_999);
        assert!(tally.rate(2_999) < 1.0);
        assert!((tally.good_rate_before() - 900.0).abs() < 1.0);
        tally.advance(1_000_000);
        assert!(tally.good_rate_before() < 1.0);
    }

    #[test]
    fn a_young_ramp_has_not_answered_for_a_whole_second() {
        let mut tally = Tally::new();
        tally.add(true, 0);
        assert!(tally.good_rate(3) < 1.1);
    }
}
