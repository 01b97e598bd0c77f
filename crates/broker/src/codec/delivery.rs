//! Deliveries, and what waits in RETRIES.

use super::{
    DecodeError, Wire, check, decode, encode, event, field, headers_in, headers_out, optional_text,
};
use crate::room::Waiting;
use bytes::Bytes;
use posthorn_delivery::attempt::{AttemptResult, AttemptSummary, MAX_HISTORY};
use posthorn_delivery::delivery::{Death, ReleaseMark, ReplayMark};
use posthorn_delivery::time::millis;
use posthorn_delivery::{
    Delivery, EndpointId, EventId, EventType, Failure, Reason, Tenant, UnixMillis,
};
use posthorn_proto::v1;
use std::time::Duration;

impl Wire for Delivery {
    fn to_wire(&self) -> Bytes {
        encode(&out(self))
    }

    fn from_wire(bytes: Bytes) -> Result<Delivery, DecodeError> {
        from_message(decode::<v1::Delivery>(bytes, "Delivery")?)
    }
}

impl Wire for Waiting {
    fn to_wire(&self) -> Bytes {
        use v1::waiting::What;
        let (what, event_seq) = match self {
            Waiting::Delivery(delivery) => (What::Delivery(out(delivery)), 0),
            Waiting::Event(event, sequence) => (What::Event(event::out(event)), *sequence),
        };
        encode(&v1::Waiting {
            not_before_ms: self.not_before().0,
            event_seq,
            what: Some(what),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<Waiting, DecodeError> {
        use v1::waiting::What;
        let message = decode::<v1::Waiting>(bytes, "Waiting")?;
        match message.what {
            Some(What::Delivery(delivery)) => {
                Ok(Waiting::Delivery(Box::new(from_message(delivery)?)))
            }
            Some(What::Event(event)) => Ok(Waiting::Event(
                Box::new(event::from_message(event)?),
                message.event_seq,
            )),
            None => Err(field("Waiting", "what")),
        }
    }
}

fn out(delivery: &Delivery) -> v1::Delivery {
    v1::Delivery {
        tenant: delivery.tenant.to_string(),
        event_id: delivery.event_id.to_string(),
        event_type: delivery.event_type.to_string(),
        endpoint_id: delivery.endpoint_id.to_string(),
        payload: delivery.payload.clone(),
        content_type: delivery.content_type.clone(),
        headers: headers_out(&delivery.headers),
        traceparent: delivery.traceparent.clone().unwrap_or_default(),
        accepted_at_ms: delivery.accepted_at.0,
        event_seq: delivery.event_seq,
        config_revision: delivery.config_revision,
        attempt: delivery.attempt,
        hop: delivery.hop,
        stale_retries: delivery.stale_retries,
        release: Some(v1::ReleaseMark {
            lane_epoch: delivery.release.lane_epoch,
            breaker_generation: delivery.release.breaker_generation,
            in_order: delivery.release.in_order,
        }),
        not_before_ms: delivery.not_before.0,
        expires_at_ms: delivery.expires_at.0,
        held_ms: millis(delivery.held),
        pauses_known_ms: delivery.pauses_known.map(millis),
        replay: delivery.replay.as_ref().map(replay_out),
        test: delivery.test,
        history: history_out(&delivery.history),
    }
}

fn replay_out(replay: &ReplayMark) -> v1::ReplayMark {
    v1::ReplayMark {
        generation: replay.generation,
        replay_id: replay.replay_id.clone(),
        count: replay.count,
        reason: replay
            .death
            .map(|death| death.reason.to_string())
            .unwrap_or_default(),
        died_at_ms: replay.death.map_or(0, |death| death.at.0),
        entry: replay.death.map_or(0, |death| death.entry),
    }
}

fn from_message(message: v1::Delivery) -> Result<Delivery, DecodeError> {
    if message.attempt == 0 {
        return Err(field("Delivery", "attempt"));
    }
    let release = message.release.unwrap_or_default();
    Ok(Delivery {
        tenant: check!("Delivery", "tenant", Tenant::parse_any(&message.tenant)),
        event_id: check!("Delivery", "event_id", EventId::parse(&message.event_id)),
        event_type: check!(
            "Delivery",
            "event_type",
            EventType::parse(&message.event_type)
        ),
        endpoint_id: check!(
            "Delivery",
            "endpoint_id",
            EndpointId::parse(&message.endpoint_id)
        ),
        payload: message.payload,
        content_type: message.content_type,
        headers: headers_in(message.headers),
        traceparent: optional_text(message.traceparent),
        accepted_at: UnixMillis(message.accepted_at_ms),
        event_seq: message.event_seq,
        config_revision: message.config_revision,
        attempt: message.attempt,
        hop: message.hop,
        stale_retries: message.stale_retries,
        release: ReleaseMark {
            lane_epoch: release.lane_epoch,
            breaker_generation: release.breaker_generation,
            in_order: release.in_order,
        },
        not_before: UnixMillis(message.not_before_ms),
        expires_at: UnixMillis(message.expires_at_ms),
        held: Duration::from_millis(message.held_ms),
        pauses_known: message.pauses_known_ms.map(Duration::from_millis),
        replay: message.replay.map(replay_in).transpose()?,
        test: message.test,
        history: history_in(message.history)?,
    })
}

fn replay_in(message: v1::ReplayMark) -> Result<ReplayMark, DecodeError> {
    let death = |reason: &str| {
        Some(Death {
            reason: Reason::parse(reason)?,
            at: UnixMillis(message.died_at_ms),
            entry: message.entry,
        })
    };
    let death = match message.reason.as_str() {
        "" => None,
        reason => Some(death(reason).ok_or(field("ReplayMark", "reason"))?),
    };
    Ok(ReplayMark {
        generation: message.generation,
        replay_id: message.replay_id,
        count: message.count,
        death,
    })
}

pub(super) fn history_out(history: &[AttemptSummary]) -> Vec<v1::AttemptSummary> {
    let summary = |attempt: &AttemptSummary| {
        let (status, error) = result_out(attempt.result);
        v1::AttemptSummary {
            at_ms: attempt.at.0,
            number: attempt.number,
            status,
            error,
            latency_ms: attempt.latency_ms,
            sequence: attempt.sequence,
        }
    };
    history.iter().map(summary).collect()
}

pub(super) fn history_in(
    history: Vec<v1::AttemptSummary>,
) -> Result<Vec<AttemptSummary>, DecodeError> {
    if history.len() > MAX_HISTORY {
        return Err(field("Delivery", "history"));
    }
    let summary = |message: v1::AttemptSummary| {
        Ok(AttemptSummary {
            at: UnixMillis(message.at_ms),
            number: message.number,
            result: result_in(message.status, &message.error)?,
            latency_ms: message.latency_ms,
            sequence: message.sequence,
        })
    };
    history.into_iter().map(summary).collect()
}

pub(super) fn result_out(result: AttemptResult) -> (u32, String) {
    match result {
        AttemptResult::Status(code) => (u32::from(code), String::new()),
        AttemptResult::Error(failure) => (0, failure.as_str().to_owned()),
    }
}

pub(super) fn result_in(status: u32, error: &str) -> Result<AttemptResult, DecodeError> {
    if !error.is_empty() {
        let failure = Failure::parse(error).ok_or(field("Attempt", "error"))?;
        return Ok(AttemptResult::Error(failure));
    }
    let code = u16::try_from(status)
        .ok()
        .filter(|code| (100..=999).contains(code));
    code.map(AttemptResult::Status)
        .ok_or(field("Attempt", "status"))
}
