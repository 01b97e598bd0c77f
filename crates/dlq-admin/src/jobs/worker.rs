//! Who works on the jobs: any copy of this service, one at a time for each job.

use super::law;
use super::step::{JobDesk, Reported, StepError, report};
use super::work::Work;
use crate::store::{Store, caught_up};
use posthorn_broker::{BrokerError, Versioned};
use posthorn_delivery::{LaneId, ReplayJob, ReplayState};
use posthorn_runtime::Shutdown;
use posthorn_runtime::readiness::Component;
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often jobs that need somebody are looked for.
const LOOK: Duration = Duration::from_millis(200);
/// Jobs that one process works on at a time; the others wait or go to another copy.
const MAX_JOBS: usize = 16;
/// How often a report is repeated before the job is left to whoever takes it next.
const REPORTS: u32 = 5;

/// Takes jobs until shutdown. `me` names this process among the copies; `beat` hears of every
/// look, so that a loop that hangs is seen.
pub async fn run(store: Store, me: String, shutdown: Shutdown, beat: Component) {
    let mut busy: HashMap<String, JoinHandle<()>> = HashMap::new();
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.triggered() => return,
            _ = tick.tick() => beat.beat(),
        }
        busy.retain(|_, work| !work.is_finished());
        let now = posthorn_wiring::now();
        let mut jobs = store.jobs().all();
        jobs.retain(|(_, job)| job.value.state == ReplayState::Running);
        let has_its_turn = |job: &ReplayJob| {
            let mut others = jobs.iter().map(|(_, other)| &other.value);
            !others.any(|other| law::comes_first(other, job, now))
        };
        for (id, job) in &jobs {
            let id = id.clone();
            let free = law::claim(&job.value, &me, now).is_some() && has_its_turn(&job.value);
            if !free || busy.contains_key(&id) || busy.len() >= MAX_JOBS {
                continue;
            }
            let (store, me, stop) = (store.clone(), me.clone(), shutdown.clone());
            let name = id.clone();
            busy.insert(
                id,
                shutdown.spawn(async move { one(&store, &name, &me, &stop).await }),
            );
        }
    }
}

/// Works on one job until it ends, somebody stops it, or something fails. After a failure the
/// job is taken up again by the next look, here or elsewhere.
async fn one(store: &Store, id: &str, me: &str, shutdown: &Shutdown) {
    if let Err(error) = work(store, id, me, shutdown).await {
        tracing::warn!(
            job = id,
            error = &error as &dyn std::error::Error,
            "a replay job was interrupted"
        );
        tokio::time::sleep(LOOK).await;
    }
}

async fn work(store: &Store, id: &str, me: &str, shutdown: &Shutdown) -> Result<(), StepError> {
    let Some(mut job) = take(store, id, me).await? else {
        return Ok(());
    };
    let Some(mut work) = Work::of(&job.value) else {
        tracing::error!(job = id, "what a replay job asks for cannot be read");
        return cancel(store, &job).await;
    };
    if yields(store, &job.value).await? {
        return finish(store, &job).await;
    }
    tracing::info!(
        job = id,
        cursor = job.value.cursor,
        upper = job.value.upper,
        "replaying"
    );
    let mut slot = Instant::now();
    while job.value.state == ReplayState::Running && !shutdown.is_triggered() {
        if interrupted(store, &job) {
            return Ok(());
        }
        store.endpoints_now().await?;
        let now = posthorn_wiring::now();
        let at = Instant::now();
        let due = (
            slot.saturating_duration_since(at),
            at.saturating_duration_since(slot),
        );
        let batch = law::batch(job.value.rate_per_second, due, now);
        let step = work.step(store, &job.value, batch).await?;
        if step.is_idle() && now + law::LEASE / 2 < job.value.lease_until {
            continue;
        }
        let Some(next) = keep(store, &job, step.progress).await? else {
            return Ok(());
        };
        job = next;
        if let Some(lane) = step.full {
            let Some(next) = until_room(store, job, &lane, shutdown).await? else {
                return Ok(());
            };
            job = next;
        }
        slot = slot.max(Instant::now() - law::CATCH_UP) + step.takes;
        tokio::select! {
            () = shutdown.triggered() => {}
            () = tokio::time::sleep_until(slot - law::AHEAD) => {}
        }
    }
    finish(store, &job).await
}

