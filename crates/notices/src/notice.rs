//! What there is to tell.

use posthorn_delivery::breaker::{BreakerState, Phase};
use posthorn_delivery::ids::hash128;
use posthorn_delivery::{
    DeadLetter, DisabledReason, Endpoint, EndpointId, EventId, LetterId, MessageId, Reason, Tenant,
    UnixMillis,
};
use std::time::Duration;

/// What happened, in ids, reasons, counts and times: no secret, no payload, no URL.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A delivery was given up, or several were.
    DeadLetter(Letters),
    /// An endpoint is cut off.
    BreakerOpened {
        /// Which.
        of: Of,
        /// When it left Closed.
        opened_at: UnixMillis,
        /// When it is tried again.
        open_until: UnixMillis,
        /// Why, in words.
        reason: String,
    },
    /// An endpoint is sent to again.
    BreakerClosed {
        /// Which.
        of: Of,
        /// When it had left Closed, where that is known.
        opened_at: Option<UnixMillis>,
        /// The generation of the state that it is in now.
        generation: u64,
        /// Why, in words.
        reason: String,
    },
    /// Posthorn has switched an endpoint off. What an operator switches off he knows.
    EndpointDisabled {
        /// Which.
        of: Of,
        /// Why.
        reason: DisabledReason,
        /// When.
        since: UnixMillis,
    },
    /// An endpoint has been cut off for long.
    EndpointFailing {
        /// Which.
        of: Of,
        /// Since when.
        since: UnixMillis,
    },
    /// There are many more dead letters than a while ago.
    DlqGrowing {
        /// How many there are.
        letters: u64,
        /// How many more.
        more: u64,
        /// Than so long ago.
        within: Duration,
    },
    /// What is due is not sent.
    DueLate {
        /// For how long the oldest has been due.
        oldest: Duration,
    },
}

/// The endpoint that something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// Whose.
    pub tenant: Tenant,
    /// Which.
    pub endpoint: EndpointId,
}

impl Of {
    fn endpoint(endpoint: &Endpoint) -> Of {
        Of {
            tenant: endpoint.tenant.clone(),
            endpoint: endpoint.id.clone(),
        }
    }
}

/// One dead letter, or how many there were of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Letters {
    /// Whose; `None` where what was published has no valid tenant, or there were several.
    pub tenant: Option<Tenant>,
    /// Of which endpoint; `None` where it never came to one, or there were several.
    pub endpoint: Option<EndpointId>,
    /// How many it stands for.
    pub count: u64,
    /// How many of each reason; none that is 0.
    pub reasons: Vec<(Reason, u64)>,
    /// When the first of them died.
    pub first_at: UnixMillis,
    /// When the last did.
    pub last_at: UnixMillis,
    /// The one letter, where it is one.
    pub letter: Option<One>,
    /// What its id is made of.
    pub key: MessageId,
}

/// One dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct One {
    /// Its id.
    pub id: LetterId,
    /// The event; empty where it had none.
    pub event_id: String,
    /// The event's type; empty where it had none.
    pub event_type: String,
    /// Attempts over all its lives, as far as it remembers them.
    pub attempts: usize,
}

impl Notice {
    /// Of a letter. `key` is the id of the message that carries it, so that each death is told
    /// of once. `None` for letters of the reserved tenant.
    #[must_use]
    pub fn of_letter(letter: &DeadLetter, key: MessageId) -> Option<Notice> {
        let tenant = Tenant::parse_any(&letter.tenant).ok();
        if tenant.as_ref().is_some_and(Tenant::is_system) {
            return None;
        }
        Some(Notice::DeadLetter(Letters {
            tenant,
            endpoint: letter.endpoint_id.clone(),
            count: 1,
            reasons: vec![(letter.reason, 1)],
            first_at: letter.died_at,
            last_at: letter.died_at,
            letter: Some(One {
                id: letter.id.clone(),
                event_id: letter.event_id.clone(),
                event_type: letter.event_type.clone(),
                attempts: letter.history.len(),
            }),
            key,
        }))
    }

    /// Of a breaker that moved. A probe that fails moves it and is nothing new: an endpoint is
    /// cut off once and let in once.
    #[must_use]
    pub fn of_breaker(
        endpoint: &Endpoint,
        before: &BreakerState,
        after: &BreakerState,
    ) -> Option<Notice> {
        match (before.phase, after.phase) {
            (Phase::Closed, Phase::Open) => Some(opened(endpoint, after)),
            (Phase::Open | Phase::HalfOpen, Phase::Closed) => {
                Some(closed(endpoint, after, before.opened_at))
            }
            _ => None,
        }
    }

