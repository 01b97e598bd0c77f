//! How long what has been delivered, tried and given up is kept.

use std::time::Duration;

use serde::Serialize;

use super::values::{as_duration_text, duration_between, duration_text, parse_bytes};

const DAY: Duration = Duration::from_hours(24);
const MAX_RETENTION: Duration = Duration::from_hours(3_650 * 24);

/// Attempts outlive the dead letters that point at them by at least this much: a letter is
/// written up to `max_age` (3 d by default, 4 d in the presets) after its first attempt.
const ATTEMPTS_OUTLIVE_LETTERS: Duration = Duration::from_hours(4 * 24);

/// The settings of the streams that keep history. None of them touches what is not yet delivered.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize)]
#[command(next_help_heading = "Retention")]
pub struct RetentionArgs {
    /// How long a repeated message id is recognised; costs about 260 bytes of memory an id.
    #[arg(long, env = "POSTHORN_DEDUPE_WINDOW", default_value = "10m", value_name = "DURATION",
        value_parser = duration_between(Duration::from_millis(100), DAY))]
    #[serde(serialize_with = "as_duration_text")]
    pub dedupe_window: Duration,

    /// How long events stay in the archive.
    #[arg(long, env = "POSTHORN_EVENT_RETENTION", default_value = "7d", value_name = "DURATION",
        value_parser = duration_between(Duration::from_mins(1), MAX_RETENTION))]
    #[serde(serialize_with = "as_duration_text")]
    pub event_retention: Duration,

    /// How long attempts are kept; at least four days longer than dead letters.
    #[arg(long, env = "POSTHORN_ATTEMPT_RETENTION", default_value = "34d", value_name = "DURATION",
        value_parser = duration_between(Duration::from_mins(1), MAX_RETENTION))]
    #[serde(serialize_with = "as_duration_text")]
    pub attempt_retention: Duration,

    /// How long dead letters are kept.
    #[arg(long, env = "POSTHORN_DLQ_RETENTION", default_value = "30d", value_name = "DURATION",
        value_parser = duration_between(Duration::from_mins(1), MAX_RETENTION))]
    #[serde(serialize_with = "as_duration_text")]
    pub dlq_retention: Duration,

    /// How long the log of administrative acts is kept.
    #[arg(long, env = "POSTHORN_AUDIT_RETENTION", default_value = "90d", value_name = "DURATION",
        value_parser = duration_between(Duration::from_mins(1), MAX_RETENTION))]
    #[serde(serialize_with = "as_duration_text")]
    pub audit_retention: Duration,

    /// The archive's size limit, like 10GiB; without it there is none.
    #[arg(long, env = "POSTHORN_EVENT_MAX_BYTES", value_name = "BYTES", value_parser = parse_limit)]
    pub event_max_bytes: Option<u64>,

    /// The attempt log's size limit; without it there is none.
    #[arg(long, env = "POSTHORN_ATTEMPT_MAX_BYTES", value_name = "BYTES", value_parser = parse_limit)]
    pub attempt_max_bytes: Option<u64>,

    /// The dead letters' size limit; without it there is none.
    #[arg(long, env = "POSTHORN_DLQ_MAX_BYTES", value_name = "BYTES", value_parser = parse_limit)]
    pub dlq_max_bytes: Option<u64>,

    /// How much one tenant's dead letters may take; its oldest are dropped for it, and no other
    /// tenant's. Without it there is no such budget.
    #[arg(long, env = "POSTHORN_DLQ_TENANT_MAX_BYTES", value_name = "BYTES", value_parser = parse_limit)]
    pub dlq_tenant_max_bytes: Option<u64>,

    /// The size limit of the log of administrative acts; without it there is none.
    #[arg(long, env = "POSTHORN_AUDIT_MAX_BYTES", value_name = "BYTES", value_parser = parse_limit)]
    pub audit_max_bytes: Option<u64>,
}

/// A limit of no bytes would be read as "none" by the broker, the opposite of what it says.
fn parse_limit(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err("must be more than 0; leave it out for no limit".to_owned()),
        bytes => Ok(bytes),
    }
}

impl RetentionArgs {
    /// Checks what concerns more than one setting.
    ///
    /// # Errors
    /// With the rule that is broken.
    pub fn validate(&self) -> Result<(), String> {
        let least = self.dlq_retention + ATTEMPTS_OUTLIVE_LETTERS;
        if self.attempt_retention < least {
            return Err(format!(
                "attempt-retention must be at least dlq-retention plus 4d, here {}",
                duration_text(least)
            ));
        }
        Ok(())
    }
}

impl Default for RetentionArgs {
    /// The documented defaults, whatever the environment says.
    fn default() -> Self {
        Self {
            dedupe_window: Duration::from_mins(10),
            event_retention: DAY * 7,
            attempt_retention: DAY * 34,
            dlq_retention: DAY * 30,
            audit_retention: DAY * 90,
            event_max_bytes: None,
            attempt_max_bytes: None,
            dlq_max_bytes: None,
            dlq_tenant_max_bytes: None,
            audit_max_bytes: None,
        }
    }
}
