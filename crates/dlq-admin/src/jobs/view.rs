//! How a job about dead letters is asked for, and what a count is answered with.

use crate::filter::FilterBody;
use posthorn_http_api::job::DEFAULT_RATE;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// What a job would replay.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DryRun {
    /// Letters that match and wait for an operator.
    pub(super) matched: u64,
    /// Always true.
    pub(super) dry_run: bool,
}
