//! One batch of a replay job, from the last report of progress to the next.
//!
//! The order is the promise: letters are sent and marked first, progress is reported after.
//! A process that is killed anywhere in between leaves a cursor that is too low, and whoever
//! takes over meets a part of the batch again. What was marked is not dead any more and is
//! passed over; what was sent and not marked yet derives the same message id. What has died
//! again meanwhile stands in the register beyond the job's upper end, and is not met.

use super::law::{self, Batch, Count, Progress};
use crate::filter::LetterFilter;
use crate::lanes::replayed::Room;
use crate::replay::{Desk, ReplayError, Request, Verdict, replay_one};
use crate::walk::BATCH;
use futures_util::{StreamExt, TryStreamExt};
use posthorn_broker::{BrokerError, Logged, Versioned};
use posthorn_delivery::{DeadLetter, LaneId, ReplayJob, UnixMillis};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

/// Letters in flight at a time.
const CONCURRENCY: usize = 64;
/// Letters that one batch looks at, however few of them match: each batch renews the lease.
const MAX_LOOKED_AT: usize = 4 * BATCH;

/// A letter, and where its death stands in the register: the order in which a job takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its place in the register.
    pub place: u64,
    /// The letter as it is now.
    pub letter: Logged<DeadLetter>,
}

/// Some letters in the order of their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Those that match.
    pub letters: Vec<Listed>,
    /// Everything up to this place was looked at; `None` when nothing is left.
    pub looked_to: Option<u64>,
    /// How many places were looked at.
    pub looked_at: usize,
}

/// How far one look at the register goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Letters that it may find.
    pub letters: usize,
    /// Places that it may look at, at most [`BATCH`].
    pub places: usize,
}

/// What a job needs beyond a single replay.
pub trait JobDesk: Desk {
    /// Letters that match, in whatever state, from a place in the register on.
    fn read(
        &self,
        filter: &LetterFilter,
        from: u64,
        reach: Reach,
    ) -> impl Future<Output = Result<Listing, BrokerError>> + Send;

    /// How many letters carry the id of a job: those that it has sent.
    fn count_marked(
        &self,
        job: &ReplayJob,
    ) -> impl Future<Output = Result<u64, BrokerError>> + Send;

    /// How much of a job at this rate a lane takes now.
    fn room(
        &self,
        lane: &LaneId,
        rate_per_second: u32,
    ) -> impl Future<Output = Result<Room, BrokerError>> + Send;

    /// The job as it is now.
    fn load(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<Option<Versioned<ReplayJob>>, BrokerError>> + Send;

    /// Writes the job over a revision; [`BrokerError::Conflict`] when there is another.
    fn save(
        &self,
        job: &ReplayJob,
        revision: u64,
    ) -> impl Future<Output = Result<u64, BrokerError>> + Send;
}

/// Why a batch did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The broker failed; the batch may be repeated.
    #[error("the broker failed in the middle of a batch")]
    Broker(#[from] BrokerError),
    /// A letter could not be sent; the batch may be repeated.
    #[error("a letter could not be replayed")]
    Replay(#[from] ReplayError),
}

/// Letters to be sent, and how far the search for them came.
struct Found {
    letters: Vec<Listed>,
    cursor: u64,
}

/// What a batch came to.
#[derive(Debug, Default)]
pub struct Step {
    /// What is to be reported.
    pub progress: Progress,
    /// How long its letters take at the job's rate.
    pub takes: Duration,
    /// The lane that takes no more; the next batch begins with a letter for it.
    pub full: Option<LaneId>,
}

impl Step {
    /// The end of a job that can do nothing more: what is left counts as skipped.
    #[must_use]
    pub fn over(job: &ReplayJob) -> Step {
        let nothing = Count::default();
        Step {
            progress: Progress {
                cursor: job.upper,
                counted: (!job.is_counted()).then_some(nothing),
                ..Progress::default()
            },
            ..Step::default()
        }
    }

    /// Whether there is nothing to report, nor to wait for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.progress == Progress::default() && self.full.is_none()
    }
}

/// Sends the next letters of a job, at most as many as a batch has and their lanes take.
///
/// # Errors
/// [`StepError`]; nothing was reported, and the same batch may be carried out again.
pub async fn step<D: JobDesk>(
    desk: &D,
    job: &ReplayJob,
    filter: &LetterFilter,
    batch: Batch,
) -> Result<Step, StepError> {
    let mut found = find(desk, job, filter, batch.most).await?;
    let full = fit(desk, job, &mut found).await?;
    let count = found.letters.len();
    let sending = found
        .letters
        .into_iter()
        .enumerate()
        .map(|(place, listed)| {
            let request = Request {
                id: job.id.clone(),
                now: batch.now,
                not_before: batch.due_from + law::at_rate(place, job.rate_per_second),
                rate_per_second: job.rate_per_second,
            };
            async move { replay_one(desk, &listed.letter, &request).await }
        });
    let verdicts: Vec<Verdict> = futures_util::stream::iter(sending)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let replayed = verdicts.iter().filter(|verdict| is_ours(**verdict)).count();
    let progress = Progress {
        cursor: found.cursor,
        replayed: replayed as u64,
        skipped: (count - replayed) as u64,
        counted: None,
    };
    Ok(Step {
        progress,
        takes: law::at_rate(count, job.rate_per_second),
        full,
    })
}

/// Cuts what was found before the first letter whose lane takes no more, and names that lane.
async fn fit<D: JobDesk>(
    desk: &D,
    job: &ReplayJob,
    found: &mut Found,
) -> Result<Option<LaneId>, BrokerError> {
    let lanes: HashSet<LaneId> = found.letters.iter().filter_map(lane_of).collect();
    let asking = lanes.into_iter().map(|lane| async move {
        let room = desk.room(&lane, job.rate_per_second).await?;
        Ok::<_, BrokerError>((lane, room.left()))
    });
    let mut left: HashMap<LaneId, u64> = futures_util::stream::iter(asking)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    for place in 0..found.letters.len() {
        let letter = &found.letters[place];
        let Some(lane) = lane_of(letter) else {
            continue;
        };
        let Some(left) = left.get_mut(&lane) else {
            continue;
        };
        if *left == 0 {
            found.cursor = letter.place.saturating_sub(1);
            found.letters.truncate(place);
            return Ok(Some(lane));
        }
        *left -= 1;
    }
    Ok(None)
}

fn lane_of(listed: &Listed) -> Option<LaneId> {
    let endpoint = listed.letter.value.endpoint_id.as_ref();
    endpoint.map(LaneId::replay)
}

/// A job's own letter that had been handed in before is the rest of a batch that was cut off.
pub(super) fn is_ours(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Sent | Verdict::Mended)
}

