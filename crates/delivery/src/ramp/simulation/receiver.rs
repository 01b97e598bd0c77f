//! Receivers that can bear so much and no more.
//!
//! Each decides when a request comes how it will be answered; that is enough, because none of
//! them gives one request precedence over another that came before it. Times are microseconds.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

/// How a request is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub at: u64,
    pub good: bool,
}

pub(super) trait Receiver {
    fn arrive(&mut self, at: u64) -> Reply;
}

impl<F: FnMut(u64) -> Reply> Receiver for F {
    fn arrive(&mut self, at: u64) -> Reply {
        self(at)
    }
}

/// Workers that serve one queue in its order.
pub(super) struct Queue<S> {
    free_at: Vec<u64>,
    service: S,
}

/// `service` is the time that a request takes whose service begins at its argument.
pub(super) fn queue<S: FnMut(u64) -> u64>(workers: usize, service: S) -> Queue<S> {
    Queue {
        free_at: vec![0; workers],
        service,
    }
}

impl<S: FnMut(u64) -> u64> Receiver for Queue<S> {
    fn arrive(&mut self, at: u64) -> Reply {
        let next = self.free_at.iter_mut().min().unwrap();
        let begin = at.max(*next);
        *next = begin + (self.service)(begin);
        Reply {
            at: *next,
            good: true,
        }
    }
}

/// Latency rises smoothly with the load, to twice `base` at 500 a second, and no more than 500
/// a second are finished.
pub(super) fn smooth(base: u64, steepness: i32) -> impl Receiver {
    const MEMORY: f64 = 200_000.0;
    let (mut load, mut last, mut line) = (0.0_f64, 0_u64, 0_u64);
    move |at: u64| {
        load *= (-((at - last) as f64) / MEMORY).exp();
        load += 1e6 / MEMORY / 500.0;
        last = at;
        line = line.max(at) + 2_000;
        let latency = base as f64 * (1.0 + load.powi(steepness));
        Reply {
            at: line.max(at + latency as u64),
            good: true,
        }
    }
}

/// Takes `capacity` a second, 25 of them at once, and refuses the rest at once.
pub(super) fn refusing(capacity: fn(u64) -> f64) -> impl Receiver {
    let (mut tokens, mut last) = (25.0_f64, 0_u64);
    move |at: u64| {
        tokens = (tokens + (at - last) as f64 * capacity(at / 1_000) / 1e6).min(25.0);
        last = at;
        let good = tokens >= 1.0;
        tokens -= f64::from(u8::from(good));
        Reply {
            at: at + if good { 5_000 } else { 2_000 },
            good,
        }
    }
}

/// Fails everything while it is asked more than 500 times a second, measured over 200 ms.
pub(super) fn crumbling() -> impl Receiver {
    const MEMORY: f64 = 200_000.0;
    let (mut load, mut last) = (0.0_f64, 0_u64);
    move |at: u64| {
        load *= (-((at - last) as f64) / MEMORY).exp();
        load += 1e6 / MEMORY / 500.0;
        last = at;
        Reply {
            at: at + 20_000,
            good: load <= 1.0,
        }
    }
}

/// The same latency at any load.
pub(super) fn constant(latency: u64) -> impl Receiver {
    move |at: u64| Reply {
        at: at + latency,
        good: true,
    }
}

/// Fails a share of requests whatever the load, and answers after `latency`.
pub(super) fn failing(share: f64, latency: u64) -> impl Receiver {
    let mut rng = Pcg64::seed_from_u64(11);
    move |at: u64| Reply {
        at: at + latency,
        good: !rng.random_bool(share),
    }
}

/// Service times with a long tail: lognormal of mean `mean`.
pub(super) fn jitter(mean: f64, sigma: f64) -> impl FnMut(u64) -> u64 {
    let mut rng = Pcg64::seed_from_u64(7);
    let median = mean / (sigma * sigma / 2.0).exp();
    move |_| {
        let (radius, angle): (f64, f64) = (rng.random(), rng.random());
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        (median * (sigma * normal).exp()) as u64
    }
}

/// Service times of which one in a hundred is half a second longer: a worker that stalls.
pub(super) fn stalls(usual: u64) -> impl FnMut(u64) -> u64 {
    let mut rng = Pcg64::seed_from_u64(7);
    move |_| usual + if rng.random_bool(0.01) { 500_000 } else { 0 }
}

/// A way to a receiver that takes a time of its own: lognormal of mean `mean`, sigma 0.5.
pub(super) fn noisy_way(mut receiver: impl Receiver, mean: f64) -> impl Receiver {
    let mut noise = jitter(mean, 0.5);
    move |at: u64| {
        let reply = receiver.arrive(at);
        Reply {
            at: reply.at + noise(at),
            ..reply
        }
    }
}
