//! An endpoint's retry policy.

use super::backoff::Backoff;
use super::jitter::Jitter;
use super::preset::Preset;
use crate::time::UnixMillis;
use rand::Rng;
use std::time::Duration;

/// The most attempts that a policy may have.
pub const MAX_ATTEMPTS: u32 = 64;
/// How long a delivery is tried where nothing else is said: 3 days.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(3 * 86_400);
/// Bounds of `max_age`: 1 s to 30 days.
pub const MAX_AGE_RANGE: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(30 * 86_400));
/// Statuses that will not change by asking again, where an endpoint lists none of its own.
pub const DEFAULT_PERMANENT: [u16; 9] = [400, 404, 405, 410, 413, 414, 415, 422, 431];

/// The delays before jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Capped exponential.
    Exponential(Backoff),
    /// An explicit list; beyond its end the last rung repeats.
    Ladder(Vec<Duration>),
}

impl Schedule {
    /// The ceiling of the delay after `attempt` (from 1).
    #[must_use]
    pub fn ceiling(&self, attempt: u32) -> Duration {
        match self {
            Schedule::Exponential(backoff) => backoff.ceiling(attempt),
            Schedule::Ladder(rungs) => {
                let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
                rungs
                    .get(at.min(rungs.len().saturating_sub(1)))
                    .copied()
                    .unwrap_or_default()
            }
        }
    }
}

/// Which rule a policy breaks; the text names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The preset is unknown.
    #[error("retry.preset is one of exponential, stripe, sooner, standard, github")]
    Preset,
    /// Base, factor or cap out of bounds.
    #[error(
        "retry.base is at least 1ms and at most retry.max_delay, retry.max_delay is at most 7d, \
         and retry.factor is 1 or from 1.1 to 10"
    )]
    Exponential,
    /// The jitter is unknown.
    #[error("retry.jitter is full, equal, none, or up:PERCENT with PERCENT from 1 to 100")]
    Jitter,
    /// Too few or too many attempts.
    #[error("retry.max_attempts is from 1 to 64")]
    MaxAttempts,
    /// `max_age` out of bounds.
    #[error("retry.max_age is from 1s to 30d")]
    MaxAge,
    /// The ladder is empty, too long, or has a rung out of bounds.
    #[error("retry.schedule has 1 to 63 delays, each from 1ms to 7d")]
    Ladder,
    /// A status that cannot be permanent.
    #[error("retry.permanent_statuses are statuses from 300 to 599, at most 300 of them")]
    PermanentStatuses,
}

/// The fields of a policy before they are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicyParts {
    /// Which preset the fields began with; kept for display.
    pub preset: Preset,
    /// The delays.
    pub schedule: Schedule,
    /// How they are drawn.
    pub jitter: Jitter,
    /// Attempts in all.
    pub max_attempts: u32,
    /// From acceptance, or from the request of a replay.
    pub max_age: Duration,
    /// The endpoint's own list; `None` is [`DEFAULT_PERMANENT`].
    pub permanent: Option<Vec<u16>>,
}

impl RetryPolicyParts {
    /// The fields of a preset, to be changed one by one.
    #[must_use]
    pub fn of(preset: Preset) -> RetryPolicyParts {
        let meaning = preset.meaning();
        RetryPolicyParts {
            preset,
            schedule: meaning.schedule,
            jitter: meaning.jitter,
            max_attempts: meaning.max_attempts,
            max_age: meaning.max_age,
            permanent: None,
        }
    }
}

/// When and how often to try again. Valid once it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy(RetryPolicyParts);

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy(RetryPolicyParts::of(Preset::Exponential))
    }
}

impl RetryPolicy {
    /// Checks the fields.
    ///
    /// # Errors
    /// [`PolicyError`] names the first field that breaks its rule.
    pub fn try_new(parts: RetryPolicyParts) -> Result<RetryPolicy, PolicyError> {
        check_ladder(&parts.schedule)?;
        if !(1..=MAX_ATTEMPTS).contains(&parts.max_attempts) {
            return Err(PolicyError::MaxAttempts);
        }
        if parts.max_age < MAX_AGE_RANGE.0 || parts.max_age > MAX_AGE_RANGE.1 {
            return Err(PolicyError::MaxAge);
        }
        let codes = parts.permanent.as_deref().unwrap_or_default();
        if codes.len() > 300 || codes.iter().any(|code| !(300..=599).contains(code)) {
            return Err(PolicyError::PermanentStatuses);
        }
        Ok(RetryPolicy(parts))
    }

