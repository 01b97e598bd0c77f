//! What a worker does for a job: letters by a filter, or events from the archive.

use super::law::Batch;
use super::recover::step::Recovering;
use super::step::{JobDesk, Step, StepError, step};
use crate::filter::LetterFilter;
use crate::store::Store;
use posthorn_broker::BrokerError;
use posthorn_delivery::ReplayJob;

/// The work on one job.
pub(super) enum Work {
    /// Letters that match.
    Letters(Box<LetterFilter>),
    /// Events that an endpoint is owed.
    Recovery(Box<Recovering>),
}

impl Work {
    /// The work on `job`; `None` where this version cannot read what is asked for.
    pub fn of(job: &ReplayJob) -> Option<Work> {
        match &job.recovery {
            Some(_) => Some(Work::Recovery(Box::new(Recovering::of(job)?))),
            None => {
                let filter = LetterFilter::from_json(&job.filter).ok()?;
                Some(Work::Letters(Box::new(filter)))
            }
        }
    }

    /// Does a bounded part of it.
    ///
    /// # Errors
    /// [`StepError`]; nothing was reported.
    pub async fn step(
        &mut self,
        store: &Store,
        job: &ReplayJob,
        batch: Batch,
    ) -> Result<Step, StepError> {
        match self {
            Work::Letters(filter) => step(store, job, filter, batch).await,
            Work::Recovery(recovering) => recovering.step(store, job, batch).await,
        }
    }

    /// How many were certainly sent and perhaps not reported by whoever worked on it before. A
    /// recovery finds that out on its way.
    ///
    /// # Errors
    /// When the broker fails.
    pub async fn count_sent(&self, store: &Store, job: &ReplayJob) -> Result<u64, BrokerError> {
        match self {
            Work::Letters(_) => store.count_marked(job).await,
            Work::Recovery(_) => Ok(0),
        }
    }
}
