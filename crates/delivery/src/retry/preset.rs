//! Named schedules, so that a team that moves here can keep the one its receivers know.

use super::backoff::Backoff;
use super::jitter::Jitter;
use super::policy::{DEFAULT_MAX_AGE, Schedule};
use std::time::Duration;

/// A named schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 2 s doubling to 1 h, full jitter, 16 attempts: the default.
    Exponential,
    /// 1 m, 5 m, 30 m, 2 h, 5 h, 12 h, 24 h, 24 h: 9 attempts.
    Stripe,
    /// 5 s tripling to 6 h: 10 attempts.
    Sooner,
    /// The example schedule of Standard Webhooks: 10 attempts over 75.6 h.
    Standard,
    /// 3 attempts, after 1 m and 5 m.
    GitHub,
}

/// What a preset stands for.
pub(super) struct Meaning {
    pub schedule: Schedule,
    pub jitter: Jitter,
    pub max_attempts: u32,
    pub max_age: Duration,
}

const LADDER_JITTER: Jitter = Jitter::Upward { percent: 10 };
const FOUR_DAYS: Duration = Duration::from_secs(4 * 86_400);
const STRIPE: [u64; 8] = [60, 300, 1_800, 7_200, 18_000, 43_200, 86_400, 86_400];
const STANDARD: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
const GITHUB: [u64; 2] = [60, 300];

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 5] = [
        Preset::Exponential,
        Preset::Stripe,
        Preset::Sooner,
        Preset::Standard,
        Preset::GitHub,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Exponential => "exponential",
            Preset::Stripe => "stripe",
            Preset::Sooner => "sooner",
            Preset::Standard => "standard",
            Preset::GitHub => "github",
        }
    }

    /// From the stable name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Preset> {
        Preset::ALL
            .into_iter()
            .find(|preset| preset.as_str() == text)
    }

    pub(super) fn meaning(self) -> Meaning {
        match self {
            Preset::Exponential => Meaning {
                schedule: exponential(2, 2_000, 3_600),
                jitter: Jitter::Full,
                max_attempts: 16,
                max_age: DEFAULT_MAX_AGE,
            },
            Preset::Sooner => Meaning {
                schedule: exponential(5, 3_000, 21_600),
                jitter: LADDER_JITTER,
                max_attempts: 10,
                max_age: DEFAULT_MAX_AGE,
            },
            Preset::Stripe => ladder(&STRIPE, FOUR_DAYS),
            Preset::Standard => ladder(&STANDARD, FOUR_DAYS),
            Preset::GitHub => ladder(&GITHUB, DEFAULT_MAX_AGE),
        }
    }
}

fn exponential(base: u64, factor_milli: u32, cap: u64) -> Schedule {
    let backoff = Backoff::try_new(
        Duration::from_secs(base),
        factor_milli,
        Duration::from_secs(cap),
    );
    Schedule::Exponential(backoff.expect("presets are within the bounds"))
}

fn ladder(rungs: &[u64], max_age: Duration) -> Meaning {
    Meaning {
        schedule: Schedule::Ladder(rungs.iter().copied().map(Duration::from_secs).collect()),
        jitter: LADDER_JITTER,
        max_attempts: u32::try_from(rungs.len() + 1).unwrap_or(u32::MAX),
        max_age,
    }
}
