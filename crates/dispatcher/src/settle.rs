//! After an attempt: record the decision, then carry it out.

use crate::attempt::outcome_label;
use crate::context::Context;
use crate::endpoints;
use crate::exchange;
use crate::send::Answer;
use bytes::Bytes;
use metrics::{counter, gauge, histogram};
use posthorn_broker::{BrokerError, Incoming, Patience, Waiting};
use posthorn_delivery::breaker::{Attempted, BreakerState, Phase};
use posthorn_delivery::decide::successor;
use posthorn_delivery::register::excerpt;
use posthorn_delivery::retry::RetryPolicy;
use posthorn_delivery::{
    Attempt, DeadLetter, Delivery, DisabledReason, Disposition, Endpoint, LetterId, LetterState,
    MessageId, Reason, decide,
};
use posthorn_notices::Notice;
use posthorn_runtime::rng;
use std::time::Duration;

/// Under which breaker generation an attempt started, and whether it was the probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Started {
    pub generation: u64,
    pub probe: bool,
}

/// Records what was decided and carries it out. When the same attempt was decided before, by
/// whoever had this message then, that decision is carried out and not a new one.
pub(crate) async fn settle(
    context: &Context,
    delivery: Delivery,
    endpoint: Option<&Endpoint>,
    started: Started,
    answer: Answer,
) -> Result<(), BrokerError> {
    let mine = record(&delivery, endpoint, started, answer);
    let stored = context.broker.publish_attempt(&mine).await?;
    let first = if stored.duplicate {
        context
            .attempts
            .at(stored.sequence)
            .await?
            .map(|logged| logged.value)
    } else {
        None
    };
    if first.is_some() && mine.probe {
        // Only this request was the probe, so the first record says nothing of it; and a probe
        // that nobody hears of is waited for until its lease is over.
        let judged = endpoint.filter(|_| !delivery.test);
        advise(tell(context, judged, &mine).await);
    }
    let decided = first.unwrap_or(mine);
    let settled = Settled {
        record: &decided,
        sequence: stored.sequence,
    };
    finish(context, delivery, endpoint, settled).await
}

/// An attempt that has its record.
struct Settled<'a> {
    record: &'a Attempt,
    sequence: u64,
}

/// Carries out what was decided about a delivery that is sent in order, where its attempt was
/// recorded before; `false` where it was not.
///
/// Whoever had the message may have died after the record. The order has moved on since, so a
/// second request would come behind what follows it.
pub(crate) async fn resume(context: &Context, delivery: &Delivery) -> Result<bool, BrokerError> {
    let records = context.lanes.store().records(delivery).await?;
    let id = delivery.message_id();
    let Some((sequence, decided)) = records
        .into_iter()
        .find(|(_, record)| record.message_id() == id)
    else {
        return Ok(false);
    };
    let endpoint = endpoints::find(context, delivery).await?;
    let endpoint = endpoint.as_ref().map(|known| &known.value);
    let settled = Settled {
        record: &decided,
        sequence,
    };
    finish(context, delivery.clone(), endpoint, settled).await?;
    Ok(true)
}

async fn finish(
    context: &Context,
    delivery: Delivery,
    endpoint: Option<&Endpoint>,
    settled: Settled<'_>,
) -> Result<(), BrokerError> {
    let judged = endpoint.filter(|_| !delivery.test);
    let (told, done) = tokio::join!(
        tell(context, judged, settled.record),
        carry_out(context, delivery, settled),
    );
    advise(told);
    done
}

/// The breaker is advice; the delivery must not be repeated for it.
fn advise(told: Result<(), BrokerError>) {
    if let Err(error) = told {
        tracing::warn!(%error, "a breaker could not be told of an attempt");
    }
}

