//! Who has the data folder: nobody, a server about to end, or one that can be used.
//!
//! The note in the folder may be stale and the server it names may be dying, because its owner
//! was killed a millisecond ago. So the lock decides whether there is a server at all, and a
//! server is used only after it was seen for a while: shortly where its owner lives, and long
//! enough for the supervisor to have done its work where the owner does not.

use std::time::{Duration, Instant};

use crate::builder::Plan;
use crate::error::StartError;
use crate::info;
use crate::lock::Lock;
use crate::state::{State, is_alive};

/// What a server about to end is granted before the folder counts as in use.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a server must be seen whose owner lives.
const STEADY: Duration = Duration::from_millis(100);
/// How long a server must be seen whose owner does not: such a one is being killed, except
/// where the supervisor was killed as well, and then it runs on and can be used.
const ORPHANED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// The answer to a claim on a data folder.
pub(crate) enum Claim {
    /// The folder is the claimant's.
    Free(Lock),
    /// A server works on it, and answers.
    Running(State),
}

/// Waits for the folder, for a server about to end.
pub(crate) async fn lock(plan: &Plan) -> Result<Lock, StartError> {
    let begin = Instant::now();
    loop {
        if let Some(lock) = try_lock(plan)? {
            return Ok(lock);
        }
        if begin.elapsed() > PATIENCE {
            return Err(StartError::InUse(plan.data_dir.clone()));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Takes the folder, or the server that works on it.
pub(crate) async fn claim(plan: &Plan) -> Result<Claim, StartError> {
    let begin = Instant::now();
    let mut seen: Option<(State, Instant)> = None;
    loop {
        if let Some(lock) = try_lock(plan)? {
            return Ok(Claim::Free(lock));
        }
        seen = match (answering(plan).await, seen) {
            (Some(now), Some((then, since))) if now == then => Some((then, since)),
            (Some(now), _) => Some((now, Instant::now())),
            (None, _) => None,
        };
        if let Some((state, since)) = &seen
            && since.elapsed() >= needed(state)
        {
            return Ok(Claim::Running(state.clone()));
        }
        // A server that another process is just starting may take its full time.
        if begin.elapsed() > plan.ready_within + PATIENCE {
            return Err(StartError::InUse(plan.data_dir.clone()));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn try_lock(plan: &Plan) -> Result<Option<Lock>, StartError> {
    Lock::try_take(&plan.data_dir).map_err(|source| plan.folder_error(source))
}

fn needed(state: &State) -> Duration {
    if is_alive(state.owner) {
        STEADY
    } else {
        ORPHANED
    }
}

/// The server of the note, if its process is there and its port answers in its name.
async fn answering(plan: &Plan) -> Option<State> {
    let state = State::read(&plan.data_dir)?;
    if !is_alive(state.pid) {
        return None;
    }
    let info = info::ask(state.port).await?;
    (info.jetstream && info.server_name == state.server_name).then_some(state)
}
