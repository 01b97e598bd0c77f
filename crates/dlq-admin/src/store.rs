//! What this service reads and writes: the letters, the attempts, the lanes, the audit
//! log, and four buckets.

use crate::filter::LetterFilter;
use crate::jobs::step::{JobDesk, Listing, Reach};
use crate::lanes::replayed::{Room, hand_in, room};
use crate::letters::all::{self, All};
use crate::replay::{Desk, Published};
use posthorn_broker::codec::{ApiKey, AuditEntry, Parked};
use posthorn_broker::{
    Broker, BrokerError, BucketName, LogReader, Logged, StreamName, Versioned, Watched, Wire,
};
use posthorn_delivery::{
    Attempt, BreakerState, DeadLetter, Delivery, Endpoint, EndpointId, LaneId, LetterEntry,
    LetterId, LetterState, MessageId, ReplayJob, Tenant, UnixMillis,
};
use posthorn_http_api::auth::KEYS_CHECKED;
use posthorn_lanes::Lanes;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a request waits for the broker in one step.
const PATIENCE: Duration = Duration::from_secs(8);

/// Handles on all of it; clones are the same.
#[derive(Clone)]
pub struct Store {
    broker: Broker,
    letters: Arc<LogReader<DeadLetter>>,
    register: Arc<LogReader<LetterEntry>>,
    attempts: Arc<LogReader<Attempt>>,
    endpoints: Watched<Endpoint>,
    breakers: Watched<BreakerState>,
    jobs: Watched<ReplayJob>,
    keys: Watched<ApiKey>,
    acts: Arc<LogReader<AuditEntry>>,
    lanes: Arc<Lanes>,
}

impl Store {
    /// Opens everything; the watches run until `stop`.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn open(broker: Broker, stop: &CancellationToken) -> Result<Store, BrokerError> {
        let endpoints = broker.bucket(BucketName::Endpoints).await?;
        let breakers = broker.bucket(BucketName::Breakers).await?;
        let jobs = broker.bucket(BucketName::Replays).await?;
        let keys = broker.bucket(BucketName::Keys).await?;
        Ok(Store {
            letters: Arc::new(broker.log(StreamName::Dlq).await?),
            register: Arc::new(broker.log(StreamName::Register).await?),
            attempts: Arc::new(broker.log(StreamName::Attempts).await?),
            endpoints: Watched::start(endpoints, stop.clone()),
            breakers: Watched::start(breakers, stop.clone()),
            jobs: Watched::start(jobs, stop.clone()),
            keys: Watched::checked(keys, KEYS_CHECKED, stop.clone()),
            acts: Arc::new(broker.log(StreamName::Audit).await?),
            lanes: Arc::new(Lanes::open(&broker, stop.clone()).await?),
            broker,
        })
    }

    /// The connection.
    #[must_use]
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The stream of letters.
    #[must_use]
    pub fn letters(&self) -> &LogReader<DeadLetter> {
        &self.letters
    }

    /// The register of deaths, by which letters are found.
    #[must_use]
    pub fn register(&self) -> &LogReader<LetterEntry> {
        &self.register
    }

    /// The stream of attempts.
    #[must_use]
    pub fn attempts(&self) -> &LogReader<Attempt> {
        &self.attempts
    }

    /// All breakers that have a state.
    #[must_use]
    pub fn breakers(&self) -> &Watched<BreakerState> {
        &self.breakers
    }

    /// All replay jobs.
    #[must_use]
    pub fn jobs(&self) -> &Watched<ReplayJob> {
        &self.jobs
    }

    /// All API keys.
    #[must_use]
    pub fn keys(&self) -> &Watched<ApiKey> {
        &self.keys
    }

    /// The stream of administrative acts.
    #[must_use]
    pub fn acts(&self) -> &LogReader<AuditEntry> {
        &self.acts
    }

    /// The lanes.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// When the event at the head of `lane` was accepted, or when it was stored if it cannot be
    /// read; `None` when the lane is empty.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn head_of(&self, lane: &LaneId) -> Result<Option<UnixMillis>, BrokerError> {
        let page = self.lanes.store().read(lane, 0, 1).await?;
        Ok(page.items.first().map(|head| match &head.value {
            Parked::Delivery(delivery) => delivery.accepted_at,
            Parked::Unreadable(..) => head.stored_at,
        }))
    }

    /// Makes the owners of an endpoint's lanes look at once at what has been changed.
    ///
    /// # Errors
    /// When it is not certain that they will; the call may be repeated.
    pub async fn wake(&self, endpoint: &EndpointId) -> Result<(), BrokerError> {
        caught_up(self.lanes.watched()).await?;
        self.lanes.wake(endpoint).await
    }

    /// The subject that holds every letter of a filter.
    #[must_use]
    pub fn subject(&self, filter: &LetterFilter) -> String {
        let (tenant, endpoint) = filter.tokens();
        self.broker.names().letters(tenant, endpoint)
    }

    /// The letter with an id, among those of a tenant where one is given.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn find_letter(
        &self,
        tenant: Option<&Tenant>,
        id: &LetterId,
    ) -> Result<Option<Logged<DeadLetter>>, BrokerError> {
        let tenant = tenant.map_or("*", Tenant::as_str);
        let subject = self.broker.names().letter_by_id(tenant, id);
        self.letters.last(&subject).await
    }

    /// How many letters match and wait for an operator, and the last place in the register that
    /// was looked at.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn count_dead(&self, filter: &LetterFilter) -> Result<(u64, u64), BrokerError> {
        let mut all = All::begin(self, filter).await?;
        let mut count = 0;
        while let Some(batch) = all.batch().await? {
            let dead = |letter: &&Logged<DeadLetter>| letter.value.state == LetterState::Dead;
            count += batch.iter().filter(dead).count() as u64;
        }
        Ok((count, all.upper()))
    }

    /// Waits until the endpoints are those of this moment: one that was deleted a moment ago
    /// must not be sent to, one that was created must be found.
    ///
    /// # Errors
    /// When the broker does not answer in time.
    pub async fn endpoints_now(&self) -> Result<(), BrokerError> {
        caught_up(&self.endpoints).await
    }

    /// An endpoint whose tenant is known.
    #[must_use]
    pub fn endpoint_of(
        &self,
        tenant: &Tenant,
        id: &EndpointId,
    ) -> Option<Arc<Versioned<Endpoint>>> {
        self.endpoints.get(&format!("{tenant}.{id}"))
    }

    /// An endpoint of any tenant, by its id.
    #[must_use]
    pub fn endpoint(&self, id: &EndpointId) -> Option<Arc<Versioned<Endpoint>>> {
        let all = self.endpoints.all().into_iter();
        all.map(|(_, endpoint)| endpoint)
            .find(|endpoint| endpoint.value.id == *id)
    }

    /// All endpoints.
    #[must_use]
    pub fn all_endpoints(&self) -> Vec<Arc<Versioned<Endpoint>>> {
        let all = self.endpoints.all().into_iter();
        all.map(|(_, endpoint)| endpoint).collect()
    }
}

