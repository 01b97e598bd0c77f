//! A receiver that answers at once, on a thread of its own, and counts.

use super::stamp::{Clock, sent_at};
use crate::failure::Failure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use hdrhistogram::Histogram;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Without one more arrival in so long, something is lost or stuck.
const STALL: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Latencies are kept in microseconds to three digits.
const DIGITS: u8 = 3;

/// The receiver.
pub(crate) struct Receiver {
    address: SocketAddr,
    counters: Arc<Counters>,
}

struct Counters {
    clock: Clock,
    count: AtomicU64,
    /// Nanoseconds from the epoch; of the first arrival since the counters were set back.
    first: AtomicU64,
    last: AtomicU64,
    latencies: Mutex<Histogram<u64>>,
}

/// What arrived since the counters were set back.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// How many.
    pub count: u64,
    /// From the first to the last.
    pub took: Duration,
    /// From sending to arrival, in microseconds.
    pub latencies: Histogram<u64>,
}

impl Receiver {
    /// Starts one on a free port of the loopback.
    ///
    /// # Errors
    /// When there is no port or no thread.
    pub fn start() -> Result<Receiver, Failure> {
        let fail = |error: std::io::Error| Failure::internal("no receiver", &error);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let latencies = Histogram::new(DIGITS)
            .map_err(|error| Failure::internal("no histogram of latencies", &error))?;
        let counters = Arc::new(Counters {
            clock: Clock::start(),
            count: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            latencies: Mutex::new(latencies),
        });
        let app = Router::new().fallback(take).with_state(counters.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(fail)?;
        std::thread::Builder::new()
            .name("receiver".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    axum::serve(listener, app).await
                })
            })
            .map_err(fail)?;
        Ok(Receiver { address, counters })
    }

    /// The URL of endpoint `n`.
    pub fn url(&self, n: u32) -> String {
        format!("http://{}/{n}", self.address)
    }

    /// The clock that arrivals are timed with.
    pub fn clock(&self) -> Clock {
        self.counters.clock
    }

    /// A payload of `bytes` bytes that says that it is sent now.
    pub fn payload(&self, bytes: u32) -> Bytes {
        self.counters.clock.payload(bytes)
    }

    /// Sets the counters back.
    pub fn reset(&self) {
        let counters = &self.counters;
        counters.count.store(0, Ordering::Relaxed);
        counters.first.store(u64::MAX, Ordering::Relaxed);
        counters.last.store(0, Ordering::Relaxed);
        counters.histogram().reset();
    }

    /// Waits until `count` have arrived.
    ///
    /// # Errors
    /// When nothing arrives for a minute.
    pub async fn wait_for(&self, count: u64) -> Result<Arrivals, Failure> {
        let mut every = tokio::time::interval(LOOK);
        let (mut seen, mut moved) = (0, Instant::now());
        loop {
            every.tick().await;
            let now = self.counters.count.load(Ordering::Relaxed);
            if now >= count {
                return Ok(self.counters.arrivals());
            }
            if now > seen {
                (seen, moved) = (now, Instant::now());
            }
            if moved.elapsed() > STALL {
                let text = format!("only {now} of {count} deliveries arrived");
                return Err(Failure::refused(text));
            }
        }
    }
}

impl Counters {
    fn histogram(&self) -> std::sync::MutexGuard<'_, Histogram<u64>> {
        self.latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn arrivals(&self) -> Arrivals {
        let first = self.first.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        Arrivals {
            count: self.count.load(Ordering::Relaxed),
            took: Duration::from_nanos(last.saturating_sub(first)),
            latencies: self.histogram().clone(),
        }
    }
}

async fn take(State(counters): State<Arc<Counters>>, body: Bytes) -> StatusCode {
    let now = counters.clock.now();
    if let Some(sent) = sent_at(&body) {
        let micros = now.saturating_sub(sent) / 1_000;
        // An automatically growing histogram takes every value.
        let _ = counters.histogram().record(micros);
    }
    counters.first.fetch_min(now, Ordering::Relaxed);
    counters.last.fetch_max(now, Ordering::Relaxed);
    counters.count.fetch_add(1, Ordering::Relaxed);
    StatusCode::OK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_arrives_is_counted_and_timed() {
        let receiver = Receiver::start().unwrap();
        let payload = receiver.payload(1_024);
        assert_eq!(payload.len(), 1_024);
        assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for n in 0..3 {
            let post = client.post(receiver.url(n)).body(payload.clone());
            assert!(post.send().await.unwrap().status().is_success());
        }
        let arrivals = receiver.wait_for(3).await.unwrap();
        assert_eq!((arrivals.count, arrivals.latencies.len()), (3, 3));
        assert!(arrivals.took > Duration::ZERO);
        receiver.reset();
        assert_eq!(receiver.wait_for(0).await.unwrap().count, 0);
    }
}
