use super::*;
use posthorn_delivery::breaker::{Attempted, BreakerSignal, claim, close_by_hand, observe};
use posthorn_delivery::endpoint::{Hidden, limits};
use posthorn_delivery::{BreakerPolicy, LetterState, Ordering, RetryPolicy};
use std::collections::HashSet;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn endpoint(tenant: &str) -> Endpoint {
    Endpoint {
        id: EndpointId::from_bits(1),
        tenant: Tenant::parse_any(tenant).unwrap(),
        url: Hidden::new("https://user:hush@example.com/hush".to_owned()),
        event_types: Vec::new(),
        description: String::new(),
        headers: vec![("X-Token".to_owned(), Hidden::new("hush".to_owned()))],
        signatures: vec!["v1".to_owned()],
        secrets: Vec::new(),
        key_pairs: Vec::new(),
        disabled: None,
        disabled_before: Duration::ZERO,
        ordering: Ordering::None,
        rate_limit: None,
        max_backlog: limits::MAX_BACKLOG,
        retry: RetryPolicy::default(),
        timeout: Duration::from_secs(15),
        max_in_flight: 32,
        breaker: Some(BreakerPolicy::default()),
        target_epoch: 0,
        created_at: NOW,
        updated_at: NOW,
    }
}

fn letter(tenant: &str, bits: u64) -> DeadLetter {
    DeadLetter {
        id: LetterId::of_unreadable("events", 1, bits),
        tenant: tenant.to_owned(),
        event_id: EventId::from_bits(u128::from(bits)).to_string(),
        event_type: "invoice.paid".to_owned(),
        endpoint_id: Some(EndpointId::from_bits(1)),
        reason: Reason::Exhausted,
        detail: "hush".to_owned(),
        died_at: NOW,
        accepted_at: NOW,
        payload: "hush".into(),
        content_type: "text/plain".to_owned(),
        headers: vec![("ce-x".to_owned(), "hush".to_owned())],
        traceparent: None,
        history: Vec::new(),
        state: LetterState::Dead,
        state_since: NOW,
        replay_generation: 0,
        replays: 0,
        event_seq: 1,
        replay_id: String::new(),
        entry: 0,
        answer: "hush".to_owned(),
    }
}

fn after(
    state: &BreakerState,
    probe: bool,
    signal: BreakerSignal,
    now: UnixMillis,
) -> BreakerState {
    let attempted = Attempted {
        generation: state.generation,
        probe,
        signal,
        count: 5,
        hold_until: None,
    };
    observe(state, Some(&BreakerPolicy::default()), attempted, now).unwrap()
}

/// An outage with two failed probes, told by whoever makes each move.
#[test]
fn an_outage_is_told_when_it_begins_and_when_it_ends() {
    let of = endpoint("acme");
    let lease = Duration::from_secs(20);
    let mut states = vec![BreakerState::default()];
    let (mut now, mut kinds) = (NOW, Vec::new());
    let signals = [
        (false, BreakerSignal::Failure),
        (true, BreakerSignal::Failure),
        (true, BreakerSignal::Failure),
        (true, BreakerSignal::Success),
    ];
    for (probe, signal) in signals {
        let state = states.last().unwrap().clone();
        let from = match probe {
            true => claim(&state, "d", lease, now),
            false => state.clone(),
        };
        assert_eq!(
            Notice::of_breaker(&of, &state, &from),
            None,
            "a claim is no news"
        );
        let to = after(&from, probe, signal, now);
        if let Some(notice) = Notice::of_breaker(&of, &from, &to) {
            kinds.push((notice.event_type(), notice.id(now)));
        }
        now = to.open_until;
        states.push(to);
    }
    let names: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        names,
        ["posthorn.breaker.opened", "posthorn.breaker.closed"]
    );
    let by_hand = close_by_hand(&states[1]);
    let told = Notice::of_breaker(&of, &states[1], &by_hand).unwrap();
    assert_eq!(told.event_type(), "posthorn.breaker.closed");
}

#[test]
fn nothing_about_the_reserved_tenant_is_told() {
    let mut own = endpoint("_posthorn");
    let opened = after(&BreakerState::default(), false, BreakerSignal::Failure, NOW);
    let told = Notice::of_breaker(&own, &BreakerState::default(), &opened);
    assert!(told.unwrap().is_about_itself());
    own.disabled = Some((DisabledReason::Gone, NOW));
    assert!(Notice::of_disabled(&own).unwrap().is_about_itself());
    assert!(Notice::of_failing(&own, NOW).is_about_itself());
    let key = MessageId::of("letter", &[b"1"]);
    assert_eq!(
        Notice::of_letter(&letter("_posthorn", 1), key.clone()),
        None
    );
    let unreadable = Notice::of_letter(&letter("a.b", 1), key).unwrap();
    assert!(!unreadable.is_about_itself());
}

#[test]
fn what_an_operator_switches_off_he_knows() {
    let mut paused = endpoint("acme");
    assert_eq!(Notice::of_disabled(&paused), None);
    paused.disabled = Some((DisabledReason::Paused, NOW));
    assert_eq!(Notice::of_disabled(&paused), None);
}

#[test]
fn each_death_has_an_id_of_its_own_and_keeps_it() {
    let id = |death: &[u8]| {
        let key = MessageId::of("letter", &[death]);
        Notice::of_letter(&letter("acme", 1), key).unwrap().id(NOW)
    };
    assert_eq!(id(b"first"), id(b"first"));
    assert_ne!(
        id(b"first"),
        id(b"second"),
        "it was replayed and died again"
    );
}

#[test]
fn what_has_no_beginning_is_told_once_an_hour() {
    let late = |seconds| Notice::DueLate {
        oldest: Duration::from_secs(seconds),
    };
    let minutes = |n: i64| UnixMillis(NOW.0 + n * 60_000);
    assert_eq!(late(300).id(minutes(0)), late(900).id(minutes(59)));
    assert_ne!(late(300).id(minutes(0)), late(300).id(minutes(60)));
    let growing = Notice::DlqGrowing {
        letters: 1,
        more: 1,
        within: Duration::ZERO,
    };
    assert_ne!(late(300).id(NOW), growing.id(NOW));
}

#[test]
fn dlq_06_no_notice_holds_a_secret_a_payload_or_a_url() {
    let mut of = endpoint("acme");
    of.disabled = Some((DisabledReason::Gone, NOW));
    let opened = after(&BreakerState::default(), false, BreakerSignal::Failure, NOW);
    let key = MessageId::of("letter", &[b"1"]);
    let all = [
        Notice::of_letter(&letter("acme", 1), key),
        Notice::of_breaker(&of, &BreakerState::default(), &opened),
        Notice::of_breaker(&of, &opened, &close_by_hand(&opened)),
        Notice::of_disabled(&of),
        Some(Notice::of_failing(&of, NOW)),
    ];
    let mut types = HashSet::new();
    for notice in all.map(Option::unwrap) {
        let event = notice.event(NOW);
        let text = String::from_utf8(event.payload.to_vec()).unwrap();
        assert!(
            !text.contains("hush") && !text.contains("example.com"),
            "{text}"
        );
        assert!(event.headers.is_empty());
        types.insert(event.event_type.as_str().to_owned());
    }
    assert_eq!(types.len(), 5);
}
