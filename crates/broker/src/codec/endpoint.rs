//! Endpoint configurations.

use super::{DecodeError, Wire, check, decode, encode, field, optional_time, time_out};
use bytes::Bytes;
use posthorn_delivery::endpoint::limits::MAX_BACKLOG;
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::retry::{Backoff, Jitter, Preset, RetryPolicyParts, Schedule};
use posthorn_delivery::time::millis;
use posthorn_delivery::{
    BreakerPolicy, DisabledReason, Endpoint, EndpointId, Ordering, Pattern, RateLimit, RetryPolicy,
    Tenant, UnixMillis,
};
use posthorn_proto::v1;
use std::time::Duration;

impl Wire for Endpoint {
    fn to_wire(&self) -> Bytes {
        let header = |(name, value): &(String, Hidden)| v1::Header {
            name: name.clone(),
            value: value.reveal().to_owned(),
        };
        let (reason, since) = match self.disabled {
            Some((reason, since)) => (reason.as_str().to_owned(), since.0),
            None => (String::new(), 0),
        };
        encode(&v1::EndpointConfig {
            id: self.id.to_string(),
            tenant: self.tenant.to_string(),
            url: self.url.reveal().to_owned(),
            event_types: self.event_types.iter().map(ToString::to_string).collect(),
            description: self.description.clone(),
            headers: self.headers.iter().map(header).collect(),
            signatures: self.signatures.clone(),
            secrets: self.secrets.iter().map(secret_out).collect(),
            key_pairs: self.key_pairs.iter().map(secret_out).collect(),
            disabled_reason: reason,
            disabled_since_ms: since,
            retry: Some(retry_out(&self.retry)),
            timeout_ms: millis(self.timeout),
            max_in_flight: self.max_in_flight,
            breaker: self.breaker.map(breaker_out),
            target_epoch: self.target_epoch,
            created_at_ms: self.created_at.0,
            updated_at_ms: self.updated_at.0,
            ordering: ordering_out(self.ordering),
            rate_limit_milli: self.rate_limit.map_or(0, RateLimit::milli),
            max_backlog: self.max_backlog,
            disabled_before_ms: millis(self.disabled_before),
        })
    }

    fn from_wire(bytes: Bytes) -> Result<Endpoint, DecodeError> {
        let message = decode::<v1::EndpointConfig>(bytes, "EndpointConfig")?;
        let patterns: Result<Vec<Pattern>, _> = message
            .event_types
            .iter()
            .map(|text| Pattern::parse(text))
            .collect();
        let headers = message.headers.into_iter();
        Ok(Endpoint {
            id: check!("EndpointConfig", "id", EndpointId::parse(&message.id)),
            tenant: check!(
                "EndpointConfig",
                "tenant",
                Tenant::parse_any(&message.tenant)
            ),
            url: Hidden::new(message.url),
            event_types: check!("EndpointConfig", "event_types", patterns),
            description: message.description,
            headers: headers
                .map(|header| (header.name, Hidden::new(header.value)))
                .collect(),
            signatures: message.signatures,
            secrets: message.secrets.into_iter().map(secret_in).collect(),
            key_pairs: message.key_pairs.into_iter().map(secret_in).collect(),
            disabled: disabled_in(&message.disabled_reason, message.disabled_since_ms)?,
            retry: retry_in(message.retry.ok_or(field("EndpointConfig", "retry"))?)?,
            timeout: Duration::from_millis(message.timeout_ms),
            max_in_flight: message.max_in_flight.max(1),
            breaker: message.breaker.map(breaker_in).transpose()?,
            target_epoch: message.target_epoch,
            created_at: UnixMillis(message.created_at_ms),
            updated_at: UnixMillis(message.updated_at_ms),
            ordering: ordering_in(&message.ordering)?,
            rate_limit: rate_in(message.rate_limit_milli)?,
            max_backlog: backlog_in(message.max_backlog),
            disabled_before: Duration::from_millis(message.disabled_before_ms),
        })
    }
}

fn ordering_out(ordering: Ordering) -> String {
    match ordering {
        Ordering::None => String::new(),
        Ordering::Fifo => ordering.as_str().to_owned(),
    }
}

fn ordering_in(text: &str) -> Result<Ordering, DecodeError> {
    if text.is_empty() {
        return Ok(Ordering::None);
    }
    Ordering::parse(text).ok_or(field("EndpointConfig", "ordering"))
}

