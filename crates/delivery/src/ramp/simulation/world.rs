//! An owner that lets go what a law permits, a receiver, and what came of it.

use super::super::{Answer, Ramp};
use super::receiver::Receiver;
use crate::time::UnixMillis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The wall clock when a run begins.
const START: i64 = 1_800_000_000_000;
const BIN_MS: u64 = 10;
const BINS_PER_SECOND: usize = 100;

/// What lets go; the product has one, the others are here to be compared with.
pub(super) trait Law {
    fn observe(&mut self, answer: Answer, now: UnixMillis);
    fn permit(&mut self, outstanding: u32, cap: u32, now: UnixMillis) -> u32;
    fn released(&mut self, n: u32, now: UnixMillis);
}

impl Law for Ramp {
    fn observe(&mut self, answer: Answer, now: UnixMillis) {
        Ramp::observe(self, answer, now);
    }

    fn permit(&mut self, outstanding: u32, cap: u32, now: UnixMillis) -> u32 {
        Ramp::permit(self, outstanding, cap, now)
    }

    fn released(&mut self, n: u32, now: UnixMillis) {
        Ramp::released(self, n, now);
    }
}

/// A ramp that begins with the run.
pub(super) fn ramp() -> Ramp {
    Ramp::start(UnixMillis(START))
}

/// How a run is made.
pub(super) struct Setting {
    pub held: u32,
    pub cap: u32,
    pub tick_ms: u64,
    /// An answer is heard of so much later, in microseconds.
    pub heard_late: u64,
    /// What the receiver can bear at a millisecond of the run, a second.
    pub capacity: fn(u64) -> f64,
    /// The run ends here even when something is still held.
    pub longest_ms: u64,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            held: 40_000,
            cap: 32,
            tick_ms: 5,
            heard_late: 2_000,
            capacity: |_| 500.0,
            longest_ms: 600_000,
        }
    }
}

/// What was seen at the receiver, in bins of 10 ms.
pub(super) struct Seen {
    arrived: Vec<u32>,
    good: Vec<u32>,
    capacity: Vec<f64>,
    latencies_us: Vec<u64>,
    pub most_in_flight: u32,
    pub failed: u32,
}

/// Runs until everything held was let go and answered. `look` is shown the law at each tick
/// with the millisecond of the run.
pub(super) fn run<L: Law>(
    setting: &Setting,
    law: &mut L,
    receiver: &mut impl Receiver,
    mut look: impl FnMut(&L, u64),
) -> Seen {
    let mut seen = Seen::new();
    let mut waiting: BinaryHeap<Reverse<(u64, u64, bool)>> = BinaryHeap::new();
    let (mut held, mut outstanding) = (setting.held, 0_u32);
    for ms in (0..setting.longest_ms).step_by(usize::try_from(setting.tick_ms).unwrap()) {
        let now = UnixMillis(START + i64::try_from(ms).unwrap());
        while waiting.peek().is_some_and(|next| next.0.0 <= ms * 1_000) {
            let Reverse((heard_at, latency, good)) = waiting.pop().unwrap();
            outstanding -= 1;
            seen.answer(heard_at - setting.heard_late, latency, good);
            let latency = Duration::from_micros(latency);
            law.observe(Answer { latency, good }, now);
        }
        let permitted = law.permit(outstanding, setting.cap, now).min(held);
        law.released(permitted, now);
        held -= permitted;
        outstanding += permitted;
        assert!(outstanding <= setting.cap, "{outstanding} in flight");
        seen.tick(ms, permitted, outstanding, setting);
        for _ in 0..permitted {
            let reply = receiver.arrive(ms * 1_000);
            let latency = reply.at - ms * 1_000;
            waiting.push(Reverse((
                reply.at + setting.heard_late,
                latency,
                reply.good,
            )));
        }
        look(law, ms);
        if held == 0 && outstanding == 0 {
            break;
        }
    }
    seen
}

impl Seen {
    fn new() -> Seen {
        Seen {
            arrived: Vec::new(),
            good: Vec::new(),
            capacity: Vec::new(),
            latencies_us: Vec::new(),
            most_in_flight: 0,
            failed: 0,
        }
    }

