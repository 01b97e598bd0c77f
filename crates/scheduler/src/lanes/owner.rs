//! The owner of a lane, from taking its token to giving it back.

use super::End;
use super::answers::Hearing;
use super::head::Head;
use super::hold::Hold;
use super::ordered::Ordered;
use crate::context::Context;
use posthorn_broker::codec::Parked;
use posthorn_broker::{BrokerError, Incoming, Versioned};
use posthorn_delivery::lane::{Flight, Pace, Stand, stand};
use posthorn_delivery::ramp::Ramp;
use posthorn_delivery::{
    BreakerState, Delivery, Endpoint, LaneId, LaneKind, LaneReason, Ordering, UnixMillis,
};
use posthorn_runtime::rng;
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What an owner works with.
pub(crate) struct Owner<'a> {
    pub(super) context: &'a Context,
    pub(super) lane: &'a LaneId,
    pub(super) token: &'a Incoming,
    pub(super) hold: Hold,
    pub(super) head: Head,
    pub(super) flight: Flight,
    pub(super) ramp: Option<Ramp>,
    pub(super) pace: Option<Pace>,
    pub(super) hearing: Hearing,
    pub(super) ordered: Ordered,
    /// The breaker's revision that a probe was let go under, and when.
    pub(super) candidate: Option<(u64, UnixMillis)>,
    /// When something had to wait last.
    pub(super) limited_at: UnixMillis,
    changes: Changes,
}

/// What else moves a lane.
struct Changes {
    lanes: watch::Receiver<Option<u64>>,
    breakers: watch::Receiver<Option<u64>>,
    endpoints: watch::Receiver<Option<u64>>,
}

/// What to do next.
pub(super) enum Step {
    /// Look again at once.
    Go,
    /// Look again at this time, or when something moves.
    Wait(UnixMillis),
    /// Leave.
    End(End),
}

/// A wait up to this is spent with the token in hand: giving it back costs more.
pub(super) const IN_HAND: Duration = Duration::from_secs(2);
/// However long a hold is, the lane is looked at so often: whoever ended the hold may have died
/// before it woke the lane.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

