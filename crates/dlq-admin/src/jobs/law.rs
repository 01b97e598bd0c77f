//! What may become of a replay job: pure.
//!
//! A job is one key, changed by compare-and-swap only. A process works on it while its lease
//! runs and renews that with every report of progress; when the process is gone, the lease
//! ends and another goes on from the last report. What was sent after it is met again, and
//! sending it again is harmless.

use posthorn_delivery::{Counted, ReplayJob, ReplayState, UnixMillis};
use std::time::Duration;

/// How long a process may be silent before another takes its job over.
pub const LEASE: Duration = Duration::from_secs(10);

/// The most letters that are sent before progress is reported.
pub const MAX_BATCH: u32 = 256;

/// What an operator may ask of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stop for now.
    Pause,
    /// Go on.
    Resume,
    /// Stop for good.
    Cancel,
}

/// The job has come to its end, in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job is {}", .0.as_str())]
pub struct Ended(pub ReplayState);

/// The job after an action; the same job when it stands there already.
///
/// # Errors
/// [`Ended`] when nothing more can happen to it.
pub fn act(job: &ReplayJob, action: Action, now: UnixMillis) -> Result<ReplayJob, Ended> {
    let state = match (job.state, action) {
        (ReplayState::Cancelled, Action::Cancel) => ReplayState::Cancelled,
        (ended, _) if ended.is_final() => return Err(Ended(ended)),
        (_, Action::Pause) => ReplayState::Paused,
        (_, Action::Resume) => ReplayState::Running,
        (_, Action::Cancel) => ReplayState::Cancelled,
    };
    if state == job.state {
        return Ok(job.clone());
    }
    // A job that goes on is free for whoever is there: its last owner may not be.
    Ok(ReplayJob {
        state,
        updated_at: now,
        lease_until: now,
        ..job.clone()
    })
}

/// The job as `me` works on it; `None` when it needs nobody or has somebody.
#[must_use]
pub fn claim(job: &ReplayJob, me: &str, now: UnixMillis) -> Option<ReplayJob> {
    let free = job.owner == me || job.owner.is_empty() || job.lease_until <= now;
    (job.state == ReplayState::Running && free).then(|| ReplayJob {
        owner: me.to_owned(),
        lease_until: now + LEASE,
        ..job.clone()
    })
}

/// Whether `other` has its turn before `job`: two recoveries of one endpoint would both send
/// what neither has sent yet. One that has an owner is let go on; else the older goes first.
#[must_use]
pub fn comes_first(other: &ReplayJob, job: &ReplayJob, now: UnixMillis) -> bool {
    let is_owned = !other.owner.is_empty() && other.lease_until > now;
    is_rival(other, job) && (is_owned || other.id < job.id)
}

/// Whether both would send at the same time.
fn is_rival(other: &ReplayJob, job: &ReplayJob) -> bool {
    let target = |job: &ReplayJob| {
        let sends = job.recovery.as_ref().filter(|recovery| !recovery.dry_run);
        sends.map(|recovery| recovery.endpoint.clone())
    };
    let mine = target(job);
    other.id != job.id
        && other.state == ReplayState::Running
        && mine.is_some()
        && mine == target(other)
}

/// Whether `job`, claimed a moment ago, has to be let go of again: somebody has an older one of
/// its endpoint, which was not seen before.
#[must_use]
pub fn yields_to(job: &ReplayJob, other: &ReplayJob) -> bool {
    is_rival(other, job) && other.id < job.id
}

/// What one batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What lies up to this sequence has been dealt with.
    pub cursor: u64,
    /// Deliveries sent.
    pub replayed: u64,
    /// Those that could not be.
    pub skipped: u64,
    /// How much a recovery has to do, when that has been counted.
    pub counted: Option<Count>,
}

/// What a recovery has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Events to send.
    pub matched: u64,
    /// Events found beside them.
    pub found: Counted,
}

/// The job after a batch of its owner. At the end, what matched once and was not met any
/// more (purged, or sent by somebody else) counts as skipped.
#[must_use]
pub fn advance(job: &ReplayJob, progress: Progress, now: UnixMillis) -> ReplayJob {
    let mut next = ReplayJob {
        cursor: job.cursor.max(progress.cursor),
        replayed: job.replayed.saturating_add(progress.replayed),
        skipped: job.skipped.saturating_add(progress.skipped),
        updated_at: now,
        lease_until: now + LEASE,
        ..job.clone()
    };
    if let (Some(recovery), Some(count)) = (&mut next.recovery, progress.counted) {
        recovery.counted = Some(count.found);
        next.matched = count.matched;
    }
    if next.state != ReplayState::Running || !next.is_counted() {
        return next;
    }
    if next.recovery.as_ref().is_some_and(|r| r.dry_run) {
        next.state = ReplayState::Completed;
    } else if next.cursor >= next.upper {
        next.state = ReplayState::Completed;
        next.matched = next.matched.max(next.replayed);
        next.skipped = next.matched - next.replayed;
    }
    next
}

