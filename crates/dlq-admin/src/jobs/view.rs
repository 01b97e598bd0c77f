//! How a job is asked for and shown.

use crate::filter::FilterBody;
use posthorn_delivery::ReplayJob;
use posthorn_http_api::time::to_rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Letters a second where nothing is said.
const DEFAULT_RATE: u32 = 50;

/// A request to replay every dead letter that matches, once.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// At least one field.
    pub(super) filter: FilterBody,
    /// Letters a second, 1 to 10,000.
    #[serde(default = "default_rate")]
    #[schema(default = 50, minimum = 1, maximum = 10000)]
    pub(super) rate_per_second: u32,
    /// Only count.
    #[serde(default)]
    pub(super) dry_run: bool,
}

fn default_rate() -> u32 {
    DEFAULT_RATE
}

/// A replay job and how far it has come.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobView {
    /// `rpl_…`.
    id: String,
    /// What it replays, as it was asked for.
    filter: FilterBody,
    rate_per_second: u32,
    /// `running`, `paused`, `cancelled` or `completed`.
    state: &'static str,
    /// Letters that matched when it was asked for.
    matched: u64,
    /// Letters sent so far: on their way, or waiting in their endpoint's replay lane. Where an
    /// endpoint takes fewer than the job's rate, so does the job; one that is down, resting or
    /// paused does not slow it.
    replayed: u64,
    /// Letters that could not be sent: purged or replayed by somebody else meanwhile, their
    /// endpoint deleted, or never a delivery.
    skipped: u64,
    created_at: String,
    updated_at: String,
}

impl From<&ReplayJob> for JobView {
    fn from(job: &ReplayJob) -> JobView {
        JobView {
            id: job.id.clone(),
            filter: serde_json::from_str(&job.filter).unwrap_or_default(),
            rate_per_second: job.rate_per_second,
            state: job.state.as_str(),
            matched: job.matched,
            replayed: job.replayed,
            skipped: job.skipped,
            created_at: to_rfc3339(job.created_at),
            updated_at: to_rfc3339(job.updated_at),
        }
    }
}

/// What a job would replay.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DryRun {
    /// Letters that match and wait for an operator.
    pub(super) matched: u64,
    /// Always true.
    pub(super) dry_run: bool,
}
