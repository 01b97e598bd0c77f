//! The straight line of one attempt.

use crate::context::Context;
use crate::failure::Failed;
use crate::send::Answer;
use crate::settle::{self, Started};
use crate::slots::{Full, Slot};
use crate::tenants::Seat;
use crate::{endpoints, prepared, send};
use posthorn_broker::{BrokerError, Incoming, Versioned, Wire};
use posthorn_delivery::{
    Admission, BreakerState, Delivery, Endpoint, Failure, LaneReason, Outcome, admit,
};
use posthorn_lanes::{Place, Why};
use posthorn_runtime::{rng, trace};
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// Bounds of the time after which a delivery that is sent in order is looked at again.
const MOMENT: Duration = Duration::from_millis(20);
const LONGEST_BACK: Duration = Duration::from_secs(5);
/// How long a test send waits for room.
const TEST_WAITS: Duration = Duration::from_secs(120);

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
        match walk(context, delivery).await? {
            After::Ack => message.ack().await,
            After::Back(wait) => {
                message.nak(Some(wait)).await;
                Ok(())
            }
        }
    };
    if let Err(error) = walked.instrument(span).await {
        tracing::warn!(%error, "an attempt could not be settled yet");
        message.nak(Some(Duration::from_secs(1))).await;
    }
}

/// What happens to the message.
enum After {
    /// Its delivery has gone on.
    Ack,
    /// It comes again after so long, perhaps to another dispatcher.
    Back(Duration),
}

/// Whether a delivery may be sent now.
enum Gate {
    Send {
        endpoint: Arc<Versioned<Endpoint>>,
        started: Started,
        room: Room,
    },
    Park {
        endpoint: Arc<Versioned<Endpoint>>,
        why: Why,
    },
    Back(Duration),
    Never(Failure),
}

/// What a request takes up while it is in flight.
struct Room {
    slot: Slot,
    _seat: Seat,
}

async fn walk(context: &Context, mut delivery: Delivery) -> Result<After, BrokerError> {
    if delivery.release.in_order && settle::resume(context, &delivery).await? {
        return Ok(After::Ack);
    }
    match gate(context, &mut delivery).await? {
        Gate::Send {
            endpoint,
            started,
            room,
        } => {
            let answer = attempt(context, &delivery, &endpoint).await;
            room.slot.learn(answer.latency);
            // After a failure the room is free when the breaker knows of it: a dead endpoint
            // gets no more than what was in flight when the failures were enough.
            let room = (!is_success(&answer.outcome)).then_some(room);
            settle::settle(context, delivery, Some(&endpoint.value), started, answer).await?;
            drop(room);
        }
        Gate::Park { endpoint, why } => park(context, delivery, &endpoint.value, why).await?,
        Gate::Back(wait) => return Ok(After::Back(wait)),
        Gate::Never(failure) => {
            let answer = Answer::without_request(failure, posthorn_wiring::now());
            settle::settle(context, delivery, None, Started::default(), answer).await?;
        }
    }
    Ok(After::Ack)
}

async fn gate(context: &Context, delivery: &mut Delivery) -> Result<Gate, BrokerError> {
    let Some(endpoint) = endpoints::find(context, delivery).await? else {
        return Ok(Gate::Never(Failure::EndpointDeleted));
    };
    if delivery.test {
        return Ok(gate_of_test(context, delivery, endpoint).await);
    }
    delivery.credit_pauses(&endpoint.value, posthorn_wiring::now());
    let let_go = context.lanes.was_let_go(delivery);
    if !let_go && let Some(why) = context.lanes.holds(delivery, &endpoint.value) {
        return Ok(
            match delivery.is_over(&endpoint.value, posthorn_wiring::now()) {
                true => Gate::Never(Failure::Expired),
                false => Gate::Park { endpoint, why },
            },
        );
    }
    let generation = delivery.release.breaker_generation;
    context
        .breakers
        .at_least(&endpoint.value.id, generation)
        .await?;
    // Looked at before a slot is taken, so that what is held costs no slot.
    match admission(context, delivery, &endpoint.value) {
        Admission::Allow { .. } | Admission::Claim(_) => {}
        refused => return Ok(refusal(&refused, delivery, endpoint)),
    }
    match room(context, delivery, &endpoint.value, let_go).await {
        Ok(room) => admit_with_room(context, delivery, endpoint, room).await,
        // Whoever let it go has counted it. It is this dispatcher that has its share.
        Err(Occupied::Slots) if let_go => Ok(Gate::Back(moment())),
        Err(Occupied::Slots | Occupied::Seats) if delivery.release.in_order => {
            Ok(Gate::Back(moment()))
        }
        Err(Occupied::Slots | Occupied::Seats) => Ok(Gate::Park {
            endpoint,
            why: Why::from(LaneReason::InFlight),
        }),
    }
}