fn rate_in(milli: u32) -> Result<Option<RateLimit>, DecodeError> {
    if milli == 0 {
        return Ok(None);
    }
    let limit = RateLimit::from_milli(milli);
    limit
        .map(Some)
        .map_err(|_| field("EndpointConfig", "rate_limit_milli"))
}

/// Endpoints that were stored before there was such a bound have the default one.
fn backlog_in(stored: u64) -> u64 {
    match stored {
        0 => MAX_BACKLOG,
        bound => bound.min(MAX_BACKLOG),
    }
}

fn disabled_in(
    reason: &str,
    since: i64,
) -> Result<Option<(DisabledReason, UnixMillis)>, DecodeError> {
    if reason.is_empty() {
        return Ok(None);
    }
    let reason = DisabledReason::parse(reason).ok_or(field("EndpointConfig", "disabled_reason"))?;
    Ok(Some((reason, UnixMillis(since))))
}

fn secret_out(secret: &StoredSecret) -> v1::StoredSecret {
    let expires_at_ms = time_out(secret.expires_at);
    v1::StoredSecret {
        text: secret.text.reveal().to_owned(),
        expires_at_ms,
    }
}

fn secret_in(message: v1::StoredSecret) -> StoredSecret {
    let expires_at = optional_time(message.expires_at_ms);
    StoredSecret {
        text: Hidden::new(message.text),
        expires_at,
    }
}

fn breaker_out(policy: BreakerPolicy) -> v1::BreakerPolicy {
    v1::BreakerPolicy {
        failure_threshold: policy.failure_threshold(),
        cooldown_ms: millis(policy.cooldown()),
        max_cooldown_ms: millis(policy.max_cooldown()),
    }
}

fn breaker_in(message: v1::BreakerPolicy) -> Result<BreakerPolicy, DecodeError> {
    let ms = Duration::from_millis;
    let policy = BreakerPolicy::try_new(
        message.failure_threshold,
        ms(message.cooldown_ms),
        ms(message.max_cooldown_ms),
    );
    policy.map_err(|_| field("EndpointConfig", "breaker"))
}

fn retry_out(policy: &RetryPolicy) -> v1::RetryPolicy {
    let parts = policy.parts();
    let (backoff, ladder) = match &parts.schedule {
        Schedule::Exponential(backoff) => (Some(*backoff), Vec::new()),
        Schedule::Ladder(rungs) => (None, rungs.iter().copied().map(millis).collect()),
    };
    v1::RetryPolicy {
        preset: parts.preset.as_str().to_owned(),
        base_ms: backoff.map_or(0, |b| millis(b.base())),
        factor_milli: backoff.map_or(0, |b| b.factor_milli()),
        max_delay_ms: backoff.map_or(0, |b| millis(b.max_delay())),
        jitter: parts.jitter.name(),
        max_attempts: parts.max_attempts,
        max_age_ms: millis(parts.max_age),
        schedule_ms: ladder,
        own_permanent_statuses: parts.permanent.is_some(),
        permanent_statuses: parts
            .permanent
            .iter()
            .flatten()
            .map(|code| u32::from(*code))
            .collect(),
    }
}

fn retry_in(message: v1::RetryPolicy) -> Result<RetryPolicy, DecodeError> {
    let ms = Duration::from_millis;
    let bad = || field("EndpointConfig", "retry");
    let schedule = if message.schedule_ms.is_empty() {
        let backoff = Backoff::try_new(
            ms(message.base_ms),
            message.factor_milli,
            ms(message.max_delay_ms),
        );
        Schedule::Exponential(backoff.ok_or_else(bad)?)
    } else {
        Schedule::Ladder(message.schedule_ms.into_iter().map(ms).collect())
    };
    let codes: Result<Vec<u16>, _> = message
        .permanent_statuses
        .into_iter()
        .map(u16::try_from)
        .collect();
    let codes = codes.map_err(|_| bad())?;
    RetryPolicy::try_new(RetryPolicyParts {
        preset: Preset::parse(&message.preset).ok_or_else(bad)?,
        schedule,
        jitter: Jitter::parse(&message.jitter).ok_or_else(bad)?,
        max_attempts: message.max_attempts,
        max_age: ms(message.max_age_ms),
        permanent: message.own_permanent_statuses.then_some(codes),
    })
    .map_err(|_| bad())
}
