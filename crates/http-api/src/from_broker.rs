//! What a failure of the broker means to a client, decided in this one place.

use crate::problem::Problem;
use axum::http::StatusCode;
use posthorn_broker::BrokerError;
use std::time::Duration;

/// A stream that is full empties as fast as deliveries succeed.
const FULL_WAIT: Duration = Duration::from_secs(5);
/// A cluster has chosen a new leader, or a connection is back, in about this time.
const AWAY_WAIT: Duration = Duration::from_secs(2);

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Problem {
        match &error {
            BrokerError::Full => {
                let detail = "there is no room for more at the moment, and nothing was stored";
                Problem::unavailable("full", detail, FULL_WAIT)
            }
            BrokerError::TimedOut | BrokerError::Unreachable(_) => {
                let detail = "the broker does not answer; the same request may be repeated";
                Problem::unavailable("unavailable", detail, AWAY_WAIT)
            }
            // A restarting or leaderless server refuses in many ways; all of them pass.
            BrokerError::Refused(_) | BrokerError::NoJetStream(_) | BrokerError::Missing(_) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the broker refused"
                );
                let detail = "the broker refuses at the moment; the same request may be repeated";
                Problem::unavailable("unavailable", detail, AWAY_WAIT)
            }
            BrokerError::Conflict => {
                Problem::conflict("conflict", "it has been changed meanwhile; read it again")
            }
            BrokerError::TooLarge => {
                let detail = "with its headers the message is larger than the broker takes";
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            }
            BrokerError::Undecodable(_) | BrokerError::Settings(_) | BrokerError::TooOld { .. } => {
                tracing::error!(error = &error as &dyn std::error::Error, "a request failed");
                Problem::internal()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_status() {
        let table = [
            (BrokerError::Full, 503),
            (BrokerError::TimedOut, 503),
            (BrokerError::Unreachable("inside".into()), 503),
            (BrokerError::Refused("inside".into()), 503),
            (BrokerError::Conflict, 409),
            (BrokerError::TooLarge, 413),
            (BrokerError::Settings("inside".to_owned()), 500),
        ];
        for (error, status) in table {
            let problem = Problem::from(error);
            assert_eq!(problem.status().as_u16(), status);
            assert!(!problem.detail().contains("inside"));
        }
    }
}
