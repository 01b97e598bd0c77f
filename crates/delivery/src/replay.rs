//! A request to send again: every dead letter that matches a filter, or what an endpoint has
//! missed since a time, once each.

use crate::ids::hash128;
use crate::ids::{EndpointId, LetterId};
use crate::time::UnixMillis;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// Deliveries are being handed in.
    Running,
    /// Somebody stopped it for now.
    Paused,
    /// Somebody stopped it for good; what was not sent stays as it is.
    Cancelled,
    /// Everything that matched has been dealt with.
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

/// A job.
///
/// One about letters walks them upwards from `cursor` to `upper`. A replayed letter moves
/// beyond `upper` (its state is written as a new message), so a job that is repeated from an
/// old cursor after a crash meets none of them twice, and a letter that dies again meanwhile is
/// not part of this request any more. One that recovers walks the archive of events in the same
/// way; what it has sent it knows by the generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayJob {
    /// `rpl_` and 32 hex digits.
    pub id: String,
    /// What to send: the filter as it was asked for, in JSON.
    pub filter: String,
    /// Deliveries a second.
    pub rate_per_second: u32,
    /// When it was asked for.
    pub created_at: UnixMillis,
    /// What lies above this sequence is not part of it.
    pub upper: u64,
    /// What lies up to this sequence has been dealt with.
    pub cursor: u64,
    /// How many matched when it was asked for.
    pub matched: u64,
    /// How many were sent so far.
    pub replayed: u64,
    /// How many could not be: gone, changed or never a delivery.
    pub skipped: u64,
    /// Where it stands.
    pub state: ReplayState,
    /// When that was written.
    pub updated_at: UnixMillis,
    /// The process that works on it.
    pub owner: String,
    /// Until when that process may; then another takes over.
    pub lease_until: UnixMillis,
    /// Whose; empty for all tenants.
    pub tenant: String,
    /// What is recovered; `None` for a job about dead letters.
    pub recovery: Option<Recovery>,
}

/// What an endpoint is to get from the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// Events accepted at this time or later.
    pub since: UnixMillis,
    /// Events accepted before this time; `None` for all until the request.
    pub until: Option<UnixMillis>,
    /// Also what has been delivered.
    pub include_delivered: bool,
    /// Only count.
    pub dry_run: bool,
    /// What was counted; `None` until then.
    pub counted: Option<Counted>,
}

/// What a recovery found beside what is to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events that have been delivered to the endpoint.
    pub delivered: u64,
    /// Events whose delivery is under way and needs no help.
    pub under_way: u64,
}

impl ReplayJob {
    /// Whether it is known how many match: at once for letters, after a walk for a recovery.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_none_or(|recovery| recovery.counted.is_some())
    }
}

/// The id of a job that is made at `now`: 48 bits of time and 80 of chance, so that ids sort as
/// their jobs were made.
#[must_use]
pub fn job_id(now: UnixMillis, chance: u128) -> String {
    let millis = u128::try_from(now.0).unwrap_or(0) & 0xffff_ffff_ffff;
    format!("rpl_{:032x}", (millis << 80) | (chance >> 48))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_jobs_sort_by_time() {
        let early = job_id(UnixMillis(1_700_000_000_000), u128::MAX);
        let late = job_id(UnixMillis(1_700_000_000_001), 0);
        assert!(early < late);
        assert_eq!((early.len(), late.len()), (36, 36));
    }

    #[test]
    fn dlq_01_each_request_has_a_generation_of_its_own() {
        let (tenant, endpoint) = (
            crate::ids::Tenant::parse("acme").unwrap(),
            EndpointId::from_bits(1),
        );
        let letter = LetterId::of(&tenant, &crate::ids::EventId::from_bits(2), &endpoint);
        let first = replay_generation(&letter, "rpl_1");
        assert_eq!(first, replay_generation(&letter, "rpl_1"));
        assert_ne!(first, replay_generation(&letter, "rpl_2"));
        assert_ne!(first, 0);
    }
}
