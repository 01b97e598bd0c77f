//! The decision after an attempt.
//!
//! It leaves the dispatcher no choices: what happens to the delivery, to its endpoint and to
//! its breaker is all in the answer, and all of it is recorded before any of it is done.

use crate::attempt::Disposition;
use crate::breaker::BreakerSignal;
use crate::classify::{Class, breaker_signal, classify, endpoint_hold};
use crate::delivery::{Delivery, ReleaseMark};
use crate::letter::Reason;
use crate::outcome::{Failure, Outcome};
use crate::retry::{RetryAfter, RetryPolicy};
use crate::time::UnixMillis;
use rand::{Rng, RngExt};
use std::time::Duration;

/// How often one attempt number may be repeated at once after a connection that was never
/// used. More than one would be a retry loop outside the schedule.
pub const MAX_STALE_RETRIES: u32 = 1;

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// With the delivery.
    pub disposition: Disposition,
    /// With the breaker.
    pub breaker_signal: BreakerSignal,
    /// Leave the whole endpoint alone until then.
    pub hold_until: Option<UnixMillis>,
    /// Disable the endpoint: it said that it is gone.
    pub disable_endpoint: bool,
}

/// Decides what follows from `outcome`, the answer to the attempt that `delivery` stands
/// before, at `now`.
pub fn decide(
    delivery: &Delivery,
    policy: &RetryPolicy,
    outcome: &Outcome,
    now: UnixMillis,
    rng: &mut impl Rng,
) -> Decision {
    let class = classify(outcome, policy);
    if delivery.test {
        return without_consequences(delivery, class, now, rng);
    }
    let disposition = match class {
        Class::Success => Disposition::Complete,
        Class::Dead(reason) => Disposition::Dead(reason),
        Class::NotSent if *outcome == Outcome::Failed(Failure::Local) => {
            wait_for_means(delivery, now, rng)
        }
        Class::NotSent if delivery.stale_retries < MAX_STALE_RETRIES => repeat(now, rng),
        Class::NotSent | Class::Transient => retry(delivery, policy, outcome, now, rng),
    };
    Decision {
        disposition,
        breaker_signal: signal(delivery, outcome, class),
        hold_until: endpoint_hold(outcome).map(|asked| now + asked.wait_from(now)),
        disable_endpoint: class == Class::Dead(Reason::Gone),
    }
}

/// A test send is tried once and moves neither breaker nor endpoint: whoever asked for it looks
/// at the answer and decides. A connection that had gone stale is no answer.
fn without_consequences(
    delivery: &Delivery,
    class: Class,
    now: UnixMillis,
    rng: &mut impl Rng,
) -> Decision {
    let stale = delivery.stale_retries < MAX_STALE_RETRIES;
    Decision {
        disposition: match class {
            Class::Success => Disposition::Complete,
            Class::Dead(reason) => Disposition::Dead(reason),
            Class::NotSent if stale => repeat(now, rng),
            Class::NotSent | Class::Transient => Disposition::Dead(Reason::Exhausted),
        },
        breaker_signal: BreakerSignal::Neutral,
        hold_until: None,
        disable_endpoint: false,
    }
}

/// A connection that fails under us once says nothing about the receiver; one that fails again
/// on the repeat does. A receiver that shuts down whatever connection is opened takes nothing,
/// however politely it says so, and would otherwise be asked at full rate for ever.
fn signal(delivery: &Delivery, outcome: &Outcome, class: Class) -> BreakerSignal {
    let again = delivery.stale_retries >= MAX_STALE_RETRIES;
    match outcome {
        Outcome::Failed(Failure::StaleConnection | Failure::GoAway) if again => {
            BreakerSignal::Failure
        }
        _ => breaker_signal(outcome, class),
    }
}

/// The same attempt again, soon: no application saw the request.
fn repeat(now: UnixMillis, rng: &mut impl Rng) -> Disposition {
    let pause = Duration::from_millis(rng.random_range(50..=250));
    Disposition::Retry {
        not_before: now + pause,
        same_attempt: true,
    }
}

/// The same attempt again when this machine may have means for it: its lack of them is no
/// failure of the endpoint, however often it comes. Only the delivery's age ends it. The pauses
/// double up to a minute, so that what waits is no load of its own.
fn wait_for_means(delivery: &Delivery, now: UnixMillis, rng: &mut impl Rng) -> Disposition {
    let ceiling = 1_000 << delivery.stale_retries.min(6);
    let pause = rng.random_range(ceiling / 2..=ceiling.min(60_000));
    let not_before = now + Duration::from_millis(pause);
    if not_before >= delivery.expires_at {
        return Disposition::Dead(Reason::Expired);
    }
    Disposition::Retry {
        not_before,
        same_attempt: true,
    }
}