/// A test send goes out whatever the endpoint's lane, breaker and switch say: whoever asks for
/// it wants to know how the endpoint answers now. It takes up room like any other, and waits
/// two minutes for it.
async fn gate_of_test(
    context: &Context,
    delivery: &Delivery,
    endpoint: Arc<Versioned<Endpoint>>,
) -> Gate {
    if posthorn_wiring::now().since(delivery.accepted_at) > TEST_WAITS {
        return Gate::Never(Failure::Expired);
    }
    match room(context, delivery, &endpoint.value, true).await {
        Ok(room) => Gate::Send {
            endpoint,
            started: Started::default(),
            room,
        },
        Err(Occupied::Slots | Occupied::Seats) => Gate::Back(moment()),
    }
}

/// What is in the way of one more request.
enum Occupied {
    Slots,
    Seats,
}

async fn room(
    context: &Context,
    delivery: &Delivery,
    endpoint: &Endpoint,
    let_go: bool,
) -> Result<Room, Occupied> {
    let cap = match context.peers.share(endpoint.max_in_flight) {
        // More dispatchers than slots: only the owner of the lane can count them.
        0 if let_go => endpoint.max_in_flight,
        0 => return Err(Occupied::Slots),
        share => share,
    };
    let slot = context.slots.enter(&endpoint.id, cap).await;
    let slot = slot.map_err(|Full| Occupied::Slots)?;
    let seat = context.tenants.enter(&delivery.tenant).await;
    let seat = seat.ok_or(Occupied::Seats)?;
    Ok(Room { slot, _seat: seat })
}

/// A while after which another dispatcher, or this one, has a slot.
fn moment() -> Duration {
    Duration::from_millis(rng::rng().random_range(20..=60))
}

/// The final look, with room in hand: what came back meanwhile may have opened the breaker.
async fn admit_with_room(
    context: &Context,
    delivery: &Delivery,
    endpoint: Arc<Versioned<Endpoint>>,
    room: Room,
) -> Result<Gate, BrokerError> {
    loop {
        let started = match admission(context, delivery, &endpoint.value) {
            Admission::Allow { generation, probe } => Started { generation, probe },
            Admission::Claim(claimed) => {
                let generation = claimed.generation;
                if !context.breakers.claim(&endpoint.value.id, *claimed).await? {
                    continue;
                }
                Started {
                    generation,
                    probe: true,
                }
            }
            refused => return Ok(refusal(&refused, delivery, endpoint)),
        };
        return Ok(Gate::Send {
            endpoint,
            started,
            room,
        });
    }
}

/// What becomes of a delivery that is not admitted. One that is sent in order stays where it
/// is: it must not be appended behind what comes after it.
fn refusal(admission: &Admission, delivery: &Delivery, endpoint: Arc<Versioned<Endpoint>>) -> Gate {
    let &Admission::Hold { until, reason } = admission else {
        return Gate::Never(Failure::Expired);
    };
    if delivery.release.in_order {
        let wait = posthorn_wiring::now().until(until);
        return Gate::Back(wait.clamp(MOMENT, LONGEST_BACK));
    }
    Gate::Park {
        endpoint,
        why: Why {
            until,
            ..Why::from(reason)
        },
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
        Err(prepared::Refusal::Egress(rule)) => {
            return Answer::without_request(Failed::denied(&rule), now);
        }
        Err(prepared::Refusal::Unusable) => {
            return Answer::without_request(Failure::Unsignable, now);
        }
    };
    send::send(context, delivery, &endpoint.value, &prepared).await
}

async fn park(
    context: &Context,
    delivery: Delivery,
    endpoint: &Endpoint,
    why: Why,
) -> Result<(), BrokerError> {
    metrics::counter!("posthorn_holds_total", "reason" => why.reason.as_str()).increment(1);
    let delivery = match context.lanes.park(delivery, endpoint, why).await? {
        Place::Parked { .. } => return Ok(()),
        Place::Full(delivery) => *delivery,
    };
    let answer = Answer::without_request(Failure::BacklogFull, posthorn_wiring::now());
    settle::settle(context, delivery, None, Started::default(), answer).await
}

fn is_success(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Status {
            code: 200..=299,
            ..
        }
    )
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
