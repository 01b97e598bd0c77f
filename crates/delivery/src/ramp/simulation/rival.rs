//! Other laws, to be compared with: windows that grow without a pace.

use super::super::Answer;
use super::world::Law;
use crate::time::UnixMillis;

/// Additive increase, multiplicative decrease, after a slow start, as TCP Reno's (RFC 5681):
/// a failure halves the window, once for those in flight.
pub(super) struct Aimd {
    window: f64,
    threshold: f64,
    outstanding: u32,
    deaf_for: u32,
}

impl Aimd {
    pub(super) fn new() -> Aimd {
        Aimd {
            window: 4.0,
            threshold: f64::INFINITY,
            outstanding: 0,
            deaf_for: 0,
        }
    }
}

impl Law for Aimd {
    fn observe(&mut self, answer: Answer, _: UnixMillis) {
        let in_flight = self.outstanding;
        self.outstanding = in_flight.saturating_sub(1);
        if self.deaf_for > 0 {
            self.deaf_for -= 1;
            return;
        }
        if !answer.good {
            self.window = (self.window / 2.0).max(1.0);
            self.threshold = self.window;
            self.deaf_for = in_flight;
            return;
        }
        let grows_by = if self.window < self.threshold {
            1.0
        } else {
            1.0 / self.window
        };
        self.window += grows_by;
    }

    fn permit(&mut self, outstanding: u32, cap: u32, _: UnixMillis) -> u32 {
        self.window = self.window.min(f64::from(cap));
        (self.window as u32).saturating_sub(outstanding)
    }

    fn released(&mut self, n: u32, _: UnixMillis) {
        self.outstanding += n;
    }
}

/// TCP Vegas (Brakmo and Peterson 1995): the window keeps between three and six requests
/// queueing, as the lowest latency ever seen tells; doubling every other round trip until it
/// has so many. A failure halves it.
pub(super) struct Vegas {
    window: f64,
    lowest_ms: f64,
    is_slow_start: bool,
    reno: Aimd,
}

impl Vegas {
    pub(super) fn new() -> Vegas {
        Vegas {
            window: 4.0,
            lowest_ms: f64::INFINITY,
            is_slow_start: true,
            reno: Aimd::new(),
        }
    }
}

impl Law for Vegas {
    fn observe(&mut self, answer: Answer, now: UnixMillis) {
        let threshold = self.reno.threshold;
        self.reno.window = self.window;
        self.reno.observe(answer, now);
        if !answer.good {
            self.is_slow_start &= self.reno.threshold.total_cmp(&threshold).is_eq();
            self.window = self.reno.window;
            return;
        }
        let latency_ms = answer.latency.as_secs_f64() * 1_000.0;
        self.lowest_ms = self.lowest_ms.min(latency_ms);
        let queued = self.window * (1.0 - self.lowest_ms / latency_ms);
        self.is_slow_start &= queued < 3.0;
        let step = match queued {
            _ if self.is_slow_start => 0.5,
            few if few < 3.0 => 1.0 / self.window,
            many if many > 6.0 => -1.0 / self.window,
            _ => 0.0,
        };
        self.window = (self.window + step).max(1.0);
    }

    fn permit(&mut self, outstanding: u32, cap: u32, _: UnixMillis) -> u32 {
        self.window = self.window.min(f64::from(cap));
        (self.window as u32).saturating_sub(outstanding)
    }

    fn released(&mut self, n: u32, now: UnixMillis) {
        self.reno.released(n, now);
    }
}

/// The gradient of latency, as adaptive concurrency limits of proxies use it: the window is
/// moved towards itself times usual over present latency, plus its root for a queue. The usual
/// is a slow average, and half as much again is tolerated.
pub(super) struct Gradient {
    window: f64,
    usual_ms: f64,
}

impl Gradient {
    pub(super) fn new() -> Gradient {
        Gradient {
            window: 4.0,
            usual_ms: 0.0,
        }
    }
}

impl Law for Gradient {
    fn observe(&mut self, answer: Answer, _: UnixMillis) {
        const TOLERANCE: f64 = 1.5;
        const USUAL: f64 = 1.0 / 600.0;
        const SMOOTHING: f64 = 0.2;
        let latency_ms = answer.latency.as_secs_f64() * 1_000.0;
        if self.usual_ms <= 0.0 {
            self.usual_ms = latency_ms;
        }
        self.usual_ms += (latency_ms - self.usual_ms) * USUAL;
        let gradient = (TOLERANCE * self.usual_ms / latency_ms).clamp(0.5, 1.0);
        let target = if answer.good {
            self.window * gradient + self.window.sqrt()
        } else {
            self.window * 0.9
        };
        // Each answer has its share of what a round trip of answers does.
        self.window += (target - self.window) * SMOOTHING / self.window;
        self.window = self.window.max(1.0);
    }

    fn permit(&mut self, outstanding: u32, cap: u32, _: UnixMillis) -> u32 {
        self.window = self.window.min(f64::from(cap));
        (self.window as u32).saturating_sub(outstanding)
    }

    fn released(&mut self, _: u32, _: UnixMillis) {}
}
