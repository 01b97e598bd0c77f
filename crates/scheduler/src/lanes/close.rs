//! Closing a lane so that nothing is left in it.
//!
//! Whoever parks a delivery appends it and then puts a token. An owner that takes the key away
//! and then the token looks after each: what came before the token was taken is found by the
//! last look, what comes after it puts a token of its own.

use super::End;
use super::head::Head;
use super::owner::{Owner, Step};
use posthorn_broker::BrokerError;
use posthorn_delivery::lane::keeps_lane;
use posthorn_delivery::{Endpoint, LaneKind};

/// What is left is let go so much at once.
const REST: u32 = 256;

impl Owner<'_> {
    /// Closes the lane if it is empty.
    pub(super) async fn close(&mut self) -> Result<Step, BrokerError> {
        self.head.remove(self.context, self.lane, true).await?;
        let store = self.context.lanes.store();
        if store.depth(self.lane).await? > 0 {
            // Read again from what is the beginning now.
            self.head = Head::new();
            return Ok(Step::Wait(posthorn_wiring::now()));
        }
        let kept = self.is_kept();
        if !kept && !self.delete_key().await? {
            // Whoever has taken over has a token of its own.
            return match self.hold.reread(self.context, self.lane).await? {
                true => Ok(Step::Go),
                false => Ok(Step::End(End::Done)),
            };
        }
        if store.depth(self.lane).await? > 0 {
            return match kept || self.hold.reopen(self.context, self.lane).await? {
                true => Ok(Step::Go),
                false => self.hand_over().await,
            };
        }
        self.token.ack().await?;
        if store.depth(self.lane).await? > 0 {
            return self.hand_over().await;
        }
        tracing::debug!(lane = %self.lane, kept, "lane is empty");
        Ok(Step::End(End::Done))
    }

    /// Closes a lane that more comes into all the time, though nothing has to wait in it: the
    /// key goes first, so that what comes flows past the lane, then what is left is let go.
    pub(super) async fn close_flowing(
        &mut self,
        endpoint: Option<&Endpoint>,
    ) -> Result<Step, BrokerError> {
        if self.is_kept() || !self.delete_key().await? {
            return Ok(Step::Go);
        }
        loop {
            self.head.fill(self.context, self.lane, REST).await?;
            if self.head.len() == 0 {
                break;
            }
            self.release(REST, endpoint).await?;
        }
        self.head.remove(self.context, self.lane, true).await?;
        self.token.ack().await?;
        if self.context.lanes.store().depth(self.lane).await? > 0 {
            return self.hand_over().await;
        }
        tracing::debug!(lane = %self.lane, "lane is of no use any more");
        Ok(Step::End(End::Done))
    }

    /// Somebody else opened it meanwhile, or something came after the token was given up: a
    /// new token makes whoever takes it find what is there.
    async fn hand_over(&mut self) -> Result<Step, BrokerError> {
        self.context.lanes.store().renew_token(self.lane).await?;
        Ok(Step::End(End::Done))
    }

    /// The lane of an endpoint with an order or a rate stays active while it is empty.
    fn is_kept(&self) -> bool {
        let endpoint = self.endpoint();
        self.lane.kind == LaneKind::Live
            && endpoint.is_some_and(|endpoint| keeps_lane(&endpoint.value))
    }

    /// `false` when somebody has written it meanwhile.
    async fn delete_key(&self) -> Result<bool, BrokerError> {
        let bucket = self.context.lanes.watched().bucket();
        let deleted = bucket.delete(&self.lane.key(), self.hold.revision()).await;
        match deleted {
            Ok(()) => Ok(true),
            Err(BrokerError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