    /// The fields.
    #[must_use]
    pub fn parts(&self) -> &RetryPolicyParts {
        &self.0
    }

    /// The most attempts.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.0.max_attempts
    }

    /// How long a delivery is tried.
    #[must_use]
    pub fn max_age(&self) -> Duration {
        self.0.max_age
    }

    /// Whether this status ends a delivery at once.
    #[must_use]
    pub fn is_permanent(&self, status: u16) -> bool {
        match &self.0.permanent {
            Some(own) => own.contains(&status),
            None => DEFAULT_PERMANENT.contains(&status),
        }
    }

    /// The earliest time of the attempt after `attempt`, which failed at `now`.
    pub fn next_attempt_at(&self, attempt: u32, now: UnixMillis, rng: &mut impl Rng) -> UnixMillis {
        now + self.0.jitter.draw(self.0.schedule.ceiling(attempt), rng)
    }
}

fn check_ladder(schedule: &Schedule) -> Result<(), PolicyError> {
    let Schedule::Ladder(rungs) = schedule else {
        return Ok(());
    };
    let bounds = Duration::from_millis(1)..=super::backoff::MAX_DELAY;
    let fits = (1..MAX_ATTEMPTS as usize).contains(&rungs.len());
    if !fits || !rungs.iter().all(|rung| bounds.contains(rung)) {
        return Err(PolicyError::Ladder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    #[test]
    fn presets_are_valid_and_last_as_long_as_they_say() {
        for preset in Preset::ALL {
            let policy = RetryPolicy::try_new(RetryPolicyParts::of(preset)).unwrap();
            let total: Duration = (1..policy.max_attempts())
                .map(|attempt| policy.parts().schedule.ceiling(attempt) * 11 / 10)
                .sum();
            assert!(
                total < policy.max_age(),
                "{preset:?} ends within its max_age"
            );
        }
        let standard = RetryPolicyParts::of(Preset::Standard);
        let hours: u64 = (1..10)
            .map(|n| standard.schedule.ceiling(n).as_secs())
            .sum();
        assert_eq!((hours, standard.max_attempts), (272_105, 10));
    }

    #[test]
    fn a_ladder_repeats_its_last_rung() {
        let ladder = Schedule::Ladder(vec![Duration::from_secs(1), Duration::from_secs(9)]);
        let delays: Vec<u64> = [1, 2, 3, u32::MAX]
            .map(|n| ladder.ceiling(n).as_secs())
            .to_vec();
        assert_eq!(delays, [1, 9, 9, 9]);
    }

    #[test]
    fn fields_out_of_bounds_are_named() {
        let with = |change: fn(&mut RetryPolicyParts)| {
            let mut parts = RetryPolicyParts::of(Preset::Exponential);
            change(&mut parts);
            RetryPolicy::try_new(parts).unwrap_err()
        };
        assert_eq!(with(|p| p.max_attempts = 0), PolicyError::MaxAttempts);
        assert_eq!(with(|p| p.max_attempts = 65), PolicyError::MaxAttempts);
        assert_eq!(with(|p| p.max_age = Duration::ZERO), PolicyError::MaxAge);
        assert_eq!(
            with(|p| p.schedule = Schedule::Ladder(vec![])),
            PolicyError::Ladder
        );
        assert_eq!(
            with(|p| p.permanent = Some(vec![200])),
            PolicyError::PermanentStatuses
        );
    }

    proptest! {
        #[test]
        fn no_delay_is_above_its_ceiling(attempt in any::<u32>(), seed in any::<u64>()) {
            let mut rng = Pcg64::seed_from_u64(seed);
            for preset in Preset::ALL {
                let policy = RetryPolicy::try_new(RetryPolicyParts::of(preset)).unwrap();
                let ceiling = policy.parts().schedule.ceiling(attempt);
                let waited = policy.next_attempt_at(attempt, NOW, &mut rng).since(NOW);
                let top = if policy.parts().jitter == Jitter::Full { ceiling } else { ceiling * 11 / 10 };
                prop_assert!(waited <= top);
            }
        }
    }
}
