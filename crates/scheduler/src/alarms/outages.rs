//! Endpoints that are cut off: that it began, that it lasts, that it ended.
//!
//! Whoever moves a breaker tells. He may die between the two, and a change of URL or secret
//! closes a breaker without a write. So schedulers tell as well what they see, under the same
//! ids; and that an outage lasts is told by nobody else.

use super::NEWS;
use posthorn_delivery::breaker::Phase;
use posthorn_delivery::{BreakerState, Endpoint, EndpointId, UnixMillis};
use posthorn_notices::Notice;
use std::collections::HashMap;
use std::time::Duration;

/// The outages that are seen now.
#[derive(Default)]
pub(super) struct Outages {
    seen: HashMap<EndpointId, Seen>,
}

/// One outage.
struct Seen {
    state: BreakerState,
    /// It has lasted for long, and that was told.
    failing: bool,
}

impl Outages {
    /// Of which endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = String> {
        self.seen.keys().map(ToString::to_string)
    }

    /// How many have lasted for long.
    pub fn failing(&self) -> usize {
        self.seen.values().filter(|seen| seen.failing).count()
    }

    /// What is new in the states of breakers as they stand now: of all that are not closed, and
    /// of those that were not at the last look. An outage is failing `after` so long.
    pub fn news(
        &mut self,
        standing: Vec<(Endpoint, BreakerState)>,
        after: Duration,
        now: UnixMillis,
    ) -> Vec<Notice> {
        let mut before = std::mem::take(&mut self.seen);
        let mut news = Vec::new();
        for (endpoint, state) in standing {
            let known = before.remove(&endpoint.id);
            if state.phase == Phase::Closed {
                let moved = known.filter(|known| known.state.generation < state.generation);
                news.extend(moved.and_then(|known| {
                    // A hand that closes forgets since when it was open.
                    Notice::of_breaker(&endpoint, &known.state, &state)
                }));
                continue;
            }
            let same = known.filter(|known| known.state.opened_at == state.opened_at);
            let lasted = now.since(state.opened_at);
            if same.is_none() && lasted < NEWS {
                let closed = BreakerState::default();
                let opened = BreakerState {
                    phase: Phase::Open,
                    ..state.clone()
                };
                news.extend(Notice::of_breaker(&endpoint, &closed, &opened));
            }
            let was_failing = same.is_some_and(|known| known.failing);
            let failing = lasted >= after;
            if failing && !was_failing && lasted < after.saturating_add(NEWS) {
                news.push(Notice::of_failing(&endpoint, state.opened_at));
            }
            self.seen.insert(endpoint.id, Seen { state, failing });
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::breaker::{close_by_hand, open_by_hand};
    use posthorn_delivery::endpoint::{Hidden, limits};
    use posthorn_delivery::{Ordering, RetryPolicy, Tenant};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
    const LONG: Duration = Duration::from_secs(3_600);

    fn endpoint() -> Endpoint {
        Endpoint {
            id: EndpointId::from_bits(1),
            tenant: Tenant::parse("acme").unwrap(),
            url: Hidden::new("https://example.com/".to_owned()),
            event_types: Vec::new(),
            description: String::new(),
            headers: Vec::new(),
            signatures: Vec::new(),
            secrets: Vec::new(),
            key_pairs: Vec::new(),
            disabled: None,
            disabled_before: Duration::ZERO,
            ordering: Ordering::None,
            rate_limit: None,
            max_backlog: limits::MAX_BACKLOG,
            retry: RetryPolicy::default(),
            timeout: Duration::from_secs(15),
            max_in_flight: 32,
            breaker: None,
            target_epoch: 0,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    fn opened_at(at: UnixMillis) -> BreakerState {
        open_by_hand(&BreakerState::default(), at + LONG, at)
    }

    fn kinds(outages: &mut Outages, state: &BreakerState, now: UnixMillis) -> Vec<&'static str> {
        let news = outages.news(vec![(endpoint(), state.clone())], LONG, now);
        news.iter().map(Notice::event_type).collect()
    }

    #[test]
    fn ops_06_what_a_dispatcher_died_over_is_told_by_who_sees_it() {
        let mut outages = Outages::default();
        let open = opened_at(NOW);
        assert_eq!(kinds(&mut outages, &open, NOW), ["posthorn.breaker.opened"]);
        let probing = BreakerState {
            phase: Phase::HalfOpen,
            generation: open.generation + 1,
            ..open.clone()
        };
        assert!(kinds(&mut outages, &probing, NOW).is_empty());
        let later = NOW + LONG;
        assert_eq!(
            kinds(&mut outages, &open, later),
            ["posthorn.endpoint.failing"]
        );
        assert_eq!(outages.failing(), 1);
        assert!(kinds(&mut outages, &open, later + LONG).is_empty());
        let closed = close_by_hand(&open);
        assert_eq!(
            kinds(&mut outages, &closed, later),
            ["posthorn.breaker.closed"]
        );
        assert!(kinds(&mut outages, &closed, later).is_empty());
        assert_eq!(outages.failing(), 0);
    }

    #[test]
    fn a_scheduler_that_starts_late_leaves_what_is_old_alone() {
        let mut outages = Outages::default();
        let old = opened_at(NOW);
        let much_later = NOW + LONG * 2;
        assert!(kinds(&mut outages, &old, much_later).is_empty());
        assert_eq!(outages.failing(), 1, "it is counted all the same");
        let closed = close_by_hand(&old);
        let told = kinds(&mut outages, &closed, much_later);
        assert_eq!(told, ["posthorn.breaker.closed"]);
    }
}