    fn tick(&mut self, ms: u64, permitted: u32, outstanding: u32, setting: &Setting) {
        let bin = usize::try_from(ms / BIN_MS).unwrap();
        while self.arrived.len() <= bin {
            let at = self.arrived.len() as u64 * BIN_MS;
            self.capacity.push((setting.capacity)(at));
            self.arrived.push(0);
        }
        self.arrived[bin] += permitted;
        self.most_in_flight = self.most_in_flight.max(outstanding);
    }

    fn answer(&mut self, at: u64, latency: u64, good: bool) {
        if !good {
            self.failed += 1;
            return;
        }
        let bin = usize::try_from(at / 1_000 / BIN_MS).unwrap();
        self.good.resize(self.good.len().max(bin + 1), 0);
        self.good[bin] += 1;
        self.latencies_us.push(latency);
    }

    /// Requests in the second that begins at a bin.
    pub(super) fn arrived_in(&self, from_ms: u64, to_ms: u64) -> u32 {
        let bin = |ms: u64| {
            usize::try_from(ms / BIN_MS)
                .unwrap()
                .min(self.arrived.len())
        };
        self.arrived[bin(from_ms)..bin(to_ms)].iter().sum()
    }

    /// The highest rate over any window of so many bins, as a multiple of the capacity.
    pub(super) fn peak(&self, bins: usize) -> f64 {
        self.loads(bins).fold(0.0, f64::max)
    }

    /// The longest time, in seconds, during which every quarter of a second was more than 20 %
    /// above the capacity.
    pub(super) fn longest_excess(&self) -> f64 {
        let quarter = BINS_PER_SECOND / 4;
        let (mut run, mut longest) = (0, 0);
        for load in self.loads(quarter) {
            run = if load > 1.2 { run + 1 } else { 0 };
            longest = longest.max(run);
        }
        let bins = if longest == 0 {
            0
        } else {
            longest + quarter - 1
        };
        bins as f64 / BINS_PER_SECOND as f64
    }

    fn loads(&self, bins: usize) -> impl Iterator<Item = f64> + '_ {
        let capacities = self.capacity.windows(bins);
        self.arrived
            .windows(bins)
            .zip(capacities)
            .map(|(arrived, capacity)| {
                let capacity: f64 = capacity.iter().sum::<f64>() / BINS_PER_SECOND as f64;
                f64::from(arrived.iter().sum::<u32>()) / capacity
            })
    }

    /// Good answers until the last one, as a part of what the receiver could have given.
    pub(super) fn throughput(&self) -> f64 {
        let could: f64 = self.capacity.iter().take(self.good.len()).sum();
        f64::from(self.good.iter().sum::<u32>()) * BINS_PER_SECOND as f64 / could
    }

    /// Good answers a second between two times.
    pub(super) fn good_rate(&self, from_ms: u64, to_ms: u64) -> f64 {
        let bin = |ms: u64| usize::try_from(ms / BIN_MS).unwrap().min(self.good.len());
        let good: u32 = self.good[bin(from_ms)..bin(to_ms)].iter().sum();
        f64::from(good) * 1_000.0 / (to_ms - from_ms) as f64
    }

    /// The latency that 99 in a hundred good answers did not exceed, in milliseconds.
    pub(super) fn p99_ms(&self) -> f64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100] as f64 / 1_000.0
    }

    /// The second that ends with the last answer.
    pub(super) fn seconds(&self) -> f64 {
        self.good.len() as f64 / BINS_PER_SECOND as f64
    }

    /// A row of the ADR's table.
    pub(super) fn row(&self, name: &str) -> String {
        format!(
            "| {name} | {} | {:.2} | {:.2} | {:.1} s | {:.0} % | {:.0} ms | {} | {:.0} s |",
            self.arrived_in(0, 1_000),
            self.peak(BINS_PER_SECOND),
            self.peak(2 * BINS_PER_SECOND),
            self.longest_excess(),
            100.0 * self.throughput(),
            self.p99_ms(),
            self.failed,
            self.seconds(),
        )
    }
}