/// Waits until half of what `lane` may hold of the job has been let go, and keeps the job
/// meanwhile; `None` when somebody else has a word in it.
async fn until_room(
    store: &Store,
    mut job: Versioned<ReplayJob>,
    lane: &LaneId,
    shutdown: &Shutdown,
) -> Result<Option<Versioned<ReplayJob>>, StepError> {
    loop {
        tokio::select! {
            () = shutdown.triggered() => return Ok(Some(job)),
            () = tokio::time::sleep(LOOK) => {}
        }
        if interrupted(store, &job) {
            return Ok(None);
        }
        let room = store.room(lane, job.value.rate_per_second).await?;
        if room.is_half_empty() || job.value.state != ReplayState::Running {
            return Ok(Some(job));
        }
        if posthorn_wiring::now() + law::LEASE / 2 < job.value.lease_until {
            continue;
        }
        let nothing = law::Progress::default();
        let Some(next) = keep(store, &job, nothing).await? else {
            return Ok(None);
        };
        job = next;
    }
}

/// Reports progress, which renews the lease; `None` when the job is no longer ours.
async fn keep(
    store: &Store,
    job: &Versioned<ReplayJob>,
    progress: law::Progress,
) -> Result<Option<Versioned<ReplayJob>>, BrokerError> {
    match report_until_heard(store, job, progress).await? {
        Reported::Kept(next) => Ok(Some(*next)),
        Reported::Lost => Ok(None),
    }
}

/// Claims a job. One that somebody worked on before is counted again: what was sent and not
/// reported carries the job's id.
async fn take(
    store: &Store,
    id: &str,
    me: &str,
) -> Result<Option<Versioned<ReplayJob>>, BrokerError> {
    let Some(found) = store.load(id).await? else {
        return Ok(None);
    };
    let Some(mut mine) = law::claim(&found.value, me, posthorn_wiring::now()) else {
        return Ok(None);
    };
    if !found.value.owner.is_empty()
        && let Some(work) = Work::of(&mine)
    {
        mine = law::recounted(&mine, work.count_sent(store, &mine).await?);
    }
    match store.save(&mine, found.revision).await {
        Ok(revision) => Ok(Some(Versioned {
            value: mine,
            revision,
        })),
        Err(BrokerError::Conflict) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an older job has its turn first, which somebody may just have taken elsewhere.
async fn yields(store: &Store, job: &ReplayJob) -> Result<bool, BrokerError> {
    caught_up(store.jobs()).await?;
    let jobs = store.jobs().all();
    let mut others = jobs.iter().map(|(_, other)| &other.value);
    Ok(others.any(|other| law::yields_to(job, other)))
}

/// Whether the watch has brought a word of somebody else about the job.
fn interrupted(store: &Store, job: &Versioned<ReplayJob>) -> bool {
    store.jobs().get(&job.value.id).is_none_or(|now| {
        now.revision > job.revision
            && (now.value.state != ReplayState::Running || now.value.owner != job.value.owner)
    })
}

async fn report_until_heard(
    store: &Store,
    job: &Versioned<ReplayJob>,
    progress: law::Progress,
) -> Result<Reported, BrokerError> {
    let mut tries = 1;
    loop {
        let reported = report(store, job, progress, posthorn_wiring::now()).await;
        match reported {
            Err(error) if error.is_temporary() && tries < REPORTS => tries += 1,
            other => return other,
        }
        tokio::time::sleep(LOOK * tries).await;
    }
}

/// At a shutdown the job is free at once, not after the lease.
async fn finish(store: &Store, job: &Versioned<ReplayJob>) -> Result<(), StepError> {
    if job.value.state != ReplayState::Running {
        let state = job.value.state.as_str();
        tracing::info!(job = job.value.id, state, "a replay job stopped");
        return Ok(());
    }
    let free = ReplayJob {
        lease_until: posthorn_wiring::now(),
        ..job.value.clone()
    };
    conflict_is_fine(store.save(&free, job.revision).await)
}

/// A filter that this version cannot read would select we know not what.
async fn cancel(store: &Store, job: &Versioned<ReplayJob>) -> Result<(), StepError> {
    let now = posthorn_wiring::now();
    let Ok(cancelled) = law::act(&job.value, law::Action::Cancel, now) else {
        return Ok(());
    };
    conflict_is_fine(store.save(&cancelled, job.revision).await)
}

/// Somebody else has written: theirs holds.
fn conflict_is_fine(saved: Result<u64, BrokerError>) -> Result<(), StepError> {
    match saved {
        Ok(_) | Err(BrokerError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
