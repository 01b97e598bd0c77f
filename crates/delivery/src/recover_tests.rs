use super::*;
use crate::attempt::AttemptResult;
use crate::breaker::BreakerSignal;
use crate::endpoint::DisabledReason;
use crate::letter::{DeadLetter, Reason};
use crate::testing::{NOW, delivery, endpoint};

const OURS: u64 = 77;
const DAY: Duration = Duration::from_secs(86_400);

fn record(disposition: Disposition, generation: u64, at: UnixMillis) -> Attempt {
    let of = delivery();
    Attempt {
        tenant: of.tenant,
        event_id: of.event_id,
        event_type: of.event_type,
        endpoint_id: of.endpoint_id,
        number: 1,
        hop: 0,
        replay_generation: generation,
        at,
        latency_ms: 1,
        result: AttemptResult::Status(500),
        response_body: bytes::Bytes::new(),
        disposition,
        breaker_generation: 0,
        probe: false,
        breaker_signal: BreakerSignal::Neutral,
        hold_until: None,
        disable_endpoint: false,
        in_order: false,
        detail: String::new(),
        exchange: None,
    }
}

fn retry() -> Disposition {
    Disposition::Retry {
        not_before: NOW + Duration::from_secs(1),
        same_attempt: false,
    }
}

/// The standing after records of these dispositions and generations.
fn after(records: &[(Disposition, u64)]) -> Known {
    let standing = records.iter().fold(
        Standing::default(),
        |standing, (disposition, generation)| {
            standing.after(&record(*disposition, *generation, NOW), OURS)
        },
    );
    Known {
        standing,
        generation: OURS,
        ..Known::default()
    }
}

fn decided(known: &Known, include_delivered: bool) -> Fate {
    fate(known, &endpoint(), include_delivered, NOW)
}

#[test]
fn fan_04_what_was_never_tried_given_up_or_skipped_is_owed() {
    for records in [
        vec![],
        vec![(Disposition::Skipped, 0)],
        vec![(Disposition::Dead(Reason::Exhausted), 0)],
        vec![(retry(), 0), (Disposition::Dead(Reason::Expired), 0)],
    ] {
        assert_eq!(decided(&after(&records), false), Fate::Send, "{records:?}");
    }
}

#[test]
fn what_was_delivered_comes_again_only_when_asked_for() {
    for records in [
        vec![(Disposition::Complete, 0)],
        vec![(retry(), 0), (Disposition::Complete, 0)],
        vec![
            (Disposition::Dead(Reason::Gone), 0),
            (Disposition::Complete, 5),
        ],
        vec![
            (Disposition::Complete, 5),
            (Disposition::Dead(Reason::Gone), 6),
        ],
    ] {
        let known = after(&records);
        assert_eq!(decided(&known, false), Fate::Delivered, "{records:?}");
        assert_eq!(decided(&known, true), Fate::Send, "{records:?}");
    }
}

#[test]
fn what_is_under_way_is_left_to_the_line() {
    let places = [
        Known {
            waiting: Some(0),
            ..after(&[])
        },
        Known {
            waiting: Some(5),
            ..after(&[(Disposition::Complete, 0)])
        },
        Known {
            before_fan_out: true,
            ..after(&[])
        },
        Known {
            deliver_at: Some(NOW + DAY),
            ..after(&[])
        },
        after(&[(retry(), 0)]),
        after(&[(Disposition::Complete, 0), (retry(), 5)]),
    ];
    for known in places {
        for include_delivered in [false, true] {
            assert_eq!(
                decided(&known, include_delivered),
                Fate::UnderWay,
                "{known:?}"
            );
        }
    }
}

#[test]
fn a_retry_that_never_came_is_given_up_after_the_life_of_its_delivery() {
    let known = after(&[(retry(), 0)]);
    let mut endpoint = endpoint();
    let life = endpoint.retry.max_age();
    let within = NOW + life;
    assert_eq!(fate(&known, &endpoint, false, within), Fate::UnderWay);
    let beyond = NOW + life + LATE;
    assert_eq!(fate(&known, &endpoint, false, beyond), Fate::Send);
    // Time paused does not count, up to what is credited.
    endpoint.disabled = Some((DisabledReason::Paused, NOW));
    assert_eq!(fate(&known, &endpoint, false, beyond), Fate::UnderWay);
    let credited = NOW + life + MAX_HOLD + LATE;
    assert_eq!(fate(&known, &endpoint, false, credited), Fate::Send);
}

#[test]
fn dlq_02_what_the_recovery_has_sent_itself_it_does_not_send_again() {
    let lying = Known {
        waiting: Some(OURS),
        ..after(&[])
    };
    for known in [
        lying,
        after(&[(retry(), OURS)]),
        after(&[(Disposition::Complete, OURS)]),
        after(&[
            (Disposition::Complete, 0),
            (Disposition::Dead(Reason::Gone), OURS),
        ]),
    ] {
        for include_delivered in [false, true] {
            assert_eq!(decided(&known, include_delivered), Fate::Sent, "{known:?}");
        }
    }
}

#[test]
fn a_recovered_event_has_a_fresh_budget_and_no_letter_when_it_is_delivered() {
    let of = delivery();
    let event = Event {
        id: of.event_id.clone(),
        tenant: of.tenant.clone(),
        event_type: of.event_type.clone(),
        payload: of.payload.clone(),
        content_type: of.content_type.clone(),
        headers: Vec::new(),
        traceparent: None,
        accepted_at: UnixMillis(NOW.0 - 600_000),
        deliver_at: None,
        only_endpoint: None,
    };
    let endpoint = endpoint();
    let generation = recovery_generation("rpl_1", &of.tenant, &of.event_id, &endpoint.id);
    let mark = ReplayMark {
        generation,
        replay_id: "rpl_1".to_owned(),
        count: 1,
        death: None,
    };
    let window = ReplayWindow {
        not_before: NOW,
        expires_at: NOW + DAY,
    };
    let sent = recovered(&event, &endpoint, 9, mark, window);
    assert_eq!(
        (sent.event_id.as_str(), sent.attempt),
        (event.id.as_str(), 1)
    );
    assert_eq!((sent.not_before, sent.expires_at), (NOW, NOW + DAY));
    assert_eq!((sent.event_seq, sent.accepted_at), (9, event.accepted_at));
    assert_eq!(sent.replay_generation(), generation);
    assert_eq!(DeadLetter::delivered(&sent, NOW), None);
    let letter = DeadLetter::of(&sent, Reason::Exhausted, NOW);
    assert_eq!((letter.replay_id.as_str(), letter.replays), ("rpl_1", 1));
}
