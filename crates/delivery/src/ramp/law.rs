//! The ramp itself: pace and window together, and what a sign of distress does to both.

use super::failures::Failures;
use super::latency::{Baseline, Round};
use super::pace::Pace;
use super::passed::Passed;
use super::tally::Tally;
use crate::time::UnixMillis;
use std::time::Duration;

/// A few in flight, to begin with.
const FIRST_WINDOW: f64 = 4.0;
/// What unusual failures leave of the window.
const FAILURE_FACTOR: f64 = 0.5;
/// What high latency leaves of the part of the window that was not queueing: a little too
/// little, so that the queue empties and the next rounds show the latency without one.
const UNDERSHOOT: f64 = 0.7;
/// High latency leaves at most this of the window.
const GENTLEST_CUT: f64 = 0.75;
/// When a window cut to this part of itself has not helped, high latency is not our doing.
const HELPLESS: f64 = 0.25;
/// After a sign of distress nothing is judged until what was in flight has been answered, and
/// this, in milliseconds: one back-off for one distress.
const SETTLE_MS: f64 = 50.0;
/// What hangs is waited for no longer than this, in milliseconds.
const LONGEST_SETTLE_MS: f64 = 2_000.0;
/// The ramp is done when the pace has held nothing back for this time, in milliseconds.
const UNHINDERED_MS: u64 = 2_000;

/// What an endpoint answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// From the start of the request to the end of the answer.
    pub latency: Duration,
    /// Whether the delivery was taken. Any failure is not, a timeout among them.
    pub good: bool,
}

/// How fast an endpoint that has recovered may be given what waits for it.
///
/// Its owner tells it of each release and each answer, and asks how many more it may let go.
/// The memory of a ramp is fixed, and no call allocates. Times may jump: a clock that is set
/// back stops nothing, and one that is set forward lets nothing go that was not earned.
#[derive(Clone, Debug)]
pub struct Ramp {
    passed: Passed,
    pace: Pace,
    window: f64,
    /// Whether the window, and not the pace, was the limit when permission was last asked.
    window_is_limit: bool,
    outstanding: u32,
    tally: Tally,
    failures: Failures,
    last_was_good: bool,
    round: Round,
    baseline: Baseline,
    /// What was in use when latency was first found high, while it has been ever since.
    cut_from: Option<f64>,
    /// Answers before this were asked before the last back-off.
    stale_until: u64,
    /// When the pace last held something back.
    hindered_at: u64,
}

impl Ramp {
    /// A ramp that begins now, and knows nothing of the endpoint.
    #[must_use]
    pub fn start(now: UnixMillis) -> Ramp {
        Ramp {
            passed: Passed::start(now),
            pace: Pace::start(),
            window: FIRST_WINDOW,
            window_is_limit: false,
            outstanding: 0,
            tally: Tally::new(),
            failures: Failures::default(),
            last_was_good: true,
            round: Round::start(0),
            baseline: Baseline::default(),
            cut_from: None,
            stale_until: 0,
            hindered_at: 0,
        }
    }

    /// The endpoint answered.
    pub fn observe(&mut self, answer: Answer, now: UnixMillis) {
        let at = self.advance(now);
        let is_stale = at < self.stale_until;
        self.outstanding = self.outstanding.saturating_sub(1);
        self.tally.add(answer.good, at);
        self.failures
            .add(answer.good, self.tally.rate(at), is_stale);
        self.last_was_good = answer.good;
        if is_stale {
            return;
        }
        if !answer.good {
            self.judge_failures(at);
            return;
        }
        if self.window_is_limit {
            self.window += 1.0;
        }
        let latency_ms = answer.latency.as_secs_f64() * 1_000.0;
        if let Some(median) = self.round.add(latency_ms, at) {
            self.judge_latency(median, at);
        }
    }

