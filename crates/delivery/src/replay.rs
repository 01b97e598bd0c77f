//! A request to replay every dead letter that matches a filter, once each.

use crate::ids::LetterId;
use crate::ids::hash128;
use crate::time::UnixMillis;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// Letters are being replayed.
    Running,
    /// Somebody stopped it for now.
    Paused,
    /// Somebody stopped it for good; what was not sent stays a dead letter.
    Cancelled,
    /// Every matching letter has been replayed.
    Completed,
}

impl ReplayState {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReplayState::Running => "running",
            ReplayState::Paused => "paused",
            ReplayState::Cancelled => "cancelled",
            ReplayState::Completed => "completed",
        }
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, ReplayState::Cancelled | ReplayState::Completed)
    }
}

/// A replay job.
///
/// It walks the letters upwards from `cursor` to `upper`. A replayed letter moves beyond
/// `upper` (its state is written as a new message), so a job that is repeated from an old
/// cursor after a crash meets none of them twice, and a letter that dies again meanwhile is
/// not part of this request any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayJob {
    /// `rpl_` and 32 hex digits.
    pub id: String,
    /// What to replay: the filter as it was asked for, in JSON.
    pub filter: String,
    /// Letters a second.
    pub rate_per_second: u32,
    /// When it was asked for.
    pub created_at: UnixMillis,
    /// Letters above this sequence are not part of it.
    pub upper: u64,
    /// Letters up to this sequence have been dealt with.
    pub cursor: u64,
    /// Letters that matched when it was asked for.
    pub matched: u64,
    /// Letters replayed so far.
    pub replayed: u64,
    /// Letters that could not be replayed: gone, changed or never a delivery.
    pub skipped: u64,
    /// Where it stands.
    pub state: ReplayState,
    /// When that was written.
    pub updated_at: UnixMillis,
    /// The process that works on it.
    pub owner: String,
    /// Until when that process may; then another takes over.
    pub lease_until: UnixMillis,
    /// Whose letters; empty for all tenants.
    pub tenant: String,
}

/// The generation of a replay of `letter` under `request`: the same when the same request is
/// carried out again after a crash, another for every other request, never 0.
#[must_use]
pub fn replay_generation(letter: &LetterId, request: &str) -> u64 {
    let bits = hash128("replay", &[letter.as_str().as_bytes(), request.as_bytes()]);
    u64::try_from(bits & u128::from(u64::MAX))
        .unwrap_or(1)
        .max(1)
}