/// Waits until a watch holds what was written before the call, within the patience of a
/// request.
///
/// # Errors
/// When the broker does not answer in time.
pub async fn caught_up<T: Wire + Send + Sync + 'static>(
    watched: &Watched<T>,
) -> Result<(), BrokerError> {
    let caught = tokio::time::timeout(PATIENCE, watched.catch_up()).await;
    caught.map_err(|_| BrokerError::TimedOut)?.map(|_| ())
}

impl Desk for Store {
    fn max_age(&self, letter: &DeadLetter) -> Option<Duration> {
        let key = format!("{}.{}", letter.tenant, letter.endpoint_id.as_ref()?);
        let endpoint = self.endpoints.get(&key)?;
        Some(endpoint.value.retry.max_age())
    }

    async fn publish(
        &self,
        delivery: Delivery,
        rate_per_second: u32,
    ) -> Result<Published, BrokerError> {
        let found = self.endpoint_of(&delivery.tenant, &delivery.endpoint_id);
        // Deleted since it was looked at: whoever comes again is told so.
        let endpoint = found.ok_or(BrokerError::Conflict)?;
        let handing_in = hand_in(&self.lanes, delivery, &endpoint.value, rate_per_second);
        let handed_in = tokio::time::timeout(PATIENCE, handing_in).await;
        handed_in.map_err(|_| BrokerError::TimedOut)?
    }

    async fn mark(
        &self,
        letter: &DeadLetter,
        id: &MessageId,
        expected: u64,
    ) -> Result<(), BrokerError> {
        let writing = self
            .broker
            .publish_letter(letter, id.as_str(), Some(expected));
        let written = tokio::time::timeout(PATIENCE, writing).await;
        written.map_err(|_| BrokerError::TimedOut)?.map(|_| ())
    }

    async fn letter(&self, of: &DeadLetter) -> Result<Option<Logged<DeadLetter>>, BrokerError> {
        let endpoint = of.endpoint_id.as_ref();
        let subject = self.broker.names().letter(&of.tenant, endpoint, &of.id);
        self.letters.last(&subject).await
    }
}

impl JobDesk for Store {
    async fn read(
        &self,
        filter: &LetterFilter,
        from: u64,
        reach: Reach,
    ) -> Result<Listing, BrokerError> {
        all::listing(self, filter, from, reach).await
    }

    async fn count_marked(&self, job: &ReplayJob) -> Result<u64, BrokerError> {
        all::count_marked(self, job).await
    }

    async fn room(&self, lane: &LaneId, rate_per_second: u32) -> Result<Room, BrokerError> {
        room(self, lane, rate_per_second).await
    }

    async fn load(&self, id: &str) -> Result<Option<Versioned<ReplayJob>>, BrokerError> {
        self.jobs.bucket().get(id).await
    }

    async fn save(&self, job: &ReplayJob, revision: u64) -> Result<u64, BrokerError> {
        let revision = self.jobs.bucket().swap(&job.id, job, revision).await?;
        self.jobs.learn(&job.id, job.clone(), revision);
        Ok(revision)
    }
}
