//! The head of a lane: read ahead by a little, removed behind by a little.

use crate::context::Context;
use posthorn_broker::codec::Parked;
use posthorn_broker::{BrokerError, Logged};
use posthorn_delivery::LaneId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Read at once at the most.
const MOST: usize = 256;
/// So many that were let go, or so much time, are removed together: a removal costs the
/// broker more than a release.
const REMOVE: (usize, Duration) = (512, Duration::from_millis(250));
/// So few are removed one by one: to purge up to one of them, the broker looks through the
/// whole of a lane, and hundreds of lanes may send a probe in the same second.
const FEW: usize = 8;

/// What is next in a lane.
pub(crate) struct Head {
    ahead: VecDeque<Logged<Parked>>,
    next: u64,
    /// Let go and not removed yet.
    behind: Vec<u64>,
    removed_at: Instant,
}

impl Head {
    pub fn new() -> Head {
        Head {
            ahead: VecDeque::new(),
            next: 1,
            behind: Vec::new(),
            removed_at: Instant::now(),
        }
    }

    pub fn len(&self) -> usize {
        self.ahead.len()
    }

    pub fn first(&self) -> Option<&Logged<Parked>> {
        self.ahead.front()
    }

    /// Reads on when nothing is left of what was read, about `wanted` at once.
    pub async fn fill(
        &mut self,
        context: &Context,
        lane: &LaneId,
        wanted: u32,
    ) -> Result<(), BrokerError> {
        if !self.ahead.is_empty() {
            return Ok(());
        }
        let wanted = usize::try_from(wanted).unwrap_or(MOST).clamp(1, MOST);
        let page = context.lanes.store().read(lane, self.next, wanted).await?;
        if let Some(last) = page.items.last() {
            self.next = last.sequence + 1;
        }
        self.ahead = page.items.into();
        Ok(())
    }

    /// Takes up to `n`.
    pub fn take(&mut self, n: usize) -> Vec<Logged<Parked>> {
        self.ahead.drain(..n.min(self.ahead.len())).collect()
    }

    /// What lies at `positions`, in order, has been let go for good.
    pub fn let_go(&mut self, positions: &[u64]) {
        self.behind.extend_from_slice(positions);
    }

    /// Removes what was let go, when it is worth it or `now_or_never`.
    pub async fn remove(
        &mut self,
        context: &Context,
        lane: &LaneId,
        now_or_never: bool,
    ) -> Result<(), BrokerError> {
        let due = self.behind.len() >= REMOVE.0 || self.removed_at.elapsed() >= REMOVE.1;
        if self.behind.is_empty() || !(due || now_or_never) {
            return Ok(());
        }
        let store = context.lanes.store();
        match self.behind.last() {
            Some(last) if self.behind.len() > FEW => store.remove_up_to(lane, *last).await?,
            _ => {
                let each = self.behind.iter().map(|position| store.remove(*position));
                futures_util::future::try_join_all(each).await?;
            }
        }
        self.behind.clear();
        self.removed_at = Instant::now();
        Ok(())
    }
}
