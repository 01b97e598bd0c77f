//! What operators are told by nobody's own act, or by somebody who died before he told.
//!
//! Every scheduler looks and tells for itself. What they tell has ids that follow from what is
//! wrong and since when, or from the hour, so the broker keeps one of each, however many look.
//! It keeps ids for a while (`POSTHORN_DEDUPE_WINDOW`): what is older than five minutes when a
//! scheduler first sees it is believed to have been told by somebody before.

mod disabled;
mod growth;
mod outages;

use crate::config::Settings;
use crate::context::Context;
use disabled::Disabled;
use growth::Growth;
use metrics::gauge;
use outages::Outages;
use posthorn_broker::{BrokerError, StreamName};
use posthorn_delivery::{BreakerState, Endpoint, UnixMillis};
use posthorn_notices::Notice;
use posthorn_runtime::Shutdown;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const LOOK: Duration = Duration::from_secs(5);
/// What began longer ago than this when it is first seen is not news.
const NEWS: Duration = Duration::from_secs(300);

/// What a scheduler has told.
#[derive(Default)]
struct Alarms {
    outages: Outages,
    disabled: Disabled,
    growth: Growth,
    late_hour: Option<i64>,
    growth_hour: Option<i64>,
}

/// Looks until shut down.
pub(crate) async fn watch(context: Arc<Context>, settings: Settings, shutdown: Shutdown) {
    context.loaded().await;
    let mut alarms = Alarms::default();
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
        for notice in self.of_endpoints(context, settings, now) {
            context.notices.tell(Some(notice)).await;
        }
        let late = self.late(context.oldest_due(), settings, now);
        context.notices.tell(late).await;
        let letters = context.broker.stream_messages(StreamName::Dlq).await?;
        let growing = self.growing(letters, settings, now);
        context.notices.tell(growing).await;
        Ok(())
    }

    fn of_endpoints(
        &mut self,
        context: &Context,
        settings: &Settings,
        now: UnixMillis,
    ) -> Vec<Notice> {
        let mut breakers = context.breakers.not_closed();
        breakers.extend(self.outages.endpoints());
        let mut told = Vec::new();
        if !breakers.is_empty() {
            let after = settings.alarm_failing_after;
            let standing = standing(context, &breakers);
            told = self.outages.news(standing, after, now);
        }
        gauge!("posthorn_endpoints_failing").set(self.outages.failing() as f64);
        let revision = context.endpoints.revision();
        if self.disabled.looks_again(revision) {
            let all = context.endpoints.all();
            let endpoints = all.iter().map(|(_, endpoint)| &endpoint.value);
            told.extend(self.disabled.news(endpoints, now));
        }
        told
    }

    fn late(&mut self, oldest: Duration, settings: &Settings, now: UnixMillis) -> Option<Notice> {
        let hour = Some(hour_of(now));
        if oldest < settings.alarm_late_after || self.late_hour == hour {
            return None;
        }
        self.late_hour = hour;
        Some(Notice::DueLate { oldest })
    }

    fn growing(&mut self, letters: u64, settings: &Settings, now: UnixMillis) -> Option<Notice> {
        let (more, within) = self.growth.take_in(letters, now);
        let hour = Some(hour_of(now));
        if more < settings.alarm_dlq_growth || self.growth_hour == hour {
            return None;
        }
        self.growth_hour = hour;
        Some(Notice::DlqGrowing {
            letters,
            more,
            within,
        })
    }
}

fn hour_of(now: UnixMillis) -> i64 {
    now.0.div_euclid(3_600_000)
}

/// The endpoints of `breakers` with their states as they count for their targets. One that was
/// not closed at the last look is among them, and may be closed by now.
fn standing(context: &Context, breakers: &HashSet<String>) -> Vec<(Endpoint, BreakerState)> {
    let all = context.endpoints.all();
    all.into_iter()
        .map(|(_, endpoint)| endpoint)
        .filter(|endpoint| breakers.contains(endpoint.value.id.as_str()))
        .filter(|endpoint| !endpoint.value.tenant.is_system())
        .map(|endpoint| {
            let known = context.breakers.get(&endpoint.value.id).value;
            let state = known.for_target(endpoint.value.target_epoch);
            (endpoint.value.clone(), state)
        })
        .collect()
}
