//! How a replay job is shown: the service that keeps a job and the one that asks for a recovery
//! answer with the same document.

use crate::time::to_rfc3339;
use posthorn_delivery::{Recovery, ReplayJob, ReplayState, UnixMillis};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use utoipa::ToSchema;

/// The fewest and the most deliveries a second that a job may be asked for.
pub const RATES: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Deliveries a second where nothing is said.
pub const DEFAULT_RATE: u32 = 50;

/// A replay job and how far it has come.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobView {
    /// `rpl_…`.
    id: String,
    /// `replay` of dead letters, or `recover`: from the archive of events.
    kind: &'static str,
    /// Which dead letters, as it was asked for; of a recovery its tenant and endpoint.
    #[schema(value_type = Object)]
    filter: Value,
    rate_per_second: u32,
    /// `running`, `paused`, `cancelled` or `completed`.
    state: &'static str,
    /// How many matched when it was asked for; of a recovery 0 until they have been counted.
    matched: u64,
    /// Sent so far: on their way, or waiting in their endpoint's replay lane. Where an
    /// endpoint takes fewer than the job's rate, so does the job; one that is down, resting or
    /// paused does not slow it.
    replayed: u64,
    /// Those that could not be sent: purged or sent by somebody else meanwhile, their endpoint
    /// deleted, or never a delivery.
    skipped: u64,
    /// What is neither sent nor skipped yet.
    remaining: u64,
    /// When it ends at its rate, at the earliest; `null` where it does not run, or has not been
    /// counted.
    ends_at: Option<String>,
    /// What is recovered, in a job of that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<RecoveryView>,
    created_at: String,
    updated_at: String,
}

/// What an endpoint is to get from the archive.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecoveryView {
    /// `ep_…`.
    endpoint: String,
    /// Events accepted at this time or later.
    since: String,
    /// Events accepted before this time; `null` is until the request.
    until: Option<String>,
    include_delivered: bool,
    /// Whether this job only counts.
    dry_run: bool,
    /// Whether `matched` and the two below are known.
    counted: bool,
    /// Events that had been delivered to the endpoint when they were counted.
    delivered: u64,
    /// Events whose delivery was under way then: they are left to the line.
    under_way: u64,
}

impl From<&ReplayJob> for JobView {
    fn from(job: &ReplayJob) -> JobView {
        let remaining = remaining(job);
        JobView {
            id: job.id.clone(),
            kind: match job.recovery {
                None => "replay",
                Some(_) => "recover",
            },
            filter: serde_json::from_str(&job.filter).unwrap_or_default(),
            rate_per_second: job.rate_per_second,
            state: job.state.as_str(),
            matched: job.matched,
            replayed: job.replayed,
            skipped: job.skipped,
            remaining,
            ends_at: ends_at(job, remaining).map(to_rfc3339),
            recovery: job.recovery.as_ref().map(RecoveryView::from),
            created_at: to_rfc3339(job.created_at),
            updated_at: to_rfc3339(job.updated_at),
        }
    }
}

impl From<&Recovery> for RecoveryView {
    fn from(recovery: &Recovery) -> RecoveryView {
        let counted = recovery.counted.unwrap_or_default();
        RecoveryView {
            endpoint: recovery.endpoint.to_string(),
            since: to_rfc3339(recovery.since),
            until: recovery.until.map(to_rfc3339),
            include_delivered: recovery.include_delivered,
            dry_run: recovery.dry_run,
            counted: recovery.counted.is_some(),
            delivered: counted.delivered,
            under_way: counted.under_way,
        }
    }
}

fn remaining(job: &ReplayJob) -> u64 {
    job.matched.saturating_sub(job.replayed + job.skipped)
}

fn ends_at(job: &ReplayJob, remaining: u64) -> Option<UnixMillis> {
    if job.state != ReplayState::Running || !job.is_counted() {
        return None;
    }
    let millis = remaining.saturating_mul(1_000) / u64::from(job.rate_per_second.max(1));
    Some(job.updated_at + Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthorn_delivery::{Counted, EndpointId};

    fn job() -> ReplayJob {
        ReplayJob {
            id: "rpl_1".to_owned(),
            filter: r#"{"tenant":"acme"}"#.to_owned(),
            rate_per_second: 50,
            created_at: UnixMillis(0),
            upper: 9,
            cursor: 1,
            matched: 110,
            replayed: 8,
            skipped: 2,
            state: ReplayState::Running,
            updated_at: UnixMillis(1_000),
            owner: String::new(),
            lease_until: UnixMillis(0),
            tenant: "acme".to_owned(),
            recovery: None,
        }
    }

    fn shown(job: &ReplayJob) -> Value {
        serde_json::to_value(JobView::from(job)).unwrap()
    }

    #[test]
    fn what_is_left_and_until_when_follow_from_the_counts() {
        let view = shown(&job());
        assert_eq!(
            (&view["kind"], &view["remaining"]),
            (&"replay".into(), &100.into())
        );
        assert_eq!(view["ends_at"], "1970-01-01T00:00:03.000Z");
        assert_eq!(view["filter"]["tenant"], "acme");
        assert!(view.get("recovery").is_none());
        let paused = ReplayJob {
            state: ReplayState::Paused,
            ..job()
        };
        assert!(shown(&paused)["ends_at"].is_null());
    }

    #[test]
    fn a_recovery_that_was_not_counted_promises_nothing() {
        let recovery = Recovery {
            endpoint: EndpointId::from_bits(7),
            since: UnixMillis(0),
            until: None,
            include_delivered: false,
            dry_run: false,
            counted: None,
        };
        let counting = ReplayJob {
            recovery: Some(recovery.clone()),
            ..job()
        };
        let view = shown(&counting);
        assert_eq!(
            (&view["kind"], &view["recovery"]["counted"]),
            (&"recover".into(), &false.into())
        );
        assert!(view["ends_at"].is_null() && view["recovery"]["until"].is_null());
        let counted = ReplayJob {
            recovery: Some(Recovery {
                counted: Some(Counted {
                    delivered: 4,
                    under_way: 1,
                }),
                ..recovery
            }),
            ..job()
        };
        let view = shown(&counted);
        assert_eq!(view["recovery"]["delivered"], 4);
        assert!(view["ends_at"].is_string());
    }
}
