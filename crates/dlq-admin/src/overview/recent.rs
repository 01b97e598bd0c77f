//! The last quarter of an hour in memory: what was seen of the attempts, and how full the
//! streams were, in steps of five seconds.
//!
//! It is a view and no state: each copy of the service has its own, begun when it starts from
//! what the log still tells, and nothing depends on it. Attempts lie in the step in which they
//! were stored. Where more were stored than are read, each of those read stands for several.

use posthorn_delivery::{EndpointId, Tenant, UnixMillis};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The length of a step, in milliseconds.
pub const STEP: i64 = 5_000;
/// Steps that are kept.
pub const KEPT: usize = 180;

/// How full the streams were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Events that were ever accepted.
    pub accepted: u64,
    /// Attempts that were ever recorded.
    pub attempts: u64,
    /// Deliveries that are with dispatchers, or may be at once.
    pub due: u64,
    /// Deliveries and events that wait for a time.
    pub waiting: u64,
    /// Deliveries that wait in lanes.
    pub held: u64,
    /// Letters.
    pub dead: u64,
    /// For how long the oldest due thing has been so.
    pub oldest_due: Duration,
}

/// One attempt that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Whose.
    pub tenant: Tenant,
    /// To which endpoint.
    pub endpoint: EndpointId,
    /// When it was stored.
    pub at: UnixMillis,
    /// What it failed with; `None` where it was delivered.
    pub failure: Option<String>,
    /// How long it took, milliseconds.
    pub latency_ms: u32,
    /// For how many attempts it stands.
    pub weight: f64,
}

/// What was seen of one endpoint in one step, or of any in several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Attempts that were delivered.
    pub delivered: f64,
    /// Attempts that were not.
    pub failed: f64,
    /// How long each one that was read took, milliseconds.
    pub latencies: Vec<u32>,
    /// The last failure, and when it was stored.
    pub last_failure: Option<(UnixMillis, String)>,
}

impl Tally {
    fn add(&mut self, seen: Seen) {
        self.latencies.push(seen.latency_ms);
        match seen.failure {
            None => self.delivered += seen.weight,
            Some(failure) => {
                self.failed += seen.weight;
                self.last_failure = Some((seen.at, failure));
            }
        }
    }

    fn merge(&mut self, other: &Tally) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.latencies.extend(&other.latencies);
        let at = |failure: &Option<(UnixMillis, String)>| failure.as_ref().map(|(at, _)| *at);
        if at(&other.last_failure) > at(&self.last_failure) {
            self.last_failure.clone_from(&other.last_failure);
        }
    }

    /// The latency that `per_cent` of the attempts stay within; `None` without attempts.
    #[must_use]
    pub fn latency(&self, per_cent: usize) -> Option<u32> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

/// One step as it is shown. What is not known is `None`, and not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// When it began.
    pub at: UnixMillis,
    /// Events accepted a second.
    pub accepted: Option<f64>,
    /// Attempts, where the log was read for this step.
    pub tally: Option<Tally>,
    /// How full the streams were.
    pub gauges: Option<Gauges>,
}

#[derive(Default)]
struct Step {
    number: i64,
    accepted: Option<f64>,
    gauges: Option<Gauges>,
    tallies: HashMap<EndpointId, (Tenant, Tally)>,
}

/// The steps, oldest first.
#[derive(Default)]
pub struct Recent {
    steps: VecDeque<Step>,
    last: Option<(UnixMillis, Gauges)>,
    /// From here on the log has been read without a gap.
    read_from: Option<UnixMillis>,
}

impl Recent {
    /// Says from when on attempts are noted: what lies before is not known.
    pub fn begin(&mut self, at: UnixMillis) {
        self.read_from = Some(at);
    }

    /// Takes an attempt.
    pub fn note(&mut self, seen: Seen) {
        let Some(step) = self.step(seen.at) else {
            return;
        };
        let entry = step.tallies.entry(seen.endpoint.clone());
        let (_, tally) = entry.or_insert_with(|| (seen.tenant.clone(), Tally::default()));
        tally.add(seen);
    }

    /// Takes how full the streams are at `at`, after the attempts up to then.
    pub fn gauge(&mut self, at: UnixMillis, gauges: Gauges) {
        let before = self.last.replace((at, gauges));
        let accepted = before.and_then(|(before, old)| {
            let seconds = at.since(before).as_secs_f64();
            let more = gauges.accepted.checked_sub(old.accepted)?;
            (seconds > 0.0).then(|| more as f64 / seconds)
        });
        if let Some(step) = self.step(at) {
            step.gauges = Some(gauges);
            step.accepted = accepted;
        }
    }

    /// How full the streams were when they were last looked at, and when.
    #[must_use]
    pub fn now(&self) -> Option<(UnixMillis, Gauges)> {
        self.last
    }

    /// The steps that have ended, without a hole, of one tenant or of all.
    #[must_use]
    pub fn points(&self, tenant: Option<&Tenant>) -> Vec<Point> {
        let Some((looked_at, _)) = self.last else {
            return Vec::new();
        };
        let end = number(looked_at);
        let by_number: HashMap<i64, &Step> = self.steps.iter().map(|s| (s.number, s)).collect();
        let first = end - i64::try_from(KEPT).unwrap_or(0);
        (first..end)
            .map(|number| self.point(number, by_number.get(&number).copied(), tenant))
            .collect()
    }