/// The job with a count of what really carries its id: after a takeover, what its last owner
/// sent and did not report.
#[must_use]
pub fn recounted(job: &ReplayJob, marked: u64) -> ReplayJob {
    ReplayJob {
        replayed: job.replayed.max(marked),
        ..job.clone()
    }
}

/// How many letters of a job at this rate may wait in a lane before the job waits for its
/// owner: a second's worth, so that a pause holds within that.
#[must_use]
pub fn run_ahead(rate_per_second: u32) -> u64 {
    u64::from(rate_per_second.max(1))
}

/// So long before they are due letters are handed in: a lane that ran empty whenever a job is held
/// up for a moment would be closed, and what it missed is not made up for.
pub const AHEAD: Duration = Duration::from_millis(250);

/// How far behind its rate a job may be and still make up for it. What it has missed beyond that,
/// as after a wait for its lane, is missed: nothing is saved up.
pub const CATCH_UP: Duration = Duration::from_secs(1);

/// What is sent at one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// When.
    pub now: UnixMillis,
    /// When the first of it was due, and the next ones each an interval later.
    pub due_from: UnixMillis,
    /// How many it may be.
    pub most: usize,
}

/// The next batch of a job whose letters before it are due until `ahead` from now, or were until
/// `behind` ago. While it is in time a batch is small, and sent when it is nearly due. Where
/// sending takes longer than that, on a machine that is busy, the next one is larger by what has
/// come due meanwhile.
#[must_use]
pub fn batch(
    rate_per_second: u32,
    (ahead, behind): (Duration, Duration),
    now: UnixMillis,
) -> Batch {
    let behind = behind.min(CATCH_UP);
    let millis = u64::try_from(behind.as_millis()).unwrap_or(0);
    let missed = u64::from(rate_per_second) * millis / 1_000;
    let most = batch_size(rate_per_second).saturating_add(usize::try_from(missed).unwrap_or(0));
    Batch {
        now,
        due_from: UnixMillis(now.0.saturating_sub_unsigned(millis)) + ahead,
        most: most.min(usize::try_from(MAX_BATCH).unwrap_or(usize::MAX)),
    }
}

/// How many letters a batch sends that is in time: a twentieth of a second's worth. A larger one
/// would stand in the way of what is live for as long as it takes to be stored.
#[must_use]
pub fn batch_size(rate_per_second: u32) -> usize {
    usize::try_from((rate_per_second / 20).clamp(1, MAX_BATCH)).unwrap_or(1)
}

