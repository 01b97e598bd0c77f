//! Subscriptions. The input is a pattern's line and a type's.

use super::split_at;
use posthorn_delivery::{EventType, Pattern, Tenant};

/// A pattern matches what NATS says that it matches, and neither pattern, type nor tenant holds
/// what would change a subject.
pub(crate) fn run(data: &[u8]) {
    let (pattern, event_type) = split_at(data, b'\n');
    let (pattern, event_type) = (
        std::str::from_utf8(pattern).unwrap_or_default(),
        std::str::from_utf8(event_type).unwrap_or_default(),
    );
    if let Ok(tenant) = Tenant::parse(pattern) {
        assert!(
            !tenant
                .as_str()
                .contains(['.', '*', '>', ' ', '\r', '\n', '\0'])
        );
    }
    let read = EventType::parse(event_type);
    if let Ok(read) = &read {
        assert!(!read.as_str().contains(['*', '>', ' ', '\r', '\n', '\0']));
        assert!(read.as_str().split('.').all(|token| !token.is_empty()));
        assert!(Pattern::all().matches(read));
    }
    let (Ok(wanted), Ok(given)) = (Pattern::parse(pattern), read) else {
        return;
    };
    assert_eq!(wanted.to_string(), pattern);
    let expected = matches(
        &pattern.split('.').collect::<Vec<_>>(),
        &event_type.split('.').collect::<Vec<_>>(),
    );
    assert_eq!(
        wanted.matches(&given),
        expected,
        "{pattern} and {event_type}"
    );
}

fn matches(wanted: &[&str], given: &[&str]) -> bool {
    match (wanted, given) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        (["*", wanted @ ..], [_, given @ ..]) => matches(wanted, given),
        ([want, wanted @ ..], [have, given @ ..]) => want == have && matches(wanted, given),
        _ => false,
    }
}
