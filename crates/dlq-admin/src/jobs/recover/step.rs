//! One batch of a recovery: counting what is owed, and then sending it.
//!
//! The order is that of a job about letters: sent first, reported after. Whoever takes over meets
//! a part of the last batch again, and knows it by the generation, which is the job's own: in the
//! lane, at a dispatcher, or in the log of attempts.

use super::outcome::{Outcome, outcome};
use super::survey::{Candidate, Survey, Turn};
use crate::jobs::law::{self, Batch, Count, MAX_BATCH, Progress};
use crate::jobs::step::{JobDesk, Step, StepError, is_ours};
use crate::replay::{Desk, Request, replay_one};
use crate::store::Store;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::BrokerError;
use posthorn_delivery::delivery::ReplayMark;
use posthorn_delivery::letter::ReplayWindow;
use posthorn_delivery::recover::recovered;
use posthorn_delivery::{Delivery, Endpoint, LaneId, LetterId, ReplayJob, Tenant, UnixMillis};

/// Letters and events in flight at a time.
const CONCURRENCY: usize = 64;

/// A recovery that a process works on.
#[derive(Debug)]
pub struct Recovering {
    tenant: Tenant,
    survey: Survey,
    count: Count,
}

impl Recovering {
    /// The work on `job`; `None` where it is no recovery, or of no tenant.
    #[must_use]
    pub fn of(job: &ReplayJob) -> Option<Recovering> {
        Some(Recovering {
            tenant: Tenant::parse_any(&job.tenant).ok()?,
            survey: Survey::of(job)?,
            count: Count::default(),
        })
    }

    /// Does a bounded part of it.
    ///
    /// # Errors
    /// [`StepError`]; nothing was reported, and the work may be begun again from the job.
    pub async fn step(
        &mut self,
        store: &Store,
        job: &ReplayJob,
        batch: Batch,
    ) -> Result<Step, StepError> {
        let Some(recovery) = &job.recovery else {
            return Ok(Step::over(job));
        };
        let Some(known) = store.endpoint_of(&self.tenant, &recovery.endpoint) else {
            return Ok(Step::over(job));
        };
        let endpoint = &known.value;
        if !self.survey.look(store, endpoint).await? {
            return Ok(Step::default());
        }
        let again = recovery.include_delivered;
        match job.is_counted() {
            false => self.count(store, job, endpoint, again, batch.now).await,
            true => self.send(store, job, endpoint, again, batch).await,
        }
    }

    /// Counts a stretch; after the last one the count is reported, and the walk begins anew.
    async fn count(
        &mut self,
        store: &Store,
        job: &ReplayJob,
        endpoint: &Endpoint,
        again: bool,
        now: UnixMillis,
    ) -> Result<Step, StepError> {
        let turn = self.survey.turn(usize::MAX, endpoint, now);
        let is_last = turn.is_last;
        self.count.found.delivered += turn.delivered;
        self.count.found.under_way += turn.under_way;
        let looking = turn
            .owed
            .into_iter()
            .map(|candidate| look_up(store, job, endpoint, candidate, again));
        let outcomes: Vec<(Candidate, Outcome)> = futures_util::stream::iter(looking)
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        for (_, outcome) in outcomes {
            match outcome {
                Outcome::Letter(_) | Outcome::Event(_) | Outcome::Sent => self.count.matched += 1,
                Outcome::Delivered => self.count.found.delivered += 1,
                Outcome::UnderWay => self.count.found.under_way += 1,
            }
        }
        if !is_last {
            return Ok(Step::default());
        }
        self.survey.rewind();
        Ok(Step {
            progress: Progress {
                counted: Some(self.count),
                ..Progress::default()
            },
            ..Step::default()
        })
    }

