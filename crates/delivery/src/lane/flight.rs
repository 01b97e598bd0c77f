//! What an owner has on its way, and when it should count again.
//!
//! Between counts it adds what it lets go and takes off every answer that it hears of. The
//! count puts right what it did not hear of, and shows what was turned away: a delivery that
//! came back to the lane without an answer. Whoever turned it away is given time.

use crate::time::UnixMillis;
use std::time::Duration;

/// First and longest time between two counts while nothing moves.
const RECOUNT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// While all is well a count is good for so long.
const FRESH: Duration = Duration::from_secs(1);
/// First and longest pause after something was turned away.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Deliveries on their way.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    out: u32,
    recount_at: UnixMillis,
    recount_after: Duration,
    closed_until: UnixMillis,
    pause: Duration,
}

impl Flight {
    /// `count` are on their way already.
    #[must_use]
    pub fn start(count: u32, now: UnixMillis) -> Flight {
        Flight {
            out: count,
            recount_at: now + RECOUNT.0,
            recount_after: RECOUNT.0,
            closed_until: UnixMillis(0),
            pause: PAUSE.0,
        }
    }

    /// How many are on their way, as far as is known.
    #[must_use]
    pub fn out(&self) -> u32 {
        self.out
    }

    /// How many more may be, when `cap` may be at once.
    #[must_use]
    pub fn room(&self, cap: u32, now: UnixMillis) -> u32 {
        if self.is_paused(now) {
            return 0;
        }
        cap.saturating_sub(self.out)
    }

    /// A clock that jumped back does not lengthen a pause.
    fn is_paused(&self, now: UnixMillis) -> bool {
        now < self.closed_until && now.until(self.closed_until) <= PAUSE.1
    }

    /// `n` were let go.
    pub fn released(&mut self, n: u32, now: UnixMillis) {
        if n == 0 {
            return;
        }
        self.out = self.out.saturating_add(n);
        self.recount_after = RECOUNT.0;
        self.recount_at = now + RECOUNT.0;
    }

    /// One was answered.
    pub fn answered(&mut self, now: UnixMillis) {
        self.out = self.out.saturating_sub(1);
        self.recount_after = RECOUNT.0;
        self.recount_at = now + RECOUNT.0;
        self.pause = PAUSE.0;
    }

    /// `count` are on their way in truth.
    pub fn counted(&mut self, count: u32, now: UnixMillis) {
        let turned_away = count < self.out;
        if turned_away {
            self.closed_until = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE.1);
        }
        self.recount_after = match count == self.out {
            true => (self.recount_after * 2).min(RECOUNT.1),
            false => RECOUNT.0,
        };
        self.out = count;
        self.recount_at = now + self.recount_after;
    }

    /// Whether it is time to count: soon where nothing more may go, now and then otherwise.
    #[must_use]
    pub fn is_recount_due(&self, cap: u32, now: UnixMillis) -> bool {
        let since = self.recount_at.since(now) > RECOUNT.1;
        let full = self.out >= cap;
        since
            || now
                >= if full {
                    self.recount_at
                } else {
                    self.recount_at + FRESH
                }
    }

    /// When to look again although nothing was heard of.
    #[must_use]
    pub fn next_look(&self, cap: u32, now: UnixMillis) -> Option<UnixMillis> {
        if self.is_paused(now) {
            return Some(self.closed_until);
        }
        (self.out >= cap).then_some(self.recount_at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;

    fn at(millis: i64) -> UnixMillis {
        UnixMillis(NOW.0 + millis)
    }

    #[test]
    fn what_is_let_go_takes_room_and_an_answer_gives_it_back() {
        let mut flight = Flight::start(1, NOW);
        assert_eq!(flight.room(4, NOW), 3);
        flight.released(3, NOW);
        assert_eq!(flight.room(4, NOW), 0);
        flight.answered(NOW);
        assert_eq!((flight.room(4, NOW), flight.out()), (1, 3));
    }

    #[test]
    fn a_hanging_endpoint_is_counted_ever_more_rarely() {
        let mut flight = Flight::start(4, NOW);
        let (mut counts, mut now) = (0, NOW);
        while now < at(60_000) {
            now = flight.next_look(4, now).unwrap().max(UnixMillis(now.0 + 1));
            if flight.is_recount_due(4, now) {
                counts += 1;
                flight.counted(4, now);
            }
        }
        assert!((100..200).contains(&counts), "{counts}");
        flight.answered(now);
        flight.released(1, now);
        let next = flight.next_look(4, now).unwrap();
        assert_eq!(next.since(now), RECOUNT.0);
    }

    #[test]
    fn what_is_turned_away_again_and_again_is_not_pushed() {
        let (mut flight, mut now, mut pushed) = (Flight::start(0, NOW), NOW, 0);
        while now < at(60_000) {
            let n = flight.room(8, now);
            pushed += n;
            flight.released(n, now);
            if flight.is_recount_due(8, now) {
                flight.counted(0, now);
            }
            now = UnixMillis(now.0 + 10);
        }
        assert!((8 * 20..8 * 60).contains(&pushed), "{pushed}");
    }

    #[test]
    fn bo_04_a_clock_that_jumps_back_closes_nothing_for_long() {
        let mut flight = Flight::start(8, at(3_600_000));
        flight.counted(0, at(3_600_000));
        assert_eq!(flight.room(8, NOW), 8);
        flight.released(8, at(3_600_000));
        assert!(flight.is_recount_due(8, NOW));
    }
}