    fn point(&self, number: i64, step: Option<&Step>, tenant: Option<&Tenant>) -> Point {
        let at = UnixMillis(number * STEP);
        let known = self.read_from.is_some_and(|from| from <= at);
        let tally = known.then(|| {
            let mut tally = Tally::default();
            let tallies = step.iter().flat_map(|step| step.tallies.values());
            tallies
                .filter(|(owner, _)| tenant.is_none_or(|tenant| tenant == owner))
                .for_each(|(_, seen)| tally.merge(seen));
            tally
        });
        Point {
            at,
            accepted: step.and_then(|step| step.accepted),
            tally,
            gauges: step.and_then(|step| step.gauges),
        }
    }

    /// What was seen of each endpoint, over all steps.
    #[must_use]
    pub fn by_endpoint(&self) -> HashMap<EndpointId, Tally> {
        let mut found: HashMap<EndpointId, Tally> = HashMap::new();
        for (endpoint, (_, tally)) in self.steps.iter().flat_map(|step| &step.tallies) {
            found.entry(endpoint.clone()).or_default().merge(tally);
        }
        found
    }

    /// The step of a time; `None` where that is too long ago. What is too old is forgotten.
    fn step(&mut self, at: UnixMillis) -> Option<&mut Step> {
        let number = number(at);
        let newest = self.steps.back().map_or(number, |step| step.number);
        let oldest = newest.max(number) - i64::try_from(KEPT).unwrap_or(0);
        while self.steps.front().is_some_and(|step| step.number < oldest) {
            self.steps.pop_front();
        }
        if number < oldest {
            return None;
        }
        let place = self.steps.partition_point(|step| step.number < number);
        if self
            .steps
            .get(place)
            .is_none_or(|step| step.number != number)
        {
            let step = Step {
                number,
                ..Step::default()
            };
            self.steps.insert(place, step);
        }
        self.steps.get_mut(place)
    }
}

fn number(at: UnixMillis) -> i64 {
    at.0.div_euclid(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;

    fn at(seconds: i64) -> UnixMillis {
        UnixMillis(START + seconds * 1_000)
    }

    fn seen(owner: &str, endpoint: u128, seconds: i64, failure: Option<&str>) -> Seen {
        Seen {
            tenant: Tenant::parse(owner).unwrap(),
            endpoint: EndpointId::from_bits(endpoint),
            at: at(seconds),
            failure: failure.map(str::to_owned),
            latency_ms: 10 * u32::try_from(seconds).unwrap(),
            weight: 1.0,
        }
    }

    fn accepted(count: u64) -> Gauges {
        Gauges {
            accepted: count,
            ..Gauges::default()
        }
    }

    #[test]
    fn steps_are_without_a_hole_and_what_is_not_known_is_not_zero() {
        let mut recent = Recent::default();
        recent.begin(at(0));
        recent.gauge(at(0), accepted(100));
        recent.note(seen("acme", 1, 1, None));
        recent.gauge(at(10), accepted(150));
        recent.gauge(at(15), accepted(150));
        let points = recent.points(None);
        assert_eq!(points.len(), KEPT);
        let last: Vec<_> = points.iter().rev().take(4).rev().collect();
        let rates: Vec<_> = last.iter().map(|point| point.accepted).collect();
        assert_eq!(rates, [None, None, None, Some(5.0)]);
        assert_eq!(last[0].tally, None);
        let delivered = |point: &Point| point.tally.as_ref().unwrap().delivered;
        assert_eq!((delivered(last[1]), delivered(last[2])), (1.0, 0.0));
        assert!(last[2].gauges.is_none() && last[3].gauges.is_some());
    }

    #[test]
    fn dlq_05_one_tenants_points_are_of_its_own_attempts() {
        let mut recent = Recent::default();
        recent.begin(at(0));
        recent.note(seen("acme", 1, 1, None));
        recent.note(seen("globex", 2, 2, Some("503")));
        recent.gauge(at(5), accepted(0));
        let acme = Tenant::parse("acme").unwrap();
        let sum = |tenant| {
            let points = recent.points(tenant);
            let tally = points.last().unwrap().tally.clone().unwrap();
            (tally.delivered, tally.failed)
        };
        assert_eq!(sum(Some(&acme)), (1.0, 0.0));
        assert_eq!(sum(None), (1.0, 1.0));
    }

    #[test]
    fn an_endpoint_is_told_over_all_steps() {
        let mut recent = Recent::default();
        recent.note(seen("acme", 1, 1, Some("503")));
        recent.note(seen("acme", 1, 20, Some("timeout")));
        recent.note(seen("acme", 1, 30, None));
        let found = recent.by_endpoint();
        let tally = &found[&EndpointId::from_bits(1)];
        assert_eq!((tally.delivered, tally.failed), (1.0, 2.0));
        assert_eq!(tally.last_failure, Some((at(20), "timeout".to_owned())));
        assert_eq!(
            (tally.latency(50), tally.latency(95)),
            (Some(200), Some(300))
        );
        assert_eq!(Tally::default().latency(50), None);
    }

    #[test]
    fn no_more_than_a_quarter_of_an_hour_is_kept_in_whatever_order_it_comes() {
        let mut recent = Recent::default();
        for seconds in [5_000, 10, 4_990, 9_000, 5_000, 8_900] {
            recent.note(seen("acme", 1, seconds, None));
        }
        assert_eq!(
            recent.by_endpoint()[&EndpointId::from_bits(1)].delivered,
            2.0
        );
        assert!(recent.steps.len() <= KEPT + 1);
    }
}