    /// Sends the next events, at most as many as a batch has and the lane takes.
    async fn send(
        &mut self,
        store: &Store,
        job: &ReplayJob,
        endpoint: &Endpoint,
        again: bool,
        batch: Batch,
    ) -> Result<Step, StepError> {
        let lane = LaneId::replay(&endpoint.id);
        let room = store.room(&lane, job.rate_per_second).await?.left();
        if room == 0 {
            return Ok(Step {
                full: Some(lane),
                ..Step::default()
            });
        }
        let most = batch_size(job.rate_per_second).max(batch.most);
        let most = most.min(usize::try_from(room).unwrap_or(most));
        let Turn {
            owed, sent, cursor, ..
        } = self.survey.turn(most, endpoint, batch.now);
        let takes = law::at_rate(owed.len(), job.rate_per_second);
        let tried = owed.len();
        let sending = owed.into_iter().enumerate().map(|(place, candidate)| {
            let request = Request {
                id: job.id.clone(),
                now: batch.now,
                not_before: batch.due_from + law::at_rate(place, job.rate_per_second),
                rate_per_second: job.rate_per_second,
            };
            async move {
                let looked_up = look_up(store, job, endpoint, candidate, again).await?;
                send_one(store, endpoint, looked_up, &request).await
            }
        });
        let went: Vec<bool> = futures_util::stream::iter(sending)
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;
        let went = went.into_iter().filter(|went| *went).count();
        Ok(Step {
            progress: Progress {
                cursor,
                replayed: sent + went as u64,
                skipped: (tried - went) as u64,
                counted: None,
            },
            takes,
            full: None,
        })
    }
}

/// A fifth of a second's worth: each batch looks once more at everything that may have changed.
fn batch_size(rate_per_second: u32) -> usize {
    usize::try_from((rate_per_second / 5).clamp(1, MAX_BATCH)).unwrap_or(1)
}

async fn look_up(
    store: &Store,
    job: &ReplayJob,
    endpoint: &Endpoint,
    candidate: Candidate,
    again: bool,
) -> Result<(Candidate, Outcome), StepError> {
    let tenant = &endpoint.tenant;
    let id = LetterId::of(tenant, &candidate.event, &endpoint.id);
    let names = store.broker().names();
    let subject = names.letter(tenant.as_str(), Some(&endpoint.id), &id);
    let letter = store.letters().last(&subject).await?;
    Ok((candidate, outcome(letter, &job.id, again)))
}

/// Whether it is the job's own from here on.
async fn send_one(
    store: &Store,
    endpoint: &Endpoint,
    (candidate, outcome): (Candidate, Outcome),
    request: &Request,
) -> Result<bool, StepError> {
    let earlier = match outcome {
        Outcome::Letter(letter) => return Ok(is_ours(replay_one(store, &letter, request).await?)),
        Outcome::Sent => return Ok(true),
        Outcome::Delivered | Outcome::UnderWay => return Ok(false),
        Outcome::Event(earlier) => earlier,
    };
    let names = store.broker().names();
    let filter = names.archived(&endpoint.tenant, ">");
    let archive = store.broker().archive();
    let Some(found) = archive.at(&filter, candidate.sequence).await? else {
        // The archive has let go of it meanwhile.
        return Ok(false);
    };
    let mark = ReplayMark {
        generation: candidate.generation,
        replay_id: request.id.clone(),
        count: earlier
            .as_ref()
            .map_or(0, |letter| letter.replays)
            .saturating_add(1),
        death: None,
    };
    let window = ReplayWindow {
        not_before: request.not_before,
        expires_at: request.not_before.max(request.now) + endpoint.retry.max_age(),
    };
    let delivery = Delivery {
        history: earlier.map(|letter| letter.history).unwrap_or_default(),
        ..recovered(&found.event, endpoint, found.event_seq, mark, window)
    };
    let handed_in = store.publish(delivery, request.rate_per_second).await;
    // Whoever has put it there before was a worker on this job.
    handed_in.map(|_| true).map_err(BrokerError::into)
}
