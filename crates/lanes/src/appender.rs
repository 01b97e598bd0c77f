//! What one process does about one lane at a time: opening it, counting it, giving it a token.
//!
//! Hundreds of deliveries may be parked in a lane at the same moment. Each needs a token that
//! was put after it was stored, but all that are stored already can share one.

use crate::backlog::{Backlog, Margin};
use posthorn_broker::{BrokerError, LaneStore};
use posthorn_delivery::LaneId;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// One lane as this process sees it.
#[derive(Default)]
pub(crate) struct Appender {
    opening: Mutex<()>,
    counting: Mutex<()>,
    backlog: StdMutex<Backlog>,
    token: Mutex<()>,
    started: AtomicU64,
    finished: AtomicU64,
}

/// Leave to append one. Near the bound appends go one by one, so that the bound is exact.
pub(crate) struct Room<'a> {
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Appender {
    /// The right to open the lane; whoever waited for it finds it open.
    pub async fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().await
    }

    /// Leave to append one, or `None` when `bound` deliveries wait already.
    pub async fn room(
        &self,
        store: &LaneStore,
        lane: &LaneId,
        bound: u64,
    ) -> Result<Option<Room<'_>>, BrokerError> {
        if self.take(bound) == Margin::Plenty {
            return Ok(Some(Room { _turn: None }));
        }
        let turn = self.counting.lock().await;
        let depth = store.depth(lane).await?;
        let margin = {
            let mut backlog = self.backlog.lock().expect("no holder panics");
            backlog.counted(depth, Instant::now());
            backlog.take_counted(bound)
        };
        Ok(match margin {
            Margin::None => None,
            Margin::Little => Some(Room { _turn: Some(turn) }),
            Margin::Plenty => Some(Room { _turn: None }),
        })
    }

    fn take(&self, bound: u64) -> Margin {
        let mut backlog = self.backlog.lock().expect("no holder panics");
        backlog.take(bound, Instant::now())
    }

    /// Returns once a token was put, by this call or by one that began after it.
    pub async fn put_token(&self, store: &LaneStore, lane: &LaneId) -> Result<(), BrokerError> {
        let needed = self.started.load(Ordering::SeqCst) + 1;
        let _turn = self.token.lock().await;
        if self.finished.load(Ordering::SeqCst) >= needed {
            return Ok(());
        }
        let ticket = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        store.put_token(lane).await?;
        self.finished.store(ticket, Ordering::SeqCst);
        Ok(())
    }
}