/// The time that `count` letters take at a rate; the pause between batches, and the place of
/// one letter inside its batch.
#[must_use]
pub fn at_rate(count: usize, rate_per_second: u32) -> Duration {
    let micros = 1_000_000_u64.saturating_mul(u64::try_from(count).unwrap_or(u64::MAX));
    Duration::from_micros(micros / u64::from(rate_per_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use posthorn_delivery::{EndpointId, Recovery};

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    #[test]
    fn a_batch_fits_into_what_may_lie_ahead() {
        for rate in [0, 1, 50, 256, 257, 10_000] {
            let batch = u64::try_from(batch_size(rate)).unwrap();
            assert!(batch <= run_ahead(rate), "{rate}");
        }
    }

    #[test]
    fn a_job_that_is_behind_makes_up_for_a_second_and_no_more() {
        let batch = |rate, behind| super::batch(rate, (Duration::ZERO, behind), NOW);
        let in_time = batch(200, Duration::ZERO);
        assert_eq!((in_time.most, in_time.due_from), (10, NOW));
        let late = batch(200, Duration::from_millis(100));
        assert_eq!((late.most, late.due_from), (30, UnixMillis(NOW.0 - 100)));
        let long = batch(200, Duration::from_secs(60));
        assert_eq!((long.most, long.due_from), (210, UnixMillis(NOW.0 - 1_000)));
        assert_eq!(batch(10_000, CATCH_UP).most, 256);
        assert_eq!(batch(1, Duration::from_millis(900)).most, 1);
        let early = super::batch(200, (AHEAD, Duration::ZERO), NOW);
        assert_eq!((early.most, early.due_from), (10, NOW + AHEAD));
    }

    #[test]
    fn a_job_has_one_owner_until_its_lease_ends() {
        let taken = claim(&job(10), "a", NOW).unwrap();
        assert_eq!(claim(&taken, "b", NOW + Duration::from_secs(9)), None);
        assert!(claim(&taken, "a", NOW).is_some());
        let over = claim(&taken, "b", NOW + LEASE).unwrap();
        assert_eq!(over.owner, "b");
    }

    #[test]
    fn progress_renews_the_lease() {
        let taken = claim(&job(10), "a", NOW).unwrap();
        let later = NOW + Duration::from_secs(9);
        let after = advance(&taken, Progress::default(), later);
        assert_eq!(after.lease_until, later + LEASE);
    }

    #[test]
    fn what_an_operator_may_ask() {
        let running = job(10);
        let paused = act(&running, Action::Pause, NOW).unwrap();
        assert_eq!(paused.state, ReplayState::Paused);
        assert_eq!(claim(&paused, "a", NOW), None);
        assert_eq!(act(&paused, Action::Pause, NOW), Ok(paused.clone()));
        let resumed = act(&paused, Action::Resume, NOW).unwrap();
        assert!(claim(&resumed, "anybody", NOW).is_some());
        let cancelled = act(&resumed, Action::Cancel, NOW).unwrap();
        assert_eq!(
            act(&cancelled, Action::Resume, NOW),
            Err(Ended(ReplayState::Cancelled))
        );
        assert_eq!(act(&cancelled, Action::Cancel, NOW), Ok(cancelled));
    }

    #[test]
    fn a_batch_that_ends_after_a_pause_is_counted_and_stays_paused() {
        let paused = act(&job(10), Action::Pause, NOW).unwrap();
        let progress = Progress {
            cursor: 10,
            replayed: 3,
            ..Progress::default()
        };
        let after = advance(&paused, progress, NOW);
        assert_eq!((after.state, after.replayed), (ReplayState::Paused, 3));
    }

    #[test]
    fn the_counts_of_a_completed_job_add_up() {
        let begun = ReplayJob {
            matched: 10,
            ..job(100)
        };
        let progress = Progress {
            cursor: 100,
            replayed: 7,
            skipped: 1,
            counted: None,
        };
        let done = advance(&begun, progress, NOW);
        assert_eq!(done.state, ReplayState::Completed);
        assert_eq!((done.matched, done.replayed, done.skipped), (10, 7, 3));
        let mended = advance(&recounted(&begun, 4), progress, NOW);
        assert_eq!(
            (mended.matched, mended.replayed, mended.skipped),
            (11, 11, 0)
        );
    }

    #[test]
    fn the_rate_is_kept_by_batches_of_at_most_a_second() {
        for rate in [1, 50, 256, 257, 10_000] {
            let size = batch_size(rate);
            assert!(at_rate(size, rate) <= Duration::from_secs(1), "{rate}");
        }
        assert_eq!(at_rate(25, 50), Duration::from_millis(500));
        assert_eq!((batch_size(1), batch_size(500)), (1, 25));
        assert_eq!(
            at_rate(batch_size(10_000), 10_000),
            Duration::from_micros(25_600)
        );
    }

    fn recovery(id: &str, endpoint: u128, dry_run: bool) -> ReplayJob {
        ReplayJob {
            id: id.to_owned(),
            recovery: Some(Recovery {
                endpoint: EndpointId::from_bits(endpoint),
                since: UnixMillis(0),
                until: None,
                include_delivered: false,
                dry_run,
                counted: None,
            }),
            ..job(100)
        }
    }

    #[test]
    fn a_recovery_is_not_over_before_it_is_counted() {
        let begun = claim(&recovery("rpl_1", 7, false), "a", NOW).unwrap();
        let walked = Progress {
            cursor: 100,
            ..Progress::default()
        };
        assert_eq!(advance(&begun, walked, NOW).state, ReplayState::Running);
        let counted = Progress {
            counted: Some(Count {
                matched: 4,
                found: Counted {
                    delivered: 9,
                    under_way: 1,
                },
            }),
            ..Progress::default()
        };
        let known = advance(&begun, counted, NOW);
        assert_eq!((known.state, known.matched), (ReplayState::Running, 4));
        let sent = Progress {
            replayed: 3,
            ..walked
        };
        let done = advance(&known, sent, NOW);
        assert_eq!((done.state, done.skipped), (ReplayState::Completed, 1));
        let dry = claim(&recovery("rpl_1", 7, true), "a", NOW).unwrap();
        let dry = advance(&dry, counted, NOW);
        assert_eq!(
            (dry.state, dry.matched, dry.skipped),
            (ReplayState::Completed, 4, 0)
        );
    }

    #[test]
    fn dlq_02_recoveries_of_one_endpoint_take_turns() {
        let (old, young) = (recovery("rpl_1", 7, false), recovery("rpl_2", 7, false));
        assert!(comes_first(&old, &young, NOW) && !comes_first(&young, &old, NOW));
        assert!(yields_to(&young, &old) && !yields_to(&old, &young));
        // Whoever is at work is not interrupted, and one whose owner is gone has no advantage.
        let working = claim(&young, "a", NOW).unwrap();
        assert!(comes_first(&working, &old, NOW));
        assert!(!comes_first(&working, &old, NOW + LEASE));
        for other in [
            recovery("rpl_0", 8, false),
            recovery("rpl_0", 7, true),
            act(&old, Action::Pause, NOW).unwrap(),
            job(100),
        ] {
            assert!(!comes_first(&other, &young, NOW), "{other:?}");
            assert!(!yields_to(&young, &other), "{other:?}");
        }
        assert!(!comes_first(&old, &recovery("rpl_2", 7, true), NOW));
    }
}