fn record(
    delivery: &Delivery,
    endpoint: Option<&Endpoint>,
    started: Started,
    answer: Answer,
) -> Attempt {
    let now = posthorn_wiring::now();
    let default_policy = RetryPolicy::default();
    let exchange = delivery.test.then(|| exchange::of(&answer));
    let policy = endpoint.map_or(&default_policy, |endpoint| &endpoint.retry);
    let decision = decide(delivery, policy, &answer.outcome, now, &mut rng::rng());
    let (outcome, class) = outcome_label(&answer.outcome);
    counter!("posthorn_attempts_total", "outcome" => outcome, "status_class" => class).increment(1);
    Attempt {
        tenant: delivery.tenant.clone(),
        event_id: delivery.event_id.clone(),
        event_type: delivery.event_type.clone(),
        endpoint_id: delivery.endpoint_id.clone(),
        number: delivery.attempt,
        hop: delivery.hop,
        replay_generation: delivery.replay_generation(),
        at: answer.at,
        latency_ms: u32::try_from(answer.latency.as_millis()).unwrap_or(u32::MAX),
        result: (&answer.outcome).into(),
        response_body: answer.body,
        disposition: decision.disposition,
        breaker_generation: started.generation,
        probe: started.probe,
        breaker_signal: decision.breaker_signal,
        hold_until: decision.hold_until,
        disable_endpoint: decision.disable_endpoint,
        in_order: delivery.release.in_order,
        detail: answer.detail,
        exchange,
    }
}

/// Tells the breaker, and disables an endpoint that is gone or has been down for days. Operators
/// are told what that has changed; where this process dies before, schedulers see it.
async fn tell(
    context: &Context,
    endpoint: Option<&Endpoint>,
    attempt: &Attempt,
) -> Result<(), BrokerError> {
    let Some(endpoint) = endpoint else {
        return Ok(());
    };
    if attempt.disable_endpoint {
        disable(context, endpoint, DisabledReason::Gone).await?;
    }
    let attempted = Attempted {
        generation: attempt.breaker_generation,
        probe: attempt.probe,
        signal: attempt.breaker_signal,
        count: 1,
        hold_until: attempt.hold_until,
    };
    let moved = context.breakers.report(endpoint, attempted).await?;
    if let Some((from, to)) = &moved {
        context.notices.breaker(endpoint, from, to).await;
    }
    if moved.is_some_and(|(_, to)| has_been_down_for(&to, context.disable_after)) {
        disable(context, endpoint, DisabledReason::Breaker).await?;
    }
    Ok(())
}

async fn disable(
    context: &Context,
    endpoint: &Endpoint,
    reason: DisabledReason,
) -> Result<(), BrokerError> {
    let now = posthorn_wiring::now();
    let disabled = endpoints::disable(context, endpoint, reason, now).await?;
    let told = disabled.as_ref().and_then(Notice::of_disabled);
    context.notices.tell(told).await;
    Ok(())
}

fn has_been_down_for(state: &BreakerState, limit: Duration) -> bool {
    state.phase == Phase::Open && posthorn_wiring::now().since(state.opened_at) >= limit
}

async fn carry_out(
    context: &Context,
    delivery: Delivery,
    settled: Settled<'_>,
) -> Result<(), BrokerError> {
    let now = posthorn_wiring::now();
    let (attempt, sequence) = (settled.record, settled.sequence);
    let delivery = delivery.with_attempt(attempt.summary(sequence));
    match attempt.disposition {
        Disposition::Complete => complete(context, &delivery).await,
        // It is still in its lane, whose owner reads the record.
        Disposition::Retry { .. } if attempt.in_order => Ok(()),
        Disposition::Retry {
            not_before,
            same_attempt,
        } => {
            let next = Waiting::Delivery(Box::new(successor(delivery, not_before, same_attempt)));
            context
                .broker
                .publish_waiting(&next, context.near(), now, Patience::WORKER)
                .await
                .map(drop)
        }
        // Whoever asked for it reads the record.
        Disposition::Dead(_) if delivery.test => Ok(()),
        Disposition::Dead(reason) => {
            counter!("posthorn_dead_letters_total", "reason" => reason.as_str()).increment(1);
            let letter = DeadLetter {
                detail: attempt.detail.clone(),
                answer: excerpt(&attempt.response_body),
                ..DeadLetter::of(&delivery, reason, now)
            };
            let (key, repeated) = publish_letter(context, &letter, &delivery.message_id()).await?;
            context.notices.letter(&letter, &key, repeated).await;
            strike(context, &delivery).await;
            Ok(())
        }
        Disposition::Skipped => Ok(()),
    }
}

