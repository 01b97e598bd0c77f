//! One path of a receiver: how it answers, and what came.

use super::gauge::Gauge;
use super::workers::{Plan, Workers};
use crate::bench::stamp::{Clock, sent_at};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a path answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// With a status, after a while.
    Answer(StatusCode, Duration),
    /// Never.
    Hang,
    /// As fast as its workers can; what would wait too long gets 503.
    Workers(Plan),
    /// 200 after a while; but the request of this number, counted from 1, gets 429 and
    /// `Retry-After` with so many seconds.
    QuietOnce {
        /// How long an answer takes.
        after: Duration,
        /// Which request.
        nth: usize,
        /// The `Retry-After`.
        seconds: u64,
    },
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// When it came, in nanoseconds of the receiver's clock.
    pub at: u64,
    /// When its payload was sent.
    pub sent: Option<u64>,
    /// When it was answered, and with what; `None` while it was not.
    pub answered: Option<(u64, StatusCode)>,
    /// `webhook-id`.
    pub id: Box<str>,
}

/// The path.
pub(crate) struct Spot {
    clock: Clock,
    mode: Mutex<Mode>,
    log: Mutex<Vec<Arrival>>,
    open: Arc<Gauge>,
}

struct Mode {
    behaviour: Behaviour,
    workers: Option<Workers>,
}

impl Mode {
    fn new(behaviour: Behaviour) -> Mode {
        let workers = match behaviour {
            Behaviour::Workers(plan) => Some(Workers::new(plan)),
            _ => None,
        };
        Mode { behaviour, workers }
    }
}

/// What is answered to one request.
struct Answer {
    /// In nanoseconds of the clock.
    at: u64,
    status: StatusCode,
    retry_after: Option<u64>,
}

impl Spot {
    /// One that answers so.
    pub fn new(clock: Clock, behaviour: Behaviour) -> Spot {
        Spot {
            clock,
            mode: Mutex::new(Mode::new(behaviour)),
            log: Mutex::new(Vec::new()),
            open: Arc::new(Gauge::default()),
        }
    }

    /// From now on it answers so.
    pub fn behave(&self, behaviour: Behaviour) {
        *lock(&self.mode) = Mode::new(behaviour);
    }

    /// Requests so far.
    pub fn count(&self) -> usize {
        lock(&self.log).len()
    }

    /// Everything that came, in order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.log).clone()
    }

    /// Forgets what came. Nothing may be in flight.
    pub fn clear(&self) {
        lock(&self.log).clear();
    }

    /// The most requests that were in flight at once.
    pub fn most_open(&self) -> u64 {
        self.open.most()
    }

    /// Answers one request.
    pub async fn take(&self, headers: &HeaderMap, body: &[u8]) -> Response {
        let _open = self.open.enter();
        let at = self.clock.now();
        let id = headers.get("webhook-id").and_then(|id| id.to_str().ok());
        let arrival = Arrival {
            at,
            sent: sent_at(body),
            answered: None,
            id: id.unwrap_or_default().into(),
        };
        let place = {
            let mut log = lock(&self.log);
            log.push(arrival);
            log.len() - 1
        };
        let Some(answer) = self.answer(at, place + 1) else {
            return std::future::pending().await;
        };
        let wait = answer.at.saturating_sub(self.clock.now());
        if wait > 0 {
            tokio::time::sleep(Duration::from_nanos(wait)).await;
        }
        if let Some(arrival) = lock(&self.log).get_mut(place) {
            arrival.answered = Some((self.clock.now(), answer.status));
        }
        match answer.retry_after {
            Some(seconds) => {
                (answer.status, [(header::RETRY_AFTER, seconds.to_string())]).into_response()
            }
            None => answer.status.into_response(),
        }
    }

    fn answer(&self, now: u64, nth: usize) -> Option<Answer> {
        let later = |after: Duration| {
            now.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        };
        let plain = |at, status| {
            Some(Answer {
                at,
                status,
                retry_after: None,
            })
        };
        let mut mode = lock(&self.mode);
        match mode.behaviour {
            Behaviour::Answer(status, after) => plain(later(after), status),
            Behaviour::Hang => None,
            Behaviour::Workers(_) => match mode.workers.as_mut()?.take(now) {
                Some(at) => plain(at, StatusCode::OK),
                None => plain(now, StatusCode::SERVICE_UNAVAILABLE),
            },
            Behaviour::QuietOnce {
                after,
                nth: quiet,
                seconds,
            } if nth == quiet => Some(Answer {
                at: later(after),
                status: StatusCode::TOO_MANY_REQUESTS,
                retry_after: Some(seconds),
            }),
            Behaviour::QuietOnce { after, .. } => plain(later(after), StatusCode::OK),
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
