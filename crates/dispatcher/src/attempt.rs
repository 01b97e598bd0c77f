//! The straight line of one attempt.

use crate::context::Context;
use crate::send::Answer;
use crate::settle::{self, Started};
use crate::slots::{Full, Slot};
use crate::{endpoints, prepared, send};
use posthorn_broker::{BrokerError, Incoming, Patience, Versioned, Waiting, Wire};
use posthorn_delivery::hold::held;
use posthorn_delivery::{
    Admission, BreakerState, Delivery, Endpoint, Failure, HoldReason, Outcome, UnixMillis, admit,
};
use posthorn_runtime::{rng, trace};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Walks one message to its end and acknowledges it, or gives it back.
pub(crate) async fn handle(context: &Context, message: &Incoming) {
    let delivery = match Delivery::from_wire(message.payload()) {
        Ok(delivery) => delivery,
        Err(error) => return settle::bury_unreadable(context, message, &error.to_string()).await,
    };
    let span = tracing::info_span!(
        "attempt",
        event = %delivery.event_id,
        endpoint = %delivery.endpoint_id,
        attempt = delivery.attempt,
    );
    if let Some(parent) = delivery
        .traceparent
        .as_deref()
        .and_then(trace::Traceparent::parse)
    {
        trace::link(&span, &parent);
    }
    let walked = async {
        walk(context, delivery).await?;
        message.ack().await
    };
    if let Err(error) = walked.instrument(span).await {
        tracing::warn!(%error, "an attempt could not be settled yet");
        message.nak(Some(Duration::from_secs(1))).await;
    }
}

/// Whether a delivery may be sent now.
enum Gate {
    Send {
        endpoint: Arc<Versioned<Endpoint>>,
        started: Started,
        slot: Slot,
    },
    Hold {
        endpoint: Arc<Versioned<Endpoint>>,
        reason: HoldReason,
        until: UnixMillis,
    },
    Never(Failure),
}

async fn walk(context: &Context, delivery: Delivery) -> Result<(), BrokerError> {
    match gate(context, &delivery).await? {
        Gate::Send {
            endpoint,
            started,
            slot,
        } => {
            let answer = attempt(context, &delivery, &endpoint).await;
            slot.leave(answer.latency);
            settle::settle(context, delivery, Some(&endpoint.value), started, answer).await
        }
        Gate::Hold {
            endpoint,
            reason,
            until,
        } => hold(context, delivery, &endpoint.value, reason, until).await,
        Gate::Never(failure) => {
            let answer = Answer::without_request(failure, posthorn_wiring::now());
            settle::settle(context, delivery, None, Started::default(), answer).await
        }
    }
}

async fn gate(context: &Context, delivery: &Delivery) -> Result<Gate, BrokerError> {
    let Some(endpoint) = endpoints::find(context, delivery).await? else {
        return Ok(Gate::Never(Failure::EndpointDeleted));
    };
    // Looked at before a slot is taken, so that what is held costs no slot.
    match admission(context, delivery, &endpoint.value) {
        Admission::Expired => return Ok(Gate::Never(Failure::Expired)),
        Admission::Hold { until, reason } => {
            return Ok(Gate::Hold {
                endpoint,
                reason,
                until,
            });
        }
        Admission::Allow { .. } | Admission::Claim(_) => {}
    }
    let cap = context.peers.share(endpoint.value.max_in_flight);
    let slot = match context.slots.enter(&endpoint.value.id, cap).await {
        Ok(slot) => slot,
        Err(Full { next }) => {
            return Ok(Gate::Hold {
                endpoint,
                reason: HoldReason::InFlight,
                until: next,
            });
        }
    };
    admit_with_slot(context, delivery, endpoint, slot).await
}

/// The final look, with a slot in hand: what came back meanwhile may have opened the breaker.
async fn admit_with_slot(
    context: &Context,
    delivery: &Delivery,
    endpoint: Arc<Versioned<Endpoint>>,
    slot: Slot,
) -> Result<Gate, BrokerError> {
    loop {
        match admission(context, delivery, &endpoint.value) {
            Admission::Expired => return Ok(Gate::Never(Failure::Expired)),
            Admission::Hold { until, reason } => {
                return Ok(Gate::Hold {
                    endpoint,
                    reason,
                    until,
                });
            }
            Admission::Allow { generation, probe } => {
                let started = Started { generation, probe };
                return Ok(Gate::Send {
                    endpoint,
                    started,
                    slot,
                });
            }
            Admission::Claim(claimed) => {
                let generation = claimed.generation;
                if context.breakers.claim(&endpoint.value.id, *claimed).await? {
                    let started = Started {
                        generation,
                        probe: true,
                    };
                    return Ok(Gate::Send {
                        endpoint,
                        started,
                        slot,
                    });
                }
            }
        }
    }
}

fn admission(context: &Context, delivery: &Delivery, endpoint: &Endpoint) -> Admission {
    let breaker = context.breakers.get(&endpoint.id);
    let closed = BreakerState::default();
    let state = breaker.as_ref().map_or(&closed, |known| &known.value);
    admit(delivery, endpoint, state, posthorn_wiring::now())
}

async fn attempt(context: &Context, delivery: &Delivery, endpoint: &Versioned<Endpoint>) -> Answer {
    let now = posthorn_wiring::now();
    let prepared = match context.prepared.get(endpoint, &context.egress) {
        Ok(prepared) => prepared,
        Err(prepared::Refusal::Egress) => {
            return Answer::without_request(Failure::EgressDenied, now);
        }
        Err(prepared::Refusal::Unusable) => {
            return Answer::without_request(Failure::Unsignable, now);
        }
    };
    send::send(context, delivery, &endpoint.value, &prepared).await
}

async fn hold(
    context: &Context,
    delivery: Delivery,
    endpoint: &Endpoint,
    reason: HoldReason,
    until: UnixMillis,
) -> Result<(), BrokerError> {
    metrics::counter!("posthorn_holds_total", "reason" => reason.as_str()).increment(1);
    let now = posthorn_wiring::now();
    let next = held(delivery, endpoint, reason, until, now, &mut rng::rng());
    let waiting = Waiting::Delivery(Box::new(next));
    context
        .broker
        .publish_waiting(&waiting, context.near(), now, Patience::WORKER)
        .await?;
    Ok(())
}

/// What an outcome is called in metrics.
pub(crate) fn outcome_label(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Status { code, .. } => match code {
            200..=299 => ("success", "2xx"),
            300..=399 => ("failure", "3xx"),
            400..=499 => ("failure", "4xx"),
            500..=599 => ("failure", "5xx"),
            _ => ("failure", "other"),
        },
        Outcome::Failed(failure) => (failure.as_str(), "none"),
    }
}
