//! Records of attempts.

use super::delivery::{result_in, result_out};
use super::{
    DecodeError, Wire, check, decode, encode, field, headers_in, headers_out, optional_time,
    time_out,
};
use bytes::Bytes;
use posthorn_delivery::{
    Attempt, BreakerSignal, Disposition, EndpointId, EventId, EventType, Exchange, Reason, Tenant,
    UnixMillis,
};
use posthorn_proto::v1;
use v1::disposition::What;

impl Wire for Attempt {
    fn to_wire(&self) -> Bytes {
        let (status, error) = result_out(self.result);
        encode(&v1::Attempt {
            tenant: self.tenant.to_string(),
            event_id: self.event_id.to_string(),
            event_type: self.event_type.to_string(),
            endpoint_id: self.endpoint_id.to_string(),
            number: self.number,
            hop: self.hop,
            replay_generation: self.replay_generation,
            at_ms: self.at.0,
            latency_ms: self.latency_ms,
            status,
            error,
            response_body: self.response_body.clone(),
            disposition: Some(v1::Disposition {
                what: Some(disposition_out(self.disposition)),
            }),
            breaker_generation: self.breaker_generation,
            probe: self.probe,
            hold_until_ms: time_out(self.hold_until),
            breaker_signal: signal_out(self.breaker_signal).into(),
            disable_endpoint: self.disable_endpoint,
            in_order: self.in_order,
            detail: self.detail.clone(),
            exchange: self.exchange.as_deref().map(exchange_out),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<Attempt, DecodeError> {
        let message = decode::<v1::Attempt>(bytes, "Attempt")?;
        let signal = message.breaker_signal();
        let disposition = message
            .disposition
            .and_then(|d| d.what)
            .ok_or(field("Attempt", "disposition"))?;
        Ok(Attempt {
            tenant: check!("Attempt", "tenant", Tenant::parse_any(&message.tenant)),
            event_id: check!("Attempt", "event_id", EventId::parse(&message.event_id)),
            event_type: check!(
                "Attempt",
                "event_type",
                EventType::parse(&message.event_type)
            ),
            endpoint_id: check!(
                "Attempt",
                "endpoint_id",
                EndpointId::parse(&message.endpoint_id)
            ),
            number: message.number,
            hop: message.hop,
            replay_generation: message.replay_generation,
            at: UnixMillis(message.at_ms),
            latency_ms: message.latency_ms,
            result: result_in(message.status, &message.error)?,
            response_body: message.response_body,
            disposition: disposition_in(disposition)?,
            breaker_generation: message.breaker_generation,
            probe: message.probe,
            hold_until: optional_time(message.hold_until_ms),
            breaker_signal: signal_in(signal),
            disable_endpoint: message.disable_endpoint,
            in_order: message.in_order,
            detail: message.detail,
            exchange: message.exchange.map(|seen| Box::new(exchange_in(seen))),
        })
    }
}

fn exchange_out(exchange: &Exchange) -> v1::Exchange {
    v1::Exchange {
        request_headers: headers_out(&exchange.request_headers),
        response_headers: headers_out(&exchange.response_headers),
        detail: exchange.detail.clone(),
        total_ms: exchange.total_ms,
    }
}

fn exchange_in(message: v1::Exchange) -> Exchange {
    Exchange {
        request_headers: headers_in(message.request_headers),
        response_headers: headers_in(message.response_headers),
        detail: message.detail,
        total_ms: message.total_ms,
    }
}

fn disposition_out(disposition: Disposition) -> What {
    match disposition {
        Disposition::Complete => What::Complete(v1::disposition::Complete {}),
        Disposition::Retry {
            not_before,
            same_attempt,
        } => What::Retry(v1::disposition::Retry {
            not_before_ms: not_before.0,
            same_attempt,
        }),
        Disposition::Dead(reason) => What::Dead(v1::disposition::Dead {
            reason: reason.as_str().to_owned(),
        }),
        Disposition::Skipped => What::Skipped(v1::disposition::Skipped {
            reason: "gone".to_owned(),
        }),
    }
}

fn disposition_in(what: What) -> Result<Disposition, DecodeError> {
    Ok(match what {
        What::Complete(_) => Disposition::Complete,
        What::Retry(retry) => Disposition::Retry {
            not_before: UnixMillis(retry.not_before_ms),
            same_attempt: retry.same_attempt,
        },
        What::Dead(dead) => Disposition::Dead(
            Reason::parse(&dead.reason).ok_or(field("Attempt", "disposition.dead.reason"))?,
        ),
        What::Skipped(_) => Disposition::Skipped,
    })
}

fn signal_out(signal: BreakerSignal) -> v1::BreakerSignal {
    match signal {
        BreakerSignal::Neutral => v1::BreakerSignal::Neutral,
        BreakerSignal::Success => v1::BreakerSignal::Success,
        BreakerSignal::Failure => v1::BreakerSignal::Failure,
    }
}

fn signal_in(signal: v1::BreakerSignal) -> BreakerSignal {
    match signal {
        v1::BreakerSignal::Neutral => BreakerSignal::Neutral,
        v1::BreakerSignal::Success => BreakerSignal::Success,
        v1::BreakerSignal::Failure => BreakerSignal::Failure,
    }
}
