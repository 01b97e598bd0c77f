//! What the tests of this crate share: letters, jobs, and a desk that fails where it is told.

use crate::filter::LetterFilter;
use crate::jobs::step::{JobDesk, Listed, Listing, Reach};
use crate::lanes::replayed::Room;
use crate::replay::{Desk, Published};
use bytes::Bytes;
use posthorn_broker::{BrokerError, Logged, Versioned};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::{
    AttemptSummary, DeadLetter, Delivery, EndpointId, EventId, LaneId, LetterId, LetterState,
    MessageId, Reason, ReplayJob, ReplayState, Tenant, UnixMillis,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

/// A letter of `tenant` about event number `event`, dead since `died_at`.
pub(crate) fn letter(tenant: &str, event: u128, died_at: i64) -> DeadLetter {
    let owner = Tenant::parse(tenant).unwrap();
    let event_id = EventId::from_bits(event);
    let endpoint = EndpointId::from_bits(7);
    DeadLetter {
        id: LetterId::of(&owner, &event_id, &endpoint),
        tenant: tenant.to_owned(),
        event_id: event_id.to_string(),
        event_type: "invoice.paid".to_owned(),
        endpoint_id: Some(endpoint),
        reason: Reason::Exhausted,
        detail: "16 attempts".to_owned(),
        died_at: UnixMillis(died_at),
        accepted_at: UnixMillis(died_at - 1_000),
        payload: Bytes::from_static(b"{}"),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        traceparent: None,
        history: vec![AttemptSummary {
            at: UnixMillis(died_at - 10),
            number: 1,
            result: AttemptResult::Status(500),
            latency_ms: 3,
            sequence: 1,
        }],
        state: LetterState::Dead,
        state_since: UnixMillis(died_at),
        replay_generation: 0,
        replays: 0,
        event_seq: 1,
        replay_id: String::new(),
        entry: 0,
        answer: String::new(),
    }
}

/// A running job over the letters up to `upper` that nobody has taken yet.
pub(crate) fn job(upper: u64) -> ReplayJob {
    ReplayJob {
        id: "rpl_job".to_owned(),
        filter: r#"{"tenant":"acme"}"#.to_owned(),
        rate_per_second: 50,
        created_at: UnixMillis(1),
        upper,
        cursor: 0,
        matched: 0,
        replayed: 0,
        skipped: 0,
        state: ReplayState::Running,
        updated_at: UnixMillis(1),
        owner: String::new(),
        lease_until: UnixMillis(0),
        tenant: "acme".to_owned(),
        recovery: None,
    }
}

/// A desk in memory, with the broker's rules: one letter a subject, compare-and-swap on its
/// sequence, a message id is stored once.
pub(crate) struct Model {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    letters: BTreeMap<u64, DeadLetter>,
    last: u64,
    stored: HashMap<MessageId, u32>,
    marks: HashSet<MessageId>,
    deliveries: Vec<Delivery>,
    job: Option<Versioned<ReplayJob>>,
    endpoints_gone: bool,
    deliver_at_once: bool,
    /// What a lane holds, where it has a bound.
    bound: Option<u64>,
    /// Operations until one fails, and whether that one takes effect all the same.
    fails: Option<(u32, bool)>,
}

impl State {
    /// Whether this operation works, and whether it says so.
    fn tick(&mut self) -> (bool, bool) {
        match self.fails {
            None => (true, true),
            Some((0, takes_effect)) => {
                // Whoever fails here does not get to do anything after it.
                let first = takes_effect;
                self.fails = Some((0, false));
                (first, false)
            }
            Some((left, takes_effect)) => {
                self.fails = Some((left - 1, takes_effect));
                (true, true)
            }
        }
    }

    fn put(&mut self, letter: DeadLetter) -> u64 {
        self.letters.retain(|_, other| other.id != letter.id);
        self.last += 1;
        let entry = match letter.state {
            LetterState::Dead => self.last,
            LetterState::Replaying | LetterState::Delivered => letter.entry,
        };
        self.letters
            .insert(self.last, DeadLetter { entry, ..letter });
        self.last
    }

    fn find(&self, id: &LetterId) -> Option<Logged<DeadLetter>> {
        let (sequence, letter) = self.letters.iter().find(|(_, letter)| letter.id == *id)?;
        Some(logged(*sequence, letter))
    }
}

fn logged(sequence: u64, letter: &DeadLetter) -> Logged<DeadLetter> {
    Logged {
        sequence,
        subject: String::new(),
        stored_at: UnixMillis(0),
        value: letter.clone(),
    }
}

impl Model {
    pub(crate) fn with(letters: impl IntoIterator<Item = DeadLetter>) -> Model {
        let mut state = State::default();
        for letter in letters {
            state.put(letter);
        }
        Model {
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn only(&self) -> Logged<DeadLetter> {
        let state = self.state();
        assert_eq!(state.letters.len(), 1);
        let (sequence, letter) = state.letters.iter().next().unwrap();
        logged(*sequence, letter)
    }

    pub(crate) fn letters(&self) -> Vec<Logged<DeadLetter>> {
        let state = self.state();
        state.letters.iter().map(|(s, l)| logged(*s, l)).collect()
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.state().deliveries.clone()
    }

    pub(crate) fn last(&self) -> u64 {
        self.state().last
    }

    pub(crate) fn dies_again(&self, id: &LetterId) {
        let mut state = self.state();
        let letter = state.find(id).unwrap().value;
        state.put(DeadLetter {
            state: LetterState::Dead,
            ..letter
        });
    }

    pub(crate) fn remove(&self, sequence: u64) {
        self.state().letters.remove(&sequence);
    }

    pub(crate) fn delete_endpoints(&self) {
        self.state().endpoints_gone = true;
    }

    pub(crate) fn deliver_at_once(&self) {
        self.state().deliver_at_once = true;
    }

    pub(crate) fn bound_lanes(&self, bound: u64) {
        self.state().bound = Some(bound);
    }

    pub(crate) fn fail_after(&self, operations: u32, takes_effect: bool) {
        self.state().fails = Some((operations, takes_effect));
    }

    pub(crate) fn recover(&self) {
        self.state().fails = None;
    }

    pub(crate) fn keep_job(&self, job: ReplayJob) {
        self.state().job = Some(Versioned {
            value: job,
            revision: 1,
        });
    }

    pub(crate) fn job(&self) -> Versioned<ReplayJob> {
        self.state().job.clone().unwrap()
    }
}

impl Desk for Model {
    fn max_age(&self, _: &DeadLetter) -> Option<Duration> {
        (!self.state().endpoints_gone).then_some(Duration::from_secs(60))
    }

    async fn publish(&self, delivery: Delivery, _: u32) -> Result<Published, BrokerError> {
        let mut state = self.state();
        let (works, answers) = state.tick();
        let id = delivery.message_id();
        let by_another = state.stored.contains_key(&id);
        if works {
            *state.stored.entry(id).or_default() += 1;
            if !by_another {
                if state.deliver_at_once {
                    let delivered = DeadLetter::delivered(&delivery, UnixMillis(9));
                    state.put(delivered.unwrap());
                }
                state.deliveries.push(delivery);
            }
        }
        answers
            .then_some(Published { by_another })
            .ok_or(BrokerError::TimedOut)
    }

    async fn mark(
        &self,
        letter: &DeadLetter,
        id: &MessageId,
        expected: u64,
    ) -> Result<(), BrokerError> {
        let mut state = self.state();
        let (works, answers) = state.tick();
        if works && !state.marks.contains(id) {
            let at = state.find(&letter.id).map_or(0, |found| found.sequence);
            if at != expected {
                return Err(BrokerError::Conflict);
            }
            state.put(letter.clone());
            state.marks.insert(id.clone());
        }
        answers.then_some(()).ok_or(BrokerError::TimedOut)
    }

    async fn letter(&self, of: &DeadLetter) -> Result<Option<Logged<DeadLetter>>, BrokerError> {
        Ok(self.state().find(&of.id))
    }
}

impl JobDesk for Model {
    async fn read(
        &self,
        _: &LetterFilter,
        from: u64,
        reach: Reach,
    ) -> Result<Listing, BrokerError> {
        let state = self.state();
        let mut listed: Vec<_> = state
            .letters
            .iter()
            .filter(|(_, letter)| letter.entry >= from && letter.state != LetterState::Delivered)
            .map(|(sequence, letter)| Listed {
                place: letter.entry,
                letter: logged(*sequence, letter),
            })
            .collect();
        listed.sort_by_key(|listed| listed.place);
        let all = listed.len();
        listed.truncate(reach.letters.min(reach.places));
        let last = listed.last().map(|listed| listed.place);
        Ok(Listing {
            looked_to: last.filter(|_| listed.len() < all),
            looked_at: listed.len(),
            letters: listed,
        })
    }

    async fn count_marked(&self, job: &ReplayJob) -> Result<u64, BrokerError> {
        let letters = &self.state().letters;
        let ours = letters.values().filter(|letter| letter.replay_id == job.id);
        Ok(ours.count() as u64)
    }

    async fn room(&self, lane: &LaneId, _: u32) -> Result<Room, BrokerError> {
        let state = self.state();
        let lying = state.deliveries.iter().filter(|d| LaneId::of(d) == *lane);
        Ok(Room {
            bound: state.bound.unwrap_or(u64::MAX),
            depth: lying.count() as u64,
        })
    }

    async fn load(&self, _: &str) -> Result<Option<Versioned<ReplayJob>>, BrokerError> {
        Ok(self.state().job.clone())
    }

    async fn save(&self, job: &ReplayJob, revision: u64) -> Result<u64, BrokerError> {
        let mut state = self.state();
        let (works, answers) = state.tick();
        if works {
            let at = state.job.as_ref().map_or(0, |job| job.revision);
            if at != revision {
                return Err(BrokerError::Conflict);
            }
            state.job = Some(Versioned {
                value: job.clone(),
                revision: revision + 1,
            });
        }
        answers.then_some(revision + 1).ok_or(BrokerError::TimedOut)
    }
}