async fn complete(context: &Context, delivery: &Delivery) -> Result<(), BrokerError> {
    let now = posthorn_wiring::now();
    histogram!("posthorn_delivery_latency_seconds")
        .record(now.since(delivery.accepted_at).as_secs_f64());
    gauge!("posthorn_last_success_timestamp_seconds").set(now.0 as f64 / 1_000.0);
    if let Some(letter) = DeadLetter::delivered(delivery, now) {
        publish_letter(context, &letter, &delivery.message_id()).await?;
        strike(context, delivery).await;
    }
    Ok(())
}

/// A replay has ended: the death that it undid is none any more. What is left in the register is
/// passed over by whoever reads it, so no delivery is repeated for it.
async fn strike(context: &Context, delivery: &Delivery) {
    let death = delivery.replay.as_ref().and_then(|replay| replay.death);
    let entry = death.map_or(0, |death| death.entry);
    if let Err(error) = context.broker.strike(entry).await {
        tracing::debug!(%error, "a death could not be struck from the register");
    }
}

/// Stores a letter; returns the id under which, and whether it was there already.
async fn publish_letter(
    context: &Context,
    letter: &DeadLetter,
    delivery: &MessageId,
) -> Result<(MessageId, bool), BrokerError> {
    let id = MessageId::of("letter", &[delivery.as_str().as_bytes()]);
    let stored = match context
        .broker
        .publish_letter(letter, id.as_str(), None)
        .await
    {
        Err(BrokerError::TooLarge) => {
            let size = letter.payload.len();
            let without = DeadLetter {
                payload: Bytes::new(),
                detail: format!("the payload of {size} bytes does not fit into a letter"),
                ..letter.clone()
            };
            context
                .broker
                .publish_letter(&without, id.as_str(), None)
                .await?
        }
        other => other?,
    };
    Ok((id, stored.duplicate))
}

/// A message that is no delivery: a letter says so, and it does not come again.
pub(crate) async fn bury_unreadable(context: &Context, message: &Incoming, detail: &str) {
    let now = posthorn_wiring::now();
    let id = LetterId::of_unreadable(
        "deliveries",
        i128::from(context.broker.events_created()),
        message.sequence(),
    );
    counter!("posthorn_dead_letters_total", "reason" => Reason::InvalidEvent.as_str()).increment(1);
    tracing::error!(letter = %id, detail, "a delivery could not be read");
    let letter = DeadLetter {
        id: id.clone(),
        tenant: String::new(),
        event_id: String::new(),
        event_type: String::new(),
        endpoint_id: None,
        reason: Reason::InvalidEvent,
        detail: detail.to_owned(),
        died_at: now,
        accepted_at: message.stored_at(),
        payload: message.payload(),
        content_type: String::new(),
        headers: Vec::new(),
        traceparent: None,
        history: Vec::new(),
        state: LetterState::Dead,
        state_since: now,
        replay_generation: 0,
        replays: 0,
        event_seq: 0,
        replay_id: String::new(),
        entry: 0,
        answer: String::new(),
    };
    let key = MessageId::of("unreadable", &[id.as_str().as_bytes()]);
    let settled = async {
        let (key, repeated) = publish_letter(context, &letter, &key).await?;
        context.notices.letter(&letter, &key, repeated).await;
        message.ack().await
    };
    if let Err(error) = settled.await {
        tracing::warn!(%error, "an unreadable delivery could not be dead-lettered yet");
        message.nak(Some(Duration::from_secs(1))).await;
    }
}
