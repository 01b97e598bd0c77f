//! Dead letters, told one by one or summed up.

use crate::notice::{Letters, Notice};
use crate::publish::tell;
use crate::tally::{Tally, WINDOW};
use posthorn_broker::Broker;
use posthorn_delivery::breaker::BreakerState;
use posthorn_delivery::{DeadLetter, Endpoint, MessageId};
use posthorn_runtime::{Shutdown, rng};
use rand::RngExt;
use std::sync::{Arc, Mutex};

/// Tells operators what one process sees; clones are the same.
#[derive(Clone)]
pub struct Notices {
    broker: Broker,
    tally: Arc<Mutex<Tally>>,
}

impl Notices {
    /// Over this connection.
    #[must_use]
    pub fn new(broker: &Broker) -> Notices {
        Notices {
            broker: broker.clone(),
            tally: Arc::default(),
        }
    }

    /// Tells.
    pub async fn tell(&self, notice: Option<Notice>) {
        if let Some(notice) = notice {
            tell(&self.broker, &notice).await;
        }
    }

    /// Tells of a letter that was stored under the message id `key`; `repeated` where the stream
    /// had it already. What was counted by whoever stored it first is not counted again, and
    /// what he told is dropped by the broker.
    pub async fn letter(&self, letter: &DeadLetter, key: &MessageId, repeated: bool) {
        let Some(Notice::DeadLetter(letters)) = Notice::of_letter(letter, key.clone()) else {
            return;
        };
        if repeated || self.is_told_by_itself(&letters, letter) {
            tell(&self.broker, &Notice::DeadLetter(letters)).await;
        }
    }

    fn is_told_by_itself(&self, letters: &Letters, letter: &DeadLetter) -> bool {
        let of = (letters.tenant.clone(), letters.endpoint.clone());
        let mut tally = self.tally.lock().expect("no holder panics");
        tally.take_in(of, letter.reason, letter.died_at)
    }

    /// Tells of a breaker that a process has moved.
    pub async fn breaker(&self, endpoint: &Endpoint, before: &BreakerState, after: &BreakerState) {
        self.tell(Notice::of_breaker(endpoint, before, after)).await;
    }

    /// Sums up at the end of each window, until shut down. What dies after that is told one by
    /// one: there is no later.
    pub async fn sum_up(self, shutdown: Shutdown) {
        loop {
            let ending = tokio::select! {
                () = shutdown.triggered() => true,
                () = tokio::time::sleep(WINDOW) => false,
            };
            for notice in self.take(ending) {
                tell(&self.broker, &notice).await;
            }
            if ending {
                return;
            }
        }
    }

    fn take(&self, ending: bool) -> Vec<Notice> {
        let mut tally = self.tally.lock().expect("no holder panics");
        if ending {
            tally.end();
        }
        tally.sum_up(rng::rng().random())
    }
}
