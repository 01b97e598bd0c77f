//! What a call makes of an endpoint: pure, so that a lost compare-and-swap just asks again.

use super::document::Draft;
use posthorn_delivery::endpoint::limits::{MAX_BACKLOG, MAX_IN_FLIGHT, MAX_SECRETS};
use posthorn_delivery::endpoint::{Hidden, StoredSecret};
use posthorn_delivery::{DisabledReason, Endpoint, EndpointId, Ordering, Tenant, UnixMillis};
use posthorn_http_api::Problem;
use posthorn_signing::{KeyPair, Scheme, Secret};
use rand::CryptoRng;
use std::time::Duration;

/// A new endpoint. Its secret is the draft's, or a new one.
pub(crate) fn created(
    tenant: Tenant,
    id: EndpointId,
    draft: Draft,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Endpoint {
    let secret = draft
        .secret
        .clone()
        .unwrap_or_else(|| Secret::generate(rng));
    let mut endpoint = Endpoint {
        id,
        tenant,
        url: draft.url.clone(),
        event_types: Vec::new(),
        description: String::new(),
        headers: Vec::new(),
        signatures: Vec::new(),
        secrets: vec![newest(secret.reveal())],
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: Duration::ZERO,
        ordering: Ordering::None,
        rate_limit: None,
        max_backlog: MAX_BACKLOG,
        retry: draft.retry.clone(),
        timeout: draft.timeout,
        max_in_flight: MAX_IN_FLIGHT,
        breaker: draft.breaker,
        target_epoch: 0,
        created_at: now,
        updated_at: now,
    };
    apply(&mut endpoint, draft, now, rng);
    endpoint
}

/// An endpoint after a patch. A secret that is written replaces the old ones at once; to let
/// both sign for a while is what rotation is for.
pub(crate) fn patched(
    endpoint: &Endpoint,
    draft: Draft,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Endpoint {
    let mut next = endpoint.clone();
    let newest_now = endpoint.secrets.first().map(|secret| secret.text.reveal());
    let other_secret = draft
        .secret
        .as_ref()
        .filter(|secret| Some(secret.reveal()) != newest_now)
        .map(|secret| newest(secret.reveal()));
    if other_secret.is_some() || draft.url != endpoint.url {
        next.target_epoch = next.target_epoch.saturating_add(1);
    }
    if let Some(secret) = other_secret {
        next.secrets = vec![secret];
    }
    apply(&mut next, draft, now, rng);
    next
}

/// Everything but the secrets.
fn apply(endpoint: &mut Endpoint, draft: Draft, now: UnixMillis, rng: &mut impl CryptoRng) {
    if draft.signatures.contains(&Scheme::V1a) && endpoint.key_pairs.is_empty() {
        endpoint
            .key_pairs
            .push(newest(KeyPair::generate(rng).reveal()));
    }
    let names = draft.signatures.iter().map(|scheme| scheme.as_str());
    endpoint.signatures = names.map(str::to_owned).collect();
    endpoint.url = draft.url;
    endpoint.event_types = draft.event_types;
    endpoint.description = draft.description;
    endpoint.headers = draft.headers;
    endpoint.retry = draft.retry;
    endpoint.timeout = draft.timeout;
    draft.flow.apply_to(endpoint);
    endpoint.breaker = draft.breaker;
    set_enabled(endpoint, draft.enabled, now);
    endpoint.updated_at = now;
}

/// A paused endpoint, or one that is disabled already and stays so for its reason.
pub(crate) fn paused(endpoint: &Endpoint, now: UnixMillis) -> Endpoint {
    let mut next = endpoint.clone();
    set_enabled(&mut next, false, now);
    next.updated_at = now;
    next
}

/// An enabled endpoint, whatever it was disabled for.
pub(crate) fn resumed(endpoint: &Endpoint, now: UnixMillis) -> Endpoint {
    let mut next = endpoint.clone();
    set_enabled(&mut next, true, now);
    next.updated_at = now;
    next
}

fn set_enabled(endpoint: &mut Endpoint, enabled: bool, now: UnixMillis) {
    match (endpoint.disabled, enabled) {
        (None, false) => endpoint.disabled = Some((DisabledReason::Paused, now)),
        (Some((reason, _)), true) => {
            endpoint.enable(now);
            // Whoever says that it works again also says that what the breaker knows is old:
            // with its old state it would be disabled again by the first failed probe.
            if reason != DisabledReason::Paused {
                endpoint.target_epoch = endpoint.target_epoch.saturating_add(1);
            }
        }
        (None, true) | (Some(_), false) => {}
    }
}

/// An endpoint that signs with a new secret, and with the old ones for `overlap` more.
///
/// # Errors
/// 409 where more than ten would sign at the same time.
pub(crate) fn rotated(
    endpoint: &Endpoint,
    overlap: Duration,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Result<Endpoint, Problem> {
    let mut next = endpoint.clone();
    let secret = newest(Secret::generate(rng).reveal());
    next.secrets = succeed(secret, &endpoint.secrets, overlap, now)?;
    if !endpoint.key_pairs.is_empty() {
        let pair = newest(KeyPair::generate(rng).reveal());
        next.key_pairs = succeed(pair, &endpoint.key_pairs, overlap, now)?;
    }
    next.target_epoch = next.target_epoch.saturating_add(1);
    next.updated_at = now;
    Ok(next)
}

fn succeed(
    new: StoredSecret,
    old: &[StoredSecret],
    overlap: Duration,
    now: UnixMillis,
) -> Result<Vec<StoredSecret>, Problem> {
    let end = now + overlap;
    let ending = old.iter().map(|secret| StoredSecret {
        text: secret.text.clone(),
        // One that was to end sooner still does.
        expires_at: Some(secret.expires_at.map_or(end, |before| before.min(end))),
    });
    let live = ending.filter(|secret| secret.is_live(now));
    let secrets: Vec<StoredSecret> = std::iter::once(new).chain(live).collect();
    if secrets.len() > MAX_SECRETS {
        let detail = "ten secrets sign already; wait until one ends, or rotate with overlap 0s";
        return Err(Problem::conflict("too-many-secrets", detail));
    }
    Ok(secrets)
}

fn newest(text: &str) -> StoredSecret {
    StoredSecret {
        text: Hidden::new(text.to_owned()),
        expires_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;
    use posthorn_egress::EgressPolicy;
    use serde_json::{Value, json};

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn draft(value: &Value) -> Draft {
        let egress = EgressPolicy::locked_down();
        document::read(value.as_object().unwrap().clone(), None, &egress).unwrap()
    }

    fn endpoint(value: &Value) -> Endpoint {
        let tenant = Tenant::parse("acme").unwrap();
        let rng = &mut posthorn_runtime::rng::rng();
        created(tenant, EndpointId::from_bits(1), draft(value), NOW, rng)
    }

    fn plain() -> Value {
        json!({"url": "https://example.com/"})
    }

    fn rotate(endpoint: &Endpoint, overlap: Duration, now: UnixMillis) -> Endpoint {
        rotated(endpoint, overlap, now, &mut posthorn_runtime::rng::rng()).unwrap()
    }

    #[test]
    fn a_secret_is_made_and_a_pair_where_it_is_asked_for() {
        let made = endpoint(&plain());
        assert!(Secret::parse(made.secrets[0].text.reveal()).is_ok());
        assert!(made.key_pairs.is_empty());
        let both = endpoint(&json!({"url": "https://example.com/", "signatures": ["v1", "v1a"]}));
        assert!(KeyPair::parse(both.key_pairs[0].text.reveal()).is_ok());
        assert_ne!(made.secrets, both.secrets);
    }

    #[test]
    fn only_a_change_of_target_raises_the_epoch() {
        let before = endpoint(&plain());
        let secret = before.secrets[0].text.reveal().to_owned();
        let rng = &mut posthorn_runtime::rng::rng();
        let mut after = |value: Value| patched(&before, draft(&value), NOW + HOUR, rng);
        let same = after(json!({"url": "https://example.com/", "timeout": "9s", "secret": secret}));
        assert_eq!((same.target_epoch, &same.secrets), (0, &before.secrets));
        assert_eq!(same.updated_at, NOW + HOUR);
        assert_eq!(
            after(json!({"url": "https://example.org/"})).target_epoch,
            1
        );
        let other = Secret::generate(&mut posthorn_runtime::rng::rng());
        let changed = after(json!({"url": "https://example.com/", "secret": other.reveal()}));
        assert_eq!((changed.target_epoch, changed.secrets.len()), (1, 1));
        assert_eq!(changed.secrets[0].text.reveal(), other.reveal());
    }

    #[test]
    fn sig_04_a_rotation_overlaps_and_never_longer_than_before() {
        let first = endpoint(&json!({"url": "https://example.com/", "signatures": ["v1a"]}));
        let second = rotate(&first, 24 * HOUR, NOW);
        assert_eq!((second.secrets.len(), second.key_pairs.len()), (2, 2));
        assert_eq!(second.secrets[0].expires_at, None);
        assert_eq!(second.secrets[1].text, first.secrets[0].text);
        assert_eq!(second.secrets[1].expires_at, Some(NOW + 24 * HOUR));
        let third = rotate(&second, 48 * HOUR, NOW + HOUR);
        assert_eq!(third.secrets[2].expires_at, Some(NOW + 24 * HOUR));
        let later = rotate(&third, HOUR, NOW + 25 * HOUR);
        assert_eq!(later.secrets.len(), 3, "the first one has ended");
        let alone = rotate(&later, Duration::ZERO, NOW + 25 * HOUR);
        assert_eq!((alone.secrets.len(), alone.key_pairs.len()), (1, 1));
        assert_eq!(alone.target_epoch, 4);
    }

    #[test]
    fn sig_04_no_live_secret_is_dropped_to_make_room() {
        let mut full = endpoint(&plain());
        for _ in 1..MAX_SECRETS {
            full = rotate(&full, 24 * HOUR, NOW);
        }
        let rng = &mut posthorn_runtime::rng::rng();
        let refused = rotated(&full, 24 * HOUR, NOW, rng).unwrap_err();
        assert_eq!(refused.status().as_u16(), 409);
        assert_eq!(rotate(&full, Duration::ZERO, NOW).secrets.len(), 1);
    }

    #[test]
    fn pausing_keeps_the_reason_and_resuming_clears_any() {
        let mut gone = endpoint(&plain());
        gone.disabled = Some((DisabledReason::Gone, NOW));
        assert_eq!(paused(&gone, NOW + HOUR).disabled, gone.disabled);
        let back = resumed(&gone, NOW + HOUR);
        assert_eq!((back.disabled, back.target_epoch), (None, 1));
        let held = paused(&endpoint(&plain()), NOW);
        assert_eq!(held.disabled, Some((DisabledReason::Paused, NOW)));
        let back = resumed(&held, NOW);
        assert_eq!((back.disabled, back.target_epoch), (None, 0));
        let off = json!({"url": "https://example.com/", "enabled": false});
        assert_eq!(
            endpoint(&off).disabled_reason(),
            Some(DisabledReason::Paused)
        );
    }

    #[test]
    fn every_way_of_enabling_adds_the_pause_that_ends_to_those_before() {
        let paused_once = paused(&endpoint(&plain()), NOW);
        let back = resumed(&paused_once, NOW + HOUR);
        assert_eq!((back.disabled, back.disabled_before), (None, HOUR));
        // What is enabled already has no pause that could be counted twice.
        assert_eq!(resumed(&back, NOW + 9 * HOUR).disabled_before, HOUR);
        let again = paused(&back, NOW + 10 * HOUR);
        assert_eq!(paused(&again, NOW + 11 * HOUR).disabled, again.disabled);
        let rng = &mut posthorn_runtime::rng::rng();
        let enabled = patched(&again, draft(&plain()), NOW + 12 * HOUR, rng);
        assert_eq!(
            (enabled.disabled, enabled.disabled_before),
            (None, 3 * HOUR)
        );
        let mut gone = enabled;
        gone.disabled = Some((DisabledReason::Gone, NOW + 12 * HOUR));
        assert_eq!(resumed(&gone, NOW + 13 * HOUR).disabled_before, 4 * HOUR);
    }

    #[test]
    fn how_it_flows_is_as_it_was_written_last() {
        let written = json!({"url": "https://example.com/", "ordering": "fifo", "max_backlog": 7,
                             "rate_limit": {"per_second": 0.5}, "max_in_flight": 3});
        let made = endpoint(&written);
        assert_eq!(made.ordering, Ordering::Fifo);
        assert_eq!(made.rate_limit.map(|limit| limit.milli()), Some(500));
        assert_eq!((made.max_in_flight, made.max_backlog), (3, 7));
        let rng = &mut posthorn_runtime::rng::rng();
        let reset = patched(&made, draft(&plain()), NOW, rng);
        assert_eq!((reset.ordering, reset.rate_limit), (Ordering::None, None));
        assert_eq!((reset.max_in_flight, reset.max_backlog), (32, 1_000_000));
        assert_eq!(reset.target_epoch, made.target_epoch);
    }
}
