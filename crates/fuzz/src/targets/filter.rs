//! Filters of dead letters, as they are asked for and as a job keeps them.

use bytes::Bytes;
use posthorn_delivery::{
    DeadLetter, EndpointId, LetterId, LetterState, Reason, Tenant, UnixMillis,
};
use posthorn_dlq_admin::filter::LetterFilter;

/// A filter is the same when it is read again, and the subject it stands for is of one tenant
/// and one endpoint or of all, and never of what somebody wrote.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(filter) = LetterFilter::from_json(text) else {
        return;
    };
    let again = LetterFilter::from_json(&filter.to_json());
    assert_eq!(
        again.as_ref(),
        Ok(&filter),
        "another filter when it is read again"
    );
    let (tenant, endpoint) = filter.tokens();
    assert!(tenant == "*" || Tenant::parse_any(tenant).is_ok());
    assert!(endpoint == "*" || EndpointId::parse(endpoint).is_ok());
    assert_eq!(tenant == "*", filter.asked().tenant.is_none());
    assert_eq!(endpoint == "*", filter.asked().endpoint.is_none());
    let letter = letter();
    if filter.matches(&letter) {
        let asked = filter.asked();
        assert!(
            asked
                .tenant
                .as_ref()
                .is_none_or(|tenant| *tenant == letter.tenant)
        );
        assert!(
            asked
                .reason
                .as_ref()
                .is_none_or(|r| r == letter.reason.as_str())
        );
    }
}

fn letter() -> DeadLetter {
    DeadLetter {
        id: LetterId::of_unreadable("EVENTS", 1, 1),
        tenant: "acme".to_owned(),
        event_id: String::new(),
        event_type: "invoice.paid".to_owned(),
        endpoint_id: Some(EndpointId::from_bits(1)),
        reason: Reason::Exhausted,
        detail: String::new(),
        died_at: UnixMillis(1_700_000_000_000),
        accepted_at: UnixMillis(1_700_000_000_000),
        payload: Bytes::new(),
        content_type: String::new(),
        headers: Vec::new(),
        traceparent: None,
        history: Vec::new(),
        state: LetterState::Dead,
        state_since: UnixMillis(1_700_000_000_000),
        replay_generation: 0,
        replays: 0,
        event_seq: 1,
        replay_id: String::new(),
        entry: 0,
        answer: String::new(),
    }
}
