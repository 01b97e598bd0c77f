//! What nobody's own act tells: that something has been going wrong for a while.
//!
//! Every scheduler looks and tells for itself. What they tell has ids that follow from what is
//! wrong and since when, or from the hour, so the broker keeps one of each, however many look.
//! It is kept for as long as the broker remembers ids (`POSTHORN_DEDUPE_WINDOW`): a scheduler
//! that starts later than that does not tell of an old failure again.

use crate::config::Settings;
use crate::context::Context;
use metrics::gauge;
use posthorn_broker::{BrokerError, StreamName};
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{Endpoint, EndpointId, UnixMillis};
use posthorn_notices::Notice;
use posthorn_runtime::Shutdown;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(5);
/// Dead letters are compared with their number so long ago.
const GROWTH: Duration = Duration::from_secs(30 * 60);
/// Between two counts of dead letters that are kept.
const SAMPLE: Duration = Duration::from_secs(30);
/// A failure that passed its time longer ago than this when the process began is not news.
const OLD: Duration = Duration::from_secs(300);

/// What a scheduler has told.
struct Alarms {
    failing: Failing,
    growth: Growth,
    late_hour: Option<i64>,
    growth_hour: Option<i64>,
}

/// Looks until shut down.
pub(crate) async fn watch(context: Arc<Context>, settings: Settings, shutdown: Shutdown) {
    context.loaded().await;
    let mut alarms = Alarms {
        failing: Failing::default(),
        growth: Growth::default(),
        late_hour: None,
        growth_hour: None,
    };
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => {}
        }
        if let Err(error) = alarms.look(&context, &settings).await {
            tracing::debug!(%error, "the dead letters could not be counted");
        }
    }
}

impl Alarms {
    async fn look(&mut self, context: &Context, settings: &Settings) -> Result<(), BrokerError> {
        let now = posthorn_wiring::now();
        let failing = failing(context, settings.alarm_failing_after, now);
        gauge!("posthorn_endpoints_failing").set(failing.len() as f64);
        for (endpoint, since) in self
            .failing
            .news(failing, settings.alarm_failing_after, now)
        {
            let told = Notice::of_failing(&endpoint, since);
            context.notices.tell(Some(told)).await;
        }
        self.late(context, settings, now).await;
        let letters = context.broker.stream_messages(StreamName::Dlq).await?;
        self.growing(context, settings, (letters, now)).await;
        Ok(())
    }

    async fn late(&mut self, context: &Context, settings: &Settings, now: UnixMillis) {
        let oldest = context.oldest_due();
        let hour = hour_of(now);
        if oldest < settings.alarm_late_after || self.late_hour == Some(hour) {
            return;
        }
        self.late_hour = Some(hour);
        context.notices.tell(Some(Notice::DueLate { oldest })).await;
    }

    async fn growing(
        &mut self,
        context: &Context,
        settings: &Settings,
        (letters, now): (u64, UnixMillis),
    ) {
        let (more, within) = self.growth.take_in(letters, now);
        let hour = hour_of(now);
        if more < settings.alarm_dlq_growth || self.growth_hour == Some(hour) {
            return;
        }
        self.growth_hour = Some(hour);
        let told = Notice::DlqGrowing {
            letters,
            more,
            within,
        };
        context.notices.tell(Some(told)).await;
    }
}

fn hour_of(now: UnixMillis) -> i64 {
    now.0.div_euclid(3_600_000)
}

/// The endpoints whose breaker has not been closed for `after`, with since when.
fn failing(context: &Context, after: Duration, now: UnixMillis) -> Vec<(Endpoint, UnixMillis)> {
    let breakers: HashMap<_, _> = context.breakers.not_closed().into_iter().collect();
    if breakers.is_empty() {
        return Vec::new();
    }
    let of = |endpoint: &Endpoint| {
        let known = breakers.get(endpoint.id.as_str())?;
        let state = known.value.for_target(endpoint.target_epoch);
        let open = state.phase != Phase::Closed && now.since(state.opened_at) >= after;
        open.then_some(state.opened_at)
    };
    let endpoints = context.endpoints.all();
    endpoints
        .iter()
        .filter(|(_, endpoint)| !endpoint.value.tenant.is_system())
        .filter_map(|(_, endpoint)| Some((endpoint.value.clone(), of(&endpoint.value)?)))
        .collect()
}

/// Which failures have been told of.
#[derive(Default)]
struct Failing {
    told: HashMap<EndpointId, UnixMillis>,
    begun: bool,
}

impl Failing {
    /// Those of `failing` that are new, of which whoever looks for the first time believes that
    /// the older ones were told by somebody before.
    fn news(
        &mut self,
        failing: Vec<(Endpoint, UnixMillis)>,
        after: Duration,
        now: UnixMillis,
    ) -> Vec<(Endpoint, UnixMillis)> {
        let first = !std::mem::replace(&mut self.begun, true);
        let before = std::mem::take(&mut self.told);
        let mut news = Vec::new();
        for (endpoint, since) in failing {
            self.told.insert(endpoint.id.clone(), since);
            let known = before.get(&endpoint.id) == Some(&since);
            let old = first && now.since(since) >= after.saturating_add(OLD);
            if !known && !old {
                news.push((endpoint, since));
            }
        }
        news
    }
}

/// The number of dead letters over the last half hour.
#[derive(Default)]
struct Growth {
    samples: VecDeque<(UnixMillis, u64)>,
}

impl Growth {
    /// How many more there are than half an hour ago, and how long ago that was exactly: less
    /// where the process is younger.
    fn take_in(&mut self, letters: u64, now: UnixMillis) -> (u64, Duration) {
        let newest = self.samples.back();
        if newest.is_none_or(|(at, _)| now.since(*at) >= SAMPLE) {
            self.samples.push_back((now, letters));
        }
        while self.samples.len() > 1 && now.since(self.samples[0].0) > GROWTH {
            self.samples.pop_front();
        }
        let (at, then) = self.samples[0];
        (letters.saturating_sub(then), now.since(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_over_half_an_hour_and_no_longer() {
        let mut growth = Growth::default();
        let at = |minutes: i64| UnixMillis(minutes * 60_000);
        assert_eq!(growth.take_in(50, at(0)), (0, Duration::ZERO));
        assert_eq!(growth.take_in(80, at(10)).0, 30);
        assert_eq!(growth.take_in(150, at(30)).0, 100);
        let (more, within) = growth.take_in(150, at(35));
        assert_eq!((more, within), (70, Duration::from_secs(25 * 60)));
        assert_eq!(growth.take_in(20, at(36)).0, 0, "fewer is no growth");
    }
}
