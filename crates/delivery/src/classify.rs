//! What an outcome means.
//!
//! | outcome | class |
//! |---|---|
//! | 2xx | success, whatever the body is |
//! | 410 | gone: the endpoint is disabled |
//! | the endpoint's permanent statuses | permanent |
//! | everything else, 3xx included, and every transport failure | transient |
//! | a forbidden address, a request that cannot be signed | impossible |

use crate::breaker::BreakerSignal;
use crate::letter::Reason;
use crate::outcome::{Failure, Outcome};
use crate::retry::{RetryAfter, RetryPolicy};

/// What an outcome means for its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It was delivered.
    Success,
    /// Asking again may help.
    Transient,
    /// It may help at once: the request never reached an application.
    NotSent,
    /// Asking again will not help.
    Dead(Reason),
}

/// Classifies an outcome under an endpoint's policy.
#[must_use]
pub fn classify(outcome: &Outcome, policy: &RetryPolicy) -> Class {
    match outcome {
        Outcome::Status {
            code: 200..=299, ..
        } => Class::Success,
        Outcome::Status { code: 410, .. } => Class::Dead(Reason::Gone),
        Outcome::Status { code, .. } if policy.is_permanent(*code) => {
            Class::Dead(Reason::PermanentStatus)
        }
        Outcome::Status { .. } => Class::Transient,
        Outcome::Failed(failure) => classify_failure(*failure),
    }
}

fn classify_failure(failure: Failure) -> Class {
    match failure {
        Failure::EgressDenied => Class::Dead(Reason::EgressDenied),
        Failure::Unsignable => Class::Dead(Reason::Unsignable),
        Failure::Expired => Class::Dead(Reason::Expired),
        Failure::EndpointDeleted => Class::Dead(Reason::EndpointDeleted),
        Failure::EndpointGone => Class::Dead(Reason::Gone),
        Failure::BacklogFull => Class::Dead(Reason::BacklogFull),
        Failure::StaleConnection | Failure::GoAway | Failure::Local => Class::NotSent,
        _ => Class::Transient,
    }
}

/// What an outcome tells the breaker: a receiver that answers is up, even when it says no; one
/// that asks for quiet is not down; a connection that went stale, or our own lack of sockets,
/// says nothing about it.
#[must_use]
pub fn breaker_signal(outcome: &Outcome, class: Class) -> BreakerSignal {
    match (outcome, class) {
        (Outcome::Status { .. }, Class::Success | Class::Dead(_)) => BreakerSignal::Success,
        (
            Outcome::Status { code: 429, .. }
            | Outcome::Status {
                retry_after: Some(_),
                ..
            },
            _,
        ) => BreakerSignal::Neutral,
        (Outcome::Status { .. }, _) | (Outcome::Failed(_), Class::Transient) => {
            BreakerSignal::Failure
        }
        (Outcome::Failed(_), _) => BreakerSignal::Neutral,
    }
}

/// The quiet that the receiver asked for on behalf of the whole endpoint.
#[must_use]
pub fn endpoint_hold(outcome: &Outcome) -> Option<RetryAfter> {
    match outcome {
        Outcome::Status {
            code: 429 | 503,
            retry_after,
        } => *retry_after,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn class(code: u16) -> Class {
        classify(
            &Outcome::Status {
                code,
                retry_after: None,
            },
            &RetryPolicy::default(),
        )
    }

    #[test]
    fn statuses_are_classified_as_documented() {
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(class(code), Class::Success, "{code}");
        }
        for code in [400, 404, 405, 413, 414, 415, 422, 431] {
            assert_eq!(class(code), Class::Dead(Reason::PermanentStatus), "{code}");
        }
        for code in [
            301, 302, 303, 307, 308, 401, 403, 408, 409, 425, 429, 500, 502, 503, 504, 599,
        ] {
            assert_eq!(class(code), Class::Transient, "{code}");
        }
        assert_eq!(class(410), Class::Dead(Reason::Gone));
    }

    #[test]
    fn http_07_every_network_failure_is_retried() {
        for failure in [
            Failure::Dns,
            Failure::Connect,
            Failure::Tls,
            Failure::Timeout,
            Failure::Reset,
            Failure::MalformedResponse,
        ] {
            let outcome = Outcome::Failed(failure);
            let class = classify(&outcome, &RetryPolicy::default());
            assert_eq!(class, Class::Transient, "{failure}");
            assert_eq!(
                breaker_signal(&outcome, class),
                BreakerSignal::Failure,
                "{failure}"
            );
        }
    }

    #[test]
    fn http_03_http_04_http_08_local_and_connection_level_trouble_does_not_count() {
        for failure in [Failure::StaleConnection, Failure::GoAway, Failure::Local] {
            let outcome = Outcome::Failed(failure);
            let class = classify(&outcome, &RetryPolicy::default());
            assert_eq!(
                (class, breaker_signal(&outcome, class)),
                (Class::NotSent, BreakerSignal::Neutral)
            );
        }
    }

    #[test]
    fn asking_for_quiet_is_not_being_down() {
        let quiet = Some(RetryAfter::Delay(Duration::from_secs(1)));
        let signal = |code, retry_after| {
            let outcome = Outcome::Status { code, retry_after };
            breaker_signal(&outcome, classify(&outcome, &RetryPolicy::default()))
        };
        assert_eq!(signal(429, None), BreakerSignal::Neutral);
        assert_eq!(signal(503, quiet), BreakerSignal::Neutral);
        assert_eq!(signal(500, quiet), BreakerSignal::Neutral);
        assert_eq!(signal(503, None), BreakerSignal::Failure);
        assert_eq!(signal(302, None), BreakerSignal::Failure);
        assert_eq!(signal(404, None), BreakerSignal::Success);
        assert_eq!(
            endpoint_hold(&Outcome::Status {
                code: 500,
                retry_after: quiet
            }),
            None
        );
        assert_eq!(
            endpoint_hold(&Outcome::Status {
                code: 503,
                retry_after: quiet
            }),
            quiet
        );
    }
}
