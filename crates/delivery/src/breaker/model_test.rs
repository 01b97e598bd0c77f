//! Every sequence of eight events over three dispatchers, each with its own, possibly old,
//! view of the shared state.

use super::*;
use crate::admission::{Admission, gate};
use crate::time::UnixMillis;
use std::collections::HashSet;
use std::time::Duration;

const DEPTH: usize = 8;
const DISPATCHERS: usize = 3;
const LEASE: Duration = Duration::from_secs(20);

/// One dispatcher: what it last saw, and the attempt that it is making.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dispatcher {
    view: BreakerState,
    attempt: Option<(u64, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: UnixMillis,
    shared: BreakerState,
    dispatchers: Vec<Dispatcher>,
    probes_started: Vec<(u64, usize)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Sync(usize),
    Start(usize),
    Finish(usize, BreakerSignal),
    Crash(usize),
    Wait(Duration),
}

fn policy() -> BreakerPolicy {
    BreakerPolicy::try_new(2, Duration::from_secs(10), Duration::from_secs(40)).unwrap()
}

fn events() -> Vec<Event> {
    let mut all = vec![Event::Wait(Duration::from_secs(10)), Event::Wait(LEASE)];
    for who in 0..DISPATCHERS {
        all.extend([Event::Sync(who), Event::Start(who), Event::Crash(who)]);
        for signal in [
            BreakerSignal::Success,
            BreakerSignal::Failure,
            BreakerSignal::Neutral,
        ] {
            all.push(Event::Finish(who, signal));
        }
    }
    all
}

impl World {
    fn new() -> World {
        let idle = Dispatcher {
            view: BreakerState::default(),
            attempt: None,
        };
        World {
            now: UnixMillis(1_000_000),
            shared: BreakerState::default(),
            dispatchers: vec![idle; DISPATCHERS],
            probes_started: Vec::new(),
        }
    }

    fn after(&self, event: Event) -> Option<World> {
        let mut next = self.clone();
        match event {
            Event::Wait(time) => next.now = next.now + time,
            Event::Sync(who) => next.dispatchers[who].view = next.shared.clone(),
            Event::Crash(who) => next.dispatchers[who].attempt.take().map(|_| ())?,
            Event::Start(who) => next.start(who)?,
            Event::Finish(who, signal) => next.finish(who, signal)?,
        }
        Some(next)
    }

    fn start(&mut self, who: usize) -> Option<()> {
        if self.dispatchers[who].attempt.is_some() {
            return None;
        }
        let name = format!("delivery-{who}");
        let view = self.dispatchers[who].view.clone();
        let attempt = match gate(&view, Some(&policy()), &name, LEASE, self.now) {
            Admission::Allow { generation, probe } => (generation, probe),
            Admission::Claim(claimed) => {
                // Compare-and-swap: only over what was read.
                if view != self.shared {
                    return None;
                }
                self.shared = *claimed;
                self.dispatchers[who].view = self.shared.clone();
                (self.shared.generation, true)
            }
            Admission::Hold { .. } | Admission::Expired => return None,
        };
        if attempt.1 {
            self.probes_started.push((attempt.0, who));
        }
        self.dispatchers[who].attempt = Some(attempt);
        Some(())
    }

    fn finish(&mut self, who: usize, signal: BreakerSignal) -> Option<()> {
        let (generation, probe) = self.dispatchers[who].attempt.take()?;
        let report = Attempted {
            generation,
            probe,
            signal,
            count: 1,
            hold_until: None,
        };
        let before = self.shared.clone();
        if let Some(moved) = observe(&self.shared, Some(&policy()), report, self.now) {
            assert_eq!(
                generation, before.generation,
                "cb_03: a stale generation changes nothing"
            );
            assert!(moved.generation >= before.generation);
            assert!(moved.phase == before.phase || moved.generation == before.generation + 1);
            self.shared = moved;
        }
        Some(())
    }

    fn check(&self) {
        let admitted = |name: &str| {
            !matches!(
                gate(&self.shared, Some(&policy()), name, LEASE, self.now),
                Admission::Hold { .. }
            )
        };
        if self.shared.phase == Phase::Open && self.now < self.shared.open_until {
            assert!(!admitted("any"), "Open admits none");
        }
        for (generation, who) in &self.probes_started {
            let same = self.probes_started.iter().filter(|(g, _)| g == generation);
            assert!(
                same.clone().all(|(_, w)| w == who),
                "cb_01: HalfOpen admits one"
            );
        }
    }
}