    /// How many more may be let go now, with `outstanding` let go and not answered yet and at
    /// most `cap` in flight.
    pub fn permit(&mut self, outstanding: u32, cap: u32, now: UnixMillis) -> u32 {
        let at = self.advance(now);
        self.outstanding = outstanding;
        self.window = self.window.min(f64::from(cap.max(1)));
        let room = self.window().min(cap).saturating_sub(outstanding);
        let paced = self.pace.allows();
        self.window_is_limit = paced >= room;
        if paced < room {
            self.hindered_at = at;
        }
        paced.min(room)
    }

    /// So many were let go.
    pub fn released(&mut self, n: u32, now: UnixMillis) {
        self.advance(now);
        self.outstanding = self.outstanding.saturating_add(n);
        self.pace.spend(n);
    }

    /// When [`permit`](Ramp::permit) may allow something without an answer in between; none
    /// when only an answer helps. At most a second from now.
    #[must_use]
    pub fn next_look(&self, outstanding: u32, cap: u32, now: UnixMillis) -> Option<UnixMillis> {
        if outstanding >= self.window().min(cap) {
            return None;
        }
        let wait = self.pace.wait(self.passed.at(now));
        Some(now + Duration::from_millis(wait))
    }

    /// Whether the ramp no longer holds anything back: the window has reached `cap`, and the
    /// pace has not been the limit for 2 s. The owner then uses `cap` alone.
    #[must_use]
    pub fn is_done(&self, cap: u32, now: UnixMillis) -> bool {
        let unhindered = self.passed.at(now).saturating_sub(self.hindered_at);
        self.window() >= cap && unhindered >= UNHINDERED_MS
    }

    /// How many may be in flight; at least 1.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window.max(1.0) as u32
    }

    /// Answers a second, good or not, over the second before the owner last asked or told.
    #[must_use]
    pub fn rate_per_second(&self) -> f64 {
        self.tally.rate(self.passed.millis())
    }

    fn advance(&mut self, now: UnixMillis) -> u64 {
        let at = self.passed.advance(now);
        self.tally.advance(at);
        let proven = self.tally.good_rate(at).max(self.tally.good_rate_before());
        self.pace.advance(at, proven, self.last_was_good);
        at
    }

    fn judge_failures(&mut self, at: u64) {
        if !self.failures.is_unusual() {
            return;
        }
        let good_part = (1.0 - self.failures.recent_share()).max(FAILURE_FACTOR);
        self.window = (self.window * FAILURE_FACTOR).max(1.0);
        self.back_off(self.tally.good_rate(at) * good_part, 0.0, at);
    }

    /// High latency takes the window down to what was with the endpoint without a queue, which
    /// also shows what its latency is without one. If cutting it again and again does not help,
    /// the endpoint has become slower: this is its latency from now on.
    fn judge_latency(&mut self, median_ms: f64, at: u64) {
        let high = self.baseline.excess(median_ms);
        self.baseline.add(median_ms, at);
        let Some(excess_ms) = high else {
            self.cut_from = None;
            return;
        };
        let in_use = self.window.min(f64::from(self.outstanding) + 1.0);
        let cut_from = *self.cut_from.get_or_insert(in_use);
        if in_use <= cut_from * HELPLESS {
            self.cut_from = None;
            self.baseline.replace(median_ms, at);
            return;
        }
        let queued = self.tally.rate(at) * excess_ms / 1_000.0;
        let cut = (in_use - queued) * UNDERSHOOT;
        self.window = cut.min(in_use * GENTLEST_CUT).max(1.0);
        let before = self.tally.good_rate_before();
        self.back_off(self.tally.good_rate(at), before, at);
    }

    /// Lowers the pace below `good` answers a second; it may soon return to `ceiling`.
    fn back_off(&mut self, good: f64, ceiling: f64, at: u64) {
        self.pace.back_off(at, good, ceiling);
        self.failures.forget_recent();
        let rate = self.tally.rate(at).max(1.0);
        let in_flight_ms = f64::from(self.outstanding) * 1_000.0 / rate;
        let settle_ms = in_flight_ms.min(LONGEST_SETTLE_MS) + SETTLE_MS;
        self.stale_until = at.saturating_add(settle_ms as u64);
        self.round = Round::start(self.stale_until);
    }
}