    /// Of an endpoint that is disabled.
    #[must_use]
    pub fn of_disabled(endpoint: &Endpoint) -> Option<Notice> {
        let (reason, since) = endpoint.disabled?;
        let by_itself = matches!(reason, DisabledReason::Breaker | DisabledReason::Gone);
        by_itself.then(|| Notice::EndpointDisabled {
            of: Of::endpoint(endpoint),
            reason,
            since,
        })
    }

    /// Of an endpoint whose breaker has not been closed since `since`.
    #[must_use]
    pub fn of_failing(endpoint: &Endpoint, since: UnixMillis) -> Notice {
        Notice::EndpointFailing {
            of: Of::endpoint(endpoint),
            since,
        }
    }

    /// Its type, which operators subscribe to.
    #[must_use]
    pub fn event_type(&self) -> &'static str {
        match self {
            Notice::DeadLetter(_) => "posthorn.dead_letter.created",
            Notice::BreakerOpened { .. } => "posthorn.breaker.opened",
            Notice::BreakerClosed { .. } => "posthorn.breaker.closed",
            Notice::EndpointDisabled { .. } => "posthorn.endpoint.disabled",
            Notice::EndpointFailing { .. } => "posthorn.endpoint.failing",
            Notice::DlqGrowing { .. } => "posthorn.dlq.growing",
            Notice::DueLate { .. } => "posthorn.due.late",
        }
    }

    /// Whether it is about the reserved tenant's own: then nobody is told.
    #[must_use]
    pub fn is_about_itself(&self) -> bool {
        match self {
            Notice::DeadLetter(letters) => letters.tenant.as_ref().is_some_and(Tenant::is_system),
            Notice::BreakerOpened { of, .. }
            | Notice::BreakerClosed { of, .. }
            | Notice::EndpointDisabled { of, .. }
            | Notice::EndpointFailing { of, .. } => of.tenant.is_system(),
            Notice::DlqGrowing { .. } | Notice::DueLate { .. } => false,
        }
    }

    /// The id of its event: the same for whoever tells of the same thing. What has no beginning
    /// of its own is told of once in an hour of the clock, `now`.
    #[must_use]
    pub fn id(&self, now: UnixMillis) -> EventId {
        let hour = now.0.div_euclid(3_600_000);
        EventId::from_bits(match self {
            Notice::DeadLetter(letters) => self.bits(&[letters.key.as_str().as_bytes()]),
            Notice::BreakerOpened { of, opened_at, .. } => self.about(of, opened_at.0),
            Notice::BreakerClosed { of, generation, .. } => {
                self.about(of, i64::try_from(*generation).unwrap_or(i64::MAX))
            }
            Notice::EndpointDisabled { of, since, .. } | Notice::EndpointFailing { of, since } => {
                self.about(of, since.0)
            }
            Notice::DlqGrowing { .. } | Notice::DueLate { .. } => self.bits(&[&hour.to_be_bytes()]),
        })
    }

    fn about(&self, of: &Of, which: i64) -> u128 {
        let which = which.to_be_bytes();
        self.bits(&[
            of.tenant.as_str().as_bytes(),
            of.endpoint.as_str().as_bytes(),
            &which,
        ])
    }

    fn bits(&self, parts: &[&[u8]]) -> u128 {
        let kind = self.event_type().as_bytes();
        let parts: Vec<&[u8]> = std::iter::once(kind).chain(parts.iter().copied()).collect();
        hash128("notice", &parts)
    }
}

fn opened(endpoint: &Endpoint, state: &BreakerState) -> Notice {
    Notice::BreakerOpened {
        of: Of::endpoint(endpoint),
        opened_at: state.opened_at,
        open_until: state.open_until,
        reason: state.reason.clone(),
    }
}

fn closed(endpoint: &Endpoint, state: &BreakerState, opened_at: UnixMillis) -> Notice {
    Notice::BreakerClosed {
        of: Of::endpoint(endpoint),
        opened_at: (!opened_at.is_unset()).then_some(opened_at),
        generation: state.generation,
        reason: state.reason.clone(),
    }
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
