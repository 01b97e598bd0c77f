//! What an owner hears of its endpoint's answers.
//!
//! Records of attempts are published like anything else, so whoever listens on their subject
//! hears of each as it is stored, at no cost to anybody else. What is heard steers; what must
//! be certain is counted or read.

use posthorn_broker::{Answers, BrokerError, LaneStore};
use posthorn_delivery::attempt::AttemptResult;
use posthorn_delivery::ramp::Answer;
use posthorn_delivery::{Attempt, BreakerSignal, EndpointId, Failure, Tenant};
use std::time::Duration;

/// Heard from when something is let go for the first time.
pub(crate) enum Hearing {
    Not,
    Hears(Answers),
}

impl Hearing {
    pub async fn begin(
        &mut self,
        store: &LaneStore,
        tenant: &Tenant,
        endpoint: &EndpointId,
    ) -> Result<(), BrokerError> {
        if matches!(self, Hearing::Not) {
            *self = Hearing::Hears(store.answers(tenant, endpoint).await?);
        }
        Ok(())
    }

    /// The next answer; never, where nothing is heard. One to a test send is passed over: no
    /// owner has let it go.
    pub async fn next(&mut self) -> Attempt {
        if let Hearing::Hears(answers) = self {
            while let Some(attempt) = answers.next().await {
                if !is_of_a_test(&attempt) {
                    return attempt;
                }
            }
            // The connection ended; the next release listens anew.
            *self = Hearing::Not;
        }
        std::future::pending().await
    }

    /// An answer that is here already.
    pub fn ready(&mut self) -> Option<Attempt> {
        match self {
            Hearing::Not => None,
            Hearing::Hears(answers) => loop {
                let attempt = answers.ready()?;
                if !is_of_a_test(&attempt) {
                    return Some(attempt);
                }
            },
        }
    }
}

fn is_of_a_test(attempt: &Attempt) -> bool {
    attempt.exchange.is_some()
}

/// What an answer says about the endpoint; nothing where no request was made.
pub(crate) fn about_the_endpoint(attempt: &Attempt) -> Option<Answer> {
    if let AttemptResult::Error(failure) = attempt.result
        && was_not_sent(failure)
    {
        return None;
    }
    // Kept in whole milliseconds, of which the fastest endpoints need none.
    let latency = Duration::from_millis(u64::from(attempt.latency_ms.max(1)));
    let good = attempt.breaker_signal == BreakerSignal::Success;
    Some(Answer { latency, good })
}

fn was_not_sent(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Expired
            | Failure::EndpointDeleted
            | Failure::EndpointGone
            | Failure::EgressDenied
            | Failure::Unsignable
            | Failure::BacklogFull
            | Failure::Local
    )
}