async fn find<D: JobDesk>(
    desk: &D,
    job: &ReplayJob,
    filter: &LetterFilter,
    wanted: usize,
) -> Result<Found, BrokerError> {
    let mut found = Found {
        letters: Vec::new(),
        cursor: job.cursor,
    };
    let mut looked_at = 0;
    // Where most of them match, no more is read than is sent; where few do, ever more at a time.
    let mut places = wanted.saturating_mul(2).clamp(16, BATCH);
    while found.cursor < job.upper && found.letters.len() < wanted && looked_at < MAX_LOOKED_AT {
        let letters = wanted - found.letters.len();
        let reach = Reach { letters, places };
        let page = desk.read(filter, found.cursor + 1, reach).await?;
        places = places.saturating_mul(2).min(BATCH);
        looked_at += page.looked_at;
        let is_meant = |listed: &Listed| {
            listed.place <= job.upper && filter.matches_dead(&listed.letter.value)
        };
        found
            .letters
            .extend(page.letters.into_iter().filter(is_meant));
        let looked_to = page.looked_to.unwrap_or(job.upper);
        found.cursor = looked_to.min(job.upper);
    }
    Ok(found)
}

/// What became of a report.
#[derive(Debug)]
pub enum Reported {
    /// It is written, and the job is still ours.
    Kept(Box<Versioned<ReplayJob>>),
    /// Another process has the job, or there is no job any more.
    Lost,
}

/// Reports progress. An operator who paused or cancelled meanwhile keeps their word: the
/// counts go into the job as they left it.
///
/// # Errors
/// When the broker fails; the report may be repeated.
pub async fn report<D: JobDesk>(
    desk: &D,
    job: &Versioned<ReplayJob>,
    progress: Progress,
    now: UnixMillis,
) -> Result<Reported, BrokerError> {
    let mut over = job.clone();
    loop {
        let next = law::advance(&over.value, progress, now);
        match desk.save(&next, over.revision).await {
            Ok(revision) => {
                return Ok(Reported::Kept(Box::new(Versioned {
                    value: next,
                    revision,
                })));
            }
            Err(BrokerError::Conflict) => {}
            Err(error) => return Err(error),
        }
        let now = desk.load(&job.value.id).await?;
        match now.filter(|now| now.value.owner == job.value.owner) {
            // A save that was answered with a timeout may have been stored: then it is ours.
            Some(now) if is_reported(&job.value, &now.value, progress) => {
                return Ok(Reported::Kept(Box::new(now)));
            }
            Some(now) => over = now,
            None => return Ok(Reported::Lost),
        }
    }
}

/// Whether the job holds this progress over what it was before.
fn is_reported(before: &ReplayJob, now: &ReplayJob, progress: Progress) -> bool {
    progress.cursor > before.cursor && now.cursor >= progress.cursor
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