fn retry(
    delivery: &Delivery,
    policy: &RetryPolicy,
    outcome: &Outcome,
    now: UnixMillis,
    rng: &mut impl Rng,
) -> Disposition {
    if delivery.attempt >= policy.max_attempts() {
        return Disposition::Dead(Reason::Exhausted);
    }
    let scheduled = policy.next_attempt_at(delivery.attempt, now, rng);
    let not_before = match retry_after(outcome) {
        Some(asked) => asked.not_before(scheduled, now, rng),
        None => scheduled,
    };
    if not_before >= delivery.expires_at {
        return Disposition::Dead(Reason::Expired);
    }
    Disposition::Retry {
        not_before,
        same_attempt: false,
    }
}

fn retry_after(outcome: &Outcome) -> Option<RetryAfter> {
    match outcome {
        Outcome::Status { retry_after, .. } => *retry_after,
        Outcome::Failed(_) => None,
    }
}

/// The successor of `delivery` after an attempt whose disposition is a retry at `not_before`.
#[must_use]
pub fn successor(delivery: Delivery, not_before: UnixMillis, same_attempt: bool) -> Delivery {
    let mut next = delivery.deferred(not_before);
    next.release = ReleaseMark::default();
    if same_attempt {
        next.stale_retries = next.stale_retries.saturating_add(1);
    } else {
        next.attempt = next.attempt.saturating_add(1);
        next.stale_retries = 0;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{Preset, RetryPolicyParts};
    use crate::testing::{NOW, delivery};
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    fn after(delivery: &Delivery, outcome: &Outcome) -> Decision {
        decide(
            delivery,
            &RetryPolicy::default(),
            outcome,
            NOW,
            &mut Pcg64::seed_from_u64(7),
        )
    }

    fn status(code: u16, retry_after: Option<u64>) -> Outcome {
        let retry_after = retry_after.map(|s| RetryAfter::Delay(Duration::from_secs(s)));
        Outcome::Status { code, retry_after }
    }

    #[test]
    fn bo_02_the_last_attempt_is_the_last() {
        let mut delivery = delivery();
        let mut attempts = 0;
        loop {
            attempts += 1;
            match after(&delivery, &status(403, None)).disposition {
                Disposition::Retry {
                    not_before,
                    same_attempt,
                } => {
                    delivery = successor(delivery, not_before, same_attempt);
                }
                end => break assert_eq!(end, Disposition::Dead(Reason::Exhausted)),
            }
        }
        assert_eq!(attempts, 16);
    }

    #[test]
    fn a_test_send_is_made_once_and_moves_nothing() {
        let mut test = delivery();
        test.test = true;
        for (outcome, reason) in [
            (status(503, Some(20)), Reason::Exhausted),
            (status(410, None), Reason::Gone),
            (Outcome::Failed(Failure::Timeout), Reason::Exhausted),
            (Outcome::Failed(Failure::EgressDenied), Reason::EgressDenied),
        ] {
            let decision = after(&test, &outcome);
            assert_eq!(decision.disposition, Disposition::Dead(reason));
            assert_eq!(decision.breaker_signal, BreakerSignal::Neutral);
            assert_eq!(decision.hold_until, None);
            assert!(!decision.disable_endpoint);
        }
        let answered = after(&test, &status(200, None));
        assert_eq!(answered.disposition, Disposition::Complete);
        let stale = Outcome::Failed(Failure::StaleConnection);
        let Disposition::Retry { not_before, .. } = after(&test, &stale).disposition else {
            panic!("no application saw it")
        };
        let again = successor(test, not_before, true);
        assert!(again.test);
        let end = Disposition::Dead(Reason::Exhausted);
        assert_eq!(after(&again, &stale).disposition, end);
    }

    #[test]
    fn retry_after_holds_the_endpoint_on_429_and_503_only() {
        for (code, holds) in [(429, true), (503, true), (500, false)] {
            let decision = after(&delivery(), &status(code, Some(20)));
            assert_eq!(decision.hold_until.is_some(), holds, "{code}");
            let Disposition::Retry { not_before, .. } = decision.disposition else {
                panic!()
            };
            assert!(not_before >= NOW + Duration::from_secs(20));
        }
    }

    #[test]
    fn what_cannot_be_attempted_in_time_expires_now() {
        let mut delivery = delivery();
        delivery.expires_at = NOW + Duration::from_secs(60);
        let decision = after(&delivery, &status(503, Some(61)));
        assert_eq!(decision.disposition, Disposition::Dead(Reason::Expired));
    }

    #[test]
    fn http_03_a_stale_connection_is_repeated_once_and_soon_and_spends_nothing() {
        let outcome = Outcome::Failed(Failure::StaleConnection);
        let first = delivery();
        let Disposition::Retry {
            not_before,
            same_attempt: true,
        } = after(&first, &outcome).disposition
        else {
            panic!("repeated as the same attempt")
        };
        assert!(not_before <= NOW + Duration::from_millis(250));
        let second = successor(first, not_before, true);
        assert_eq!(
            (second.attempt, second.stale_retries, second.hop),
            (1, 1, 1)
        );
        let again = after(&second, &outcome);
        let Disposition::Retry { same_attempt, .. } = again.disposition else {
            panic!("then it follows the schedule")
        };
        assert!(!same_attempt);
        assert_eq!(again.breaker_signal, BreakerSignal::Failure);
    }

    #[test]
    fn http_04_one_goaway_blames_nobody_and_the_next_one_on_the_repeat_does() {
        let outcome = Outcome::Failed(Failure::GoAway);
        let mut next = delivery();
        for attempt in 1..=3 {
            let first = after(&next, &outcome);
            assert_eq!(first.breaker_signal, BreakerSignal::Neutral);
            let Disposition::Retry {
                not_before,
                same_attempt: true,
            } = first.disposition
            else {
                panic!("repeated at once, as no application saw it")
            };
            let repeat = successor(next, not_before, true);
            let again = after(&repeat, &outcome);
            assert_eq!(again.breaker_signal, BreakerSignal::Failure);
            let Disposition::Retry {
                not_before,
                same_attempt: false,
            } = again.disposition
            else {
                panic!("then it follows the schedule")
            };
            assert_eq!(repeat.attempt, attempt);
            next = successor(repeat, not_before, false);
        }
    }

    #[test]
    fn http_08_our_own_lack_of_sockets_spends_no_attempt_however_often_it_comes() {
        let outcome = Outcome::Failed(Failure::Local);
        let mut delivery = delivery();
        for _ in 0..100 {
            let decision = after(&delivery, &outcome);
            assert_eq!(decision.breaker_signal, BreakerSignal::Neutral);
            let Disposition::Retry {
                not_before,
                same_attempt: true,
            } = decision.disposition
            else {
                panic!("{:?}", decision.disposition)
            };
            let pause = not_before.since(NOW);
            let longest = 1 << delivery.stale_retries.min(6);
            assert!(pause >= Duration::from_millis(500) * longest);
            assert!(pause <= Duration::from_secs(60));
            delivery = successor(delivery, not_before, true);
            assert_eq!(delivery.attempt, 1);
        }
        delivery.expires_at = NOW + Duration::from_millis(1);
        let end = after(&delivery, &outcome).disposition;
        assert_eq!(end, Disposition::Dead(Reason::Expired));
    }

    #[test]
    fn fan_05_gone_disables_and_404_does_not() {
        let gone = after(&delivery(), &status(410, None));
        assert_eq!(
            (gone.disposition, gone.disable_endpoint),
            (Disposition::Dead(Reason::Gone), true)
        );
        let missing = after(&delivery(), &status(404, None));
        assert_eq!(
            missing.disposition,
            Disposition::Dead(Reason::PermanentStatus)
        );
        assert!(!missing.disable_endpoint);
    }

    #[test]
    fn js_02_bo_05_the_first_retries_are_uniform_over_the_base() {
        let mut rng = Pcg64::seed_from_u64(42);
        let mut policy = RetryPolicyParts::of(Preset::Exponential);
        policy.max_attempts = 2;
        let policy = RetryPolicy::try_new(policy).unwrap();
        let mut waits: Vec<f64> = (0..2_000)
            .map(|_| {
                match decide(&delivery(), &policy, &status(500, None), NOW, &mut rng).disposition {
                    Disposition::Retry { not_before, .. } => {
                        not_before.since(NOW).as_secs_f64() / 2.0
                    }
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        waits.sort_by(f64::total_cmp);
        let n = waits.len() as f64;
        let distance = waits.iter().enumerate().fold(0.0_f64, |worst, (i, x)| {
            worst
                .max((x - i as f64 / n).abs())
                .max((x - (i + 1) as f64 / n).abs())
        });
        // The Kolmogorov-Smirnov critical value for p = 0.01 is 1.63 / sqrt(n).
        assert!(distance < 1.63 / n.sqrt(), "KS distance {distance}");
    }
}
