//! What a breaker knows.

use crate::time::UnixMillis;
use std::time::Duration;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    failure_threshold: u32,
    cooldown: Duration,
    max_cooldown: Duration,
}

/// A breaker policy out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "breaker.failure_threshold is from 1 to 1000, and breaker.cooldown is at least 10ms and at \
     most breaker.max_cooldown, which is at most 24h"
)]
pub struct BreakerPolicyError;

impl Default for BreakerPolicy {
    fn default() -> BreakerPolicy {
        BreakerPolicy {
            failure_threshold: 5,
            cooldown: Duration::from_secs(30),
            max_cooldown: Duration::from_secs(15 * 60),
        }
    }
}

impl BreakerPolicy {
    /// A policy that opens after `failure_threshold` consecutive failures for `cooldown`,
    /// doubled by each failed probe up to `max_cooldown`.
    ///
    /// # Errors
    /// [`BreakerPolicyError`] states the bounds.
    pub fn try_new(
        failure_threshold: u32,
        cooldown: Duration,
        max_cooldown: Duration,
    ) -> Result<BreakerPolicy, BreakerPolicyError> {
        let fits = (1..=1000).contains(&failure_threshold)
            && cooldown >= Duration::from_millis(10)
            && cooldown <= max_cooldown
            && max_cooldown <= Duration::from_secs(86_400);
        fits.then_some(BreakerPolicy {
            failure_threshold,
            cooldown,
            max_cooldown,
        })
        .ok_or(BreakerPolicyError)
    }

    /// Consecutive failures that open it.
    #[must_use]
    pub fn failure_threshold(&self) -> u32 {
        self.failure_threshold
    }

    /// The first cooldown.
    #[must_use]
    pub fn cooldown(&self) -> Duration {
        self.cooldown
    }

    /// The longest cooldown.
    #[must_use]
    pub fn max_cooldown(&self) -> Duration {
        self.max_cooldown
    }

    /// The cooldown after `failed_probes` probes have failed:
    /// `min(max_cooldown, cooldown * 2^failed_probes)`.
    #[must_use]
    pub fn cooldown_after(&self, failed_probes: u32) -> Duration {
        let factor = 1_u32.checked_shl(failed_probes.min(31)).unwrap_or(u32::MAX);
        self.cooldown.saturating_mul(factor).min(self.max_cooldown)
    }
}

/// The three states of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Deliveries flow.
    #[default]
    Closed,
    /// None does.
    Open,
    /// One does.
    HalfOpen,
}

impl Phase {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Closed => "closed",
            Phase::Open => "open",
            Phase::HalfOpen => "half_open",
        }
    }
}

/// The one delivery that a half-open breaker lets through.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// Its message id. It alone may be sent, also when it is redelivered.
    pub delivery: String,
    /// When the slot is free again if nothing was heard of it.
    pub lease_until: UnixMillis,
}

/// What an attempt says about the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerSignal {
    /// It is up.
    Success,
    /// It is not.
    Failure,
    /// Nothing.
    Neutral,
}

/// The state of one endpoint's breaker; the default is what an absent key means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BreakerState {
    /// Closed, open or half open.
    pub phase: Phase,
    /// Failures since the last success, while closed.
    pub consecutive_failures: u32,
    /// When it left Closed.
    pub opened_at: UnixMillis,
    /// When a probe may be claimed, while open.
    pub open_until: UnixMillis,
    /// Raised by every transition.
    pub generation: u64,
    /// The claimed probe, while half open.
    pub probe: Option<Probe>,
    /// Why it is where it is, in words.
    pub reason: String,
    /// Probes that failed since it left Closed.
    pub failed_probes: u32,
    /// `Retry-After` of the whole endpoint; zero when there is none.
    pub hold_until: UnixMillis,
    /// The target that this state is about.
    pub target_epoch: u64,
}

impl BreakerState {
    /// The state as it counts for a target: what is known of an older URL or secret says
    /// nothing about this one, so it reads as closed under a new generation. Every dispatcher
    /// comes to the same answer, without a write.
    #[must_use]
    pub fn for_target(&self, target_epoch: u64) -> BreakerState {
        if self.target_epoch >= target_epoch {
            return self.clone();
        }
        BreakerState {
            generation: self.generation + 1,
            target_epoch,
            reason: "the target changed".to_owned(),
            ..BreakerState::default()
        }
    }

    /// Whether a write would change nothing that an absent key does not say as well.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.phase == Phase::Closed && self.consecutive_failures == 0
    }
}