impl<'a> Owner<'a> {
    /// Takes the lane of `token`. `None` when there is nothing to own: the token is gone then.
    pub async fn take(
        context: &'a Context,
        lane: &'a LaneId,
        token: &'a Incoming,
    ) -> Result<Option<Owner<'a>>, BrokerError> {
        let hold = match Hold::take(context, lane).await? {
            Some(hold) => hold,
            None => match open_unknown(context, lane, token).await? {
                Some(hold) => hold,
                None => return Ok(None),
            },
        };
        // What was written before the token was renewed is seen before anything is decided.
        context.freshness.catch_up().await?;
        context.breakers.refresh(&lane.endpoint).await?;
        let store = context.lanes.store();
        let out = store.on_their_way(&lane.endpoint).await?;
        let now = posthorn_wiring::now();
        Ok(Some(Owner {
            context,
            lane,
            token,
            hold,
            head: Head::new(),
            flight: Flight::start(u32::try_from(out).unwrap_or(u32::MAX), now),
            ramp: None,
            pace: None,
            hearing: Hearing::Not,
            ordered: Ordered::new(now),
            candidate: None,
            limited_at: now,
            changes: Changes {
                lanes: context.lanes.watched().changes(),
                breakers: context.breakers.changes(),
                endpoints: context.endpoints.changes(),
            },
        }))
    }

    /// Works until there is nothing to do for a while.
    pub async fn run(mut self) -> Result<End, BrokerError> {
        loop {
            if self.context.stop.is_cancelled() {
                return self.leave(End::Back(Duration::ZERO)).await;
            }
            if !self.hold.is_mine(self.context, self.lane) {
                return self.leave(End::Done).await;
            }
            self.hold.refresh(self.context, self.lane);
            match self.step().await? {
                Step::Go => {}
                Step::Wait(until) => self.wait(until).await,
                Step::End(end) => return self.leave(end).await,
            }
        }
    }

    async fn step(&mut self) -> Result<Step, BrokerError> {
        let endpoint = self.endpoint();
        let known = endpoint.as_ref().map(|known| &known.value);
        let now = posthorn_wiring::now();
        match stand(known, &self.breaker().value, now) {
            Stand::Shut { reason, until } => self.shut(known, reason, until).await,
            Stand::Probing { until } => self.probing(until).await,
            _ if self.is_behind_live(known).await? => self.behind_live().await,
            Stand::Probe => self.probe(known).await,
            Stand::Deleted => self.flow(None).await,
            Stand::Flow => self.flow(known).await,
        }
    }

    /// Nothing may be sent. What is over meanwhile is let go all the same: it is dead-lettered
    /// without a request.
    async fn shut(
        &mut self,
        endpoint: Option<&Endpoint>,
        reason: LaneReason,
        until: UnixMillis,
    ) -> Result<Step, BrokerError> {
        if !self.describe(reason, until).await? {
            return Ok(Step::End(End::Done));
        }
        if let Some(endpoint) = endpoint.filter(|known| self.is_ordered(Some(known))) {
            return match self.head_is_over(endpoint).await? {
                true => self.ordered_step(Some(endpoint), 1).await,
                false => Ok(self.rest(until)),
            };
        }
        if let Some(endpoint) = endpoint
            && self.release_expired(endpoint).await?
        {
            return Ok(Step::Go);
        }
        self.head.fill(self.context, self.lane, 1).await?;
        match self.head.first().map(|item| &item.value) {
            None => self.close().await,
            // Whoever is over before the hold is not kept until its end.
            Some(Parked::Delivery(first)) if let Some(endpoint) = endpoint => {
                let end = first.ends_at(endpoint, posthorn_wiring::now());
                Ok(self.rest(spread(reason, until).min(end)))
            }
            Some(_) => Ok(self.rest(spread(reason, until))),
        }
    }

    async fn probing(&mut self, until: UnixMillis) -> Result<Step, BrokerError> {
        match self.describe(LaneReason::Probing, until).await? {
            true => Ok(Step::Wait(until)),
            false => Ok(Step::End(End::Done)),
        }
    }

    /// A replay stands behind live traffic.
    async fn behind_live(&mut self) -> Result<Step, BrokerError> {
        let unknown = UnixMillis(0);
        match self.describe(LaneReason::BehindLive, unknown).await? {
            true => Ok(Step::Wait(posthorn_wiring::now() + IN_HAND)),
            false => Ok(Step::End(End::Done)),
        }
    }

    async fn is_behind_live(&self, endpoint: Option<&Endpoint>) -> Result<bool, BrokerError> {
        let Some(endpoint) = endpoint.filter(|_| self.lane.kind == LaneKind::Replay) else {
            return Ok(false);
        };
        let live = LaneId::live(&self.lane.endpoint);
        if !posthorn_delivery::lane::keeps_lane(endpoint) {
            return Ok(self.context.lanes.get(&live).is_some());
        }
        // A lane that is kept is active always; what matters is whether anything is in it.
        Ok(self.context.lanes.store().depth(&live).await? > 0)
    }

    /// Waits until `until`, here or with the token given back.
    pub(super) fn rest(&self, until: UnixMillis) -> Step {
        let wait = posthorn_wiring::now().until(until);
        match wait > IN_HAND {
            true => Step::End(End::Back(wait.min(LONGEST))),
            false => Step::Wait(until),
        }
    }

    /// Says why the lane is active. `false` when it is not ours any more.
    pub(super) async fn describe(
        &mut self,
        reason: LaneReason,
        until: UnixMillis,
    ) -> Result<bool, BrokerError> {
        self.hold
            .describe(self.context, self.lane, reason, until)
            .await
    }

    pub(super) fn endpoint(&self) -> Option<Arc<Versioned<Endpoint>>> {
        let tenant = &self.hold.state().tenant;
        let key = format!("{tenant}.{}", self.lane.endpoint);
        self.context.endpoints.get(&key)
    }

    pub(super) fn breaker(&self) -> Versioned<BreakerState> {
        self.context.breakers.get(&self.lane.endpoint)
    }

    /// Whether the order of the events is kept. A head that was begun in order is ended in
    /// order also after the endpoint has been changed.
    pub(super) fn is_ordered(&self, endpoint: Option<&Endpoint>) -> bool {
        let wanted = endpoint.is_some_and(|endpoint| endpoint.ordering == Ordering::Fifo);
        self.lane.kind == LaneKind::Live && (wanted || self.ordered.has_begun())
    }

    /// Waits until `until`, an answer, or a change of the lane, the breaker or the endpoint.
    async fn wait(&mut self, until: UnixMillis) {
        let pause = posthorn_wiring::now()
            .until(until)
            .clamp(Duration::from_millis(1), LONGEST);
        let Changes {
            lanes,
            breakers,
            endpoints,
        } = &mut self.changes;
        let answer = tokio::select! {
            answer = self.hearing.next() => Some(answer),
            () = tokio::time::sleep(pause) => None,
            _ = lanes.changed() => None,
            _ = breakers.changed() => None,
            _ = endpoints.changed() => None,
            () = self.context.stop.cancelled() => None,
        };
        if let Some(answer) = answer {
            self.hear(&answer);
        }
    }

    /// Removes what was let go. What could not be removed is let go again under the same ids.
    async fn leave(mut self, end: End) -> Result<End, BrokerError> {
        self.head.remove(self.context, self.lane, true).await?;
        Ok(end)
    }
}

/// Endpoints that went down together are not probed in one instant: the end of a hold is put off
/// by up to a tenth of what is left of it, at most 3 s.
fn spread(reason: LaneReason, until: UnixMillis) -> UnixMillis {
    if reason != LaneReason::BreakerOpen {
        return until;
    }
    let left = posthorn_wiring::now().until(until);
    let most = (left / 10).min(Duration::from_secs(3));
    let most = u64::try_from(most.as_millis()).unwrap_or(0);
    until + Duration::from_millis(rng::rng().random_range(0..=most))
}

/// A token without a key: either the lane was closed, or somebody died between the two.
async fn open_unknown(
    context: &Context,
    lane: &LaneId,
    token: &Incoming,
) -> Result<Option<Hold>, BrokerError> {
    let store = context.lanes.store();
    if store.depth(lane).await? == 0 {
        token.ack().await?;
        return match store.depth(lane).await? {
            0 => Ok(None),
            _ => store.put_token(lane).await.map(|()| None),
        };
    }
    let page = store.read(lane, 1, 256).await?;
    let tenant = page.items.iter().find_map(|item| match &item.value {
        Parked::Delivery(delivery) => Some(tenant_of(delivery)),
        Parked::Unreadable(..) => None,
    });
    match tenant {
        Some(tenant) => Hold::open(context, lane, &tenant).await,
        None => {
            super::release::bury_all(context, lane, page.items).await?;
            store.renew_token(lane).await.map(|()| None)
        }
    }
}

fn tenant_of(delivery: &Delivery) -> posthorn_delivery::Tenant {
    delivery.tenant.clone()
}
