//! Letting go what the state of the endpoint permits.

use super::End;
use super::answers::about_the_endpoint;
use super::owner::{Owner, Step};
use posthorn_broker::BrokerError;
use posthorn_broker::codec::Parked;
use posthorn_delivery::lane::{Pace, keeps_lane, most_in_flight};
use posthorn_delivery::ramp::Ramp;
use posthorn_delivery::{Attempt, Endpoint, LaneKind, LaneReason, UnixMillis};
use posthorn_lanes::reason_to_keep;
use std::time::Duration;

/// A lane in which nothing has had to wait for so long is closed, however much passes through
/// it; before that it stays open, because opening costs more.
const LINGER: Duration = Duration::from_millis(150);
/// Meanwhile it is looked at so often.
const LOOK: Duration = Duration::from_millis(10);
/// A replay's release that comes so late on a busy machine is made up for.
const MADE_UP: Duration = Duration::from_millis(500);
/// A second candidate for the probe is let go after so long, if the first moved nothing.
const CANDIDATE: Duration = Duration::from_secs(1);
/// What needs no request is let go so many at once.
const WITHOUT_REQUEST: u32 = 256;

impl Owner<'_> {
    /// Exactly one, and no other before the breaker has moved or the one is gone.
    pub(super) async fn probe(&mut self, endpoint: Option<&Endpoint>) -> Result<Step, BrokerError> {
        let now = posthorn_wiring::now();
        let revision = self.breaker().revision;
        let let_go = self
            .candidate
            .filter(|(under, _)| *under == revision)
            .map(|(_, at)| at + CANDIDATE);
        if let Some(until) = let_go.filter(|until| *until > now) {
            return Ok(Step::Wait(until));
        }
        self.recount().await?;
        if self.flight.out() > 0 {
            return Ok(Step::Wait(now + Duration::from_millis(50)));
        }
        if self.is_ordered(endpoint) {
            return self.ordered_step(endpoint, 1).await;
        }
        self.head.fill(self.context, self.lane, 1).await?;
        if self.head.len() == 0 {
            return self.close().await;
        }
        if !self.describe(LaneReason::Probing, UnixMillis(0)).await? {
            return Ok(Step::End(End::Done));
        }
        self.candidate = Some((revision, now));
        self.release(1, endpoint).await?;
        Ok(Step::Go)
    }

    /// As many as may be; `None` is an endpoint that has been deleted.
    pub(super) async fn flow(&mut self, endpoint: Option<&Endpoint>) -> Result<Step, BrokerError> {
        self.hear_all();
        if !self.settle_reason(endpoint).await? {
            return Ok(Step::End(End::Done));
        }
        if let Some(endpoint) = endpoint {
            let (store, tenant) = (self.context.lanes.store(), &endpoint.tenant);
            self.hearing.begin(store, tenant, &endpoint.id).await?;
        }
        let now = posthorn_wiring::now();
        let cap = self.cap(endpoint);
        if self.flight.is_recount_due(cap, now) {
            self.recount().await?;
        }
        if self.is_ordered(endpoint) {
            let room = self.flight.room(1, now).min(self.paced(now));
            return self.ordered_step(endpoint, room).await;
        }
        let ahead = cap.saturating_mul(4).max(64);
        self.head.fill(self.context, self.lane, ahead).await?;
        if self.head.len() == 0 {
            return self.empty(cap).await;
        }
        let until_due = self.first_is_due_at();
        if until_due > now {
            return Ok(self.rest(until_due));
        }
        let n = self.room(cap, now);
        if usize::try_from(n).is_ok_and(|n| n < self.head.len()) {
            self.limited_at = now;
        }
        if n == 0 {
            self.head.remove(self.context, self.lane, false).await?;
            return Ok(Step::Wait(self.next_look(cap, now)));
        }
        self.release(n, endpoint).await?;
        if self.flows_freely(now) {
            return self.close_flowing(endpoint).await;
        }
        Ok(Step::Go)
    }

    /// Whether nothing has held this lane back for a while, so that it is of no use.
    fn flows_freely(&self, now: UnixMillis) -> bool {
        self.lane.kind == LaneKind::Live
            && self.ramp.is_none()
            && self.pace.is_none()
            && now.since(self.limited_at) >= LINGER
    }

    /// How many more may go now.
    fn room(&mut self, cap: u32, now: UnixMillis) -> u32 {
        let by_flight = self.flight.room(cap, now);
        let by_ramp = self
            .ramp
            .as_mut()
            .map_or(u32::MAX, |ramp| ramp.permit(self.flight.out(), cap, now));
        by_flight.min(by_ramp).min(self.paced(now))
    }

    fn paced(&self, now: UnixMillis) -> u32 {
        self.pace.as_ref().map_or(u32::MAX, |pace| pace.permit(now))
    }

    fn next_look(&self, cap: u32, now: UnixMillis) -> UnixMillis {
        let out = self.flight.out();
        let looks = [
            self.flight.next_look(cap, now),
            self.ramp
                .as_ref()
                .and_then(|ramp| ramp.next_look(out, cap, now)),
            self.pace.as_ref().map(|pace| pace.next(now)),
        ];
        let next = looks.into_iter().flatten().min();
        // Only an answer helps; the look is for one that was not heard.
        next.unwrap_or(now + Duration::from_millis(500)).max(now)
    }

    /// How many may be on their way.
    fn cap(&self, endpoint: Option<&Endpoint>) -> u32 {
        let Some(endpoint) = endpoint else {
            return WITHOUT_REQUEST;
        };
        let most = most_in_flight(endpoint, self.context.dispatchers());
        match self.lane.kind {
            LaneKind::Live => most,
            // Live traffic finds slots free beside a replay, and few requests before its own.
            LaneKind::Replay => (most / 4).max(1),
        }
    }

    /// A replayed delivery has a time; what was published is due since it came.
    fn first_is_due_at(&self) -> UnixMillis {
        match self.head.first().map(|item| &item.value) {
            Some(Parked::Delivery(first)) if self.lane.kind == LaneKind::Replay => first.not_before,
            _ => UnixMillis(0),
        }
    }

    /// What holds a lane back that may flow: the ramp after a hold, a rate, or nothing but the
    /// cap. `false` when it is not ours any more.
    async fn settle_reason(&mut self, endpoint: Option<&Endpoint>) -> Result<bool, BrokerError> {
        let now = posthorn_wiring::now();
        self.pace = self.interval(endpoint).map(|(interval, late)| {
            let pace = self.pace.unwrap_or_else(|| Pace::start(interval, now));
            pace.with_interval(interval, now).making_up(late)
        });
        let reason = self.hold.state().reason;
        let after_hold = reason.is_hold() || reason == LaneReason::Probing;
        let ramps = reason == LaneReason::Ramp && self.ramp.is_none();
        if endpoint.is_some() && (after_hold || ramps) {
            self.ramp = Some(Ramp::start(now));
            self.candidate = None;
        }
        let done = match (&self.ramp, endpoint) {
            (Some(ramp), Some(_)) => ramp.is_done(self.cap(endpoint), now),
            _ => true,
        };
        if done {
            self.ramp = None;
        }
        let next = self.flowing_reason(endpoint, reason);
        self.describe(next, UnixMillis(0)).await
    }

    fn flowing_reason(&self, endpoint: Option<&Endpoint>, now: LaneReason) -> LaneReason {
        if self.ramp.is_some() {
            return LaneReason::Ramp;
        }
        match (self.lane.kind, endpoint) {
            (LaneKind::Replay, Some(_)) => LaneReason::Replay,
            (LaneKind::Live, Some(_)) if self.is_ordered(endpoint) => LaneReason::Fifo,
            (LaneKind::Live, Some(endpoint)) if keeps_lane(endpoint) => reason_to_keep(endpoint),
            _ if now == LaneReason::InFlight => LaneReason::InFlight,
            _ => LaneReason::Draining,
        }
    }

    /// The time between two releases, where a rate is given, and how late one may be made up for.
    /// An endpoint's limit is a bound, what a job asks for a rate.
    fn interval(&self, endpoint: Option<&Endpoint>) -> Option<(Duration, Duration)> {
        let limit = endpoint?.rate_limit.map(|limit| limit.interval());
        let asked = match self.hold.state().rate_per_second {
            0 => None,
            rate => Some(Duration::from_secs(1) / rate),
        };
        let asked = asked.filter(|_| self.lane.kind == LaneKind::Replay);
        let interval = limit.max(asked)?;
        let late = if limit < asked { MADE_UP } else { Pace::LATE };
        Some((interval, late))
    }

    /// Nothing is left as far as was read.
    async fn empty(&mut self, cap: u32) -> Result<Step, BrokerError> {
        self.head.remove(self.context, self.lane, true).await?;
        let now = posthorn_wiring::now();
        let lingers = now.since(self.limited_at) < LINGER;
        // At its cap, the next delivery would open the lane again.
        let full = self.flight.out() >= cap && cap > 0;
        if lingers {
            return Ok(Step::Wait(now + LOOK));
        }
        if full {
            let look = self.flight.next_look(cap, now).unwrap_or(now);
            return Ok(Step::Wait(look.max(now + LOOK)));
        }
        self.close().await
    }

    /// Counts what is on its way, after hearing what there is to hear.
    pub(super) async fn recount(&mut self) -> Result<(), BrokerError> {
        let store = self.context.lanes.store();
        let count = store.on_their_way(&self.lane.endpoint).await?;
        self.hear_all();
        let now = posthorn_wiring::now();
        self.flight
            .counted(u32::try_from(count).unwrap_or(u32::MAX), now);
        Ok(())
    }

    fn hear_all(&mut self) {
        while let Some(answer) = self.hearing.ready() {
            self.hear(&answer);
        }
    }

    /// A limit is the endpoint's: what went out live is taken off what is replayed.
    fn share_the_rate(&mut self, attempt: &Attempt, now: UnixMillis) {
        let live = self.lane.kind == LaneKind::Replay && attempt.replay_generation == 0;
        let limited = || {
            let endpoint = self.endpoint();
            endpoint.is_some_and(|endpoint| endpoint.value.rate_limit.is_some())
        };
        if live
            && limited()
            && let Some(pace) = &mut self.pace
        {
            pace.used(1, now);
        }
    }

    pub(super) fn hear(&mut self, attempt: &Attempt) {
        let now = posthorn_wiring::now();
        self.flight.answered(now);
        self.ordered.hear(attempt);
        self.share_the_rate(attempt, now);
        if let (Some(ramp), Some(answer)) = (&mut self.ramp, about_the_endpoint(attempt)) {
            ramp.observe(answer, now);
        }
    }
}