#[test]
fn cb_01_cb_03_every_sequence_of_eight_events_keeps_the_invariants() {
    let mut frontier = HashSet::from([World::new()]);
    let mut seen = frontier.clone();
    let mut phases = HashSet::new();
    for _ in 0..DEPTH {
        let mut next = HashSet::new();
        for world in &frontier {
            for reached in events().into_iter().filter_map(|event| world.after(event)) {
                reached.check();
                phases.insert(reached.shared.phase);
                if !seen.contains(&reached) {
                    next.insert(reached);
                }
            }
        }
        seen.extend(next.iter().cloned());
        frontier = next;
    }
    assert_eq!(phases.len(), 3, "the model reached every phase");
    assert!(
        seen.len() > 1_500,
        "the model explored {} states",
        seen.len()
    );
}

fn failed(state: &BreakerState, probe: bool, now: UnixMillis) -> Option<BreakerState> {
    let report = Attempted {
        generation: state.generation,
        probe,
        signal: BreakerSignal::Failure,
        count: 1,
        hold_until: None,
    };
    observe(state, Some(&policy()), report, now)
}

#[test]
fn the_cooldown_doubles_with_each_failed_probe_up_to_its_cap() {
    let mut now = UnixMillis(1_000_000);
    let mut state = failed(
        &failed(&BreakerState::default(), false, now).unwrap(),
        false,
        now,
    )
    .unwrap();
    let mut cooldowns = vec![now.until(state.open_until).as_secs()];
    for _ in 0..4 {
        now = state.open_until;
        state = failed(&claim(&state, "d", LEASE, now), true, now).unwrap();
        cooldowns.push(now.until(state.open_until).as_secs());
    }
    assert_eq!(cooldowns, [10, 20, 40, 40, 40]);
    assert_eq!(
        state.opened_at,
        UnixMillis(1_000_000),
        "it has been open since the first trip"
    );
}

#[test]
fn failures_reported_together_are_added_up() {
    let report = Attempted {
        generation: 0,
        probe: false,
        signal: BreakerSignal::Failure,
        count: 7,
        hold_until: None,
    };
    let opened = observe(
        &BreakerState::default(),
        Some(&policy()),
        report,
        UnixMillis(5),
    )
    .unwrap();
    assert_eq!(
        (opened.phase, opened.consecutive_failures, opened.generation),
        (Phase::Open, 7, 1)
    );
}

#[test]
fn a_probe_that_is_asked_to_wait_waits_at_least_that_long() {
    let now = UnixMillis(1_000_000);
    let open = open_by_hand(&BreakerState::default(), now, now);
    let probing = claim(&open, "d", LEASE, now);
    let asked = now + Duration::from_secs(600);
    let report = Attempted {
        generation: probing.generation,
        probe: true,
        signal: BreakerSignal::Neutral,
        count: 1,
        hold_until: Some(asked),
    };
    let reopened = observe(&probing, Some(&policy()), report, now).unwrap();
    assert_eq!(
        (reopened.phase, reopened.open_until, reopened.hold_until),
        (Phase::Open, asked, asked)
    );
}

#[test]
fn a_hold_is_never_shortened_and_needs_no_breaker() {
    let now = UnixMillis(1_000_000);
    let report = |until| Attempted {
        generation: 99,
        probe: false,
        signal: BreakerSignal::Neutral,
        count: 1,
        hold_until: Some(until),
    };
    let later = now + Duration::from_secs(9);
    let held = observe(&BreakerState::default(), None, report(later), now).unwrap();
    assert_eq!(
        (held.phase, held.hold_until, held.generation),
        (Phase::Closed, later, 0)
    );
    assert_eq!(observe(&held, None, report(now), now), None);
}

#[test]
fn a_changed_target_closes_under_a_new_generation() {
    let open = open_by_hand(&BreakerState::default(), UnixMillis(9_000), UnixMillis(1));
    let fresh = open.for_target(1);
    assert_eq!(
        (fresh.phase, fresh.generation, fresh.target_epoch),
        (Phase::Closed, 2, 1)
    );
    assert_eq!(open.for_target(0), open);
    assert_eq!(failed(&fresh, false, UnixMillis(2)).unwrap().generation, 2);
}
