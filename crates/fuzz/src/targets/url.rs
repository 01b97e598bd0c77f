//! URLs of endpoints, as customers write them.

use crate::reachable::is_reachable;
use posthorn_egress::{EgressPolicy, MAX_URL_BYTES, PlainHttp, TargetUrl};

/// What is allowed is a name that DNS must answer for, or an address that is reachable by the
/// second table; it is the same URL when it is read again; and its text in logs holds nothing
/// but scheme, host and port.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let policy = EgressPolicy::locked_down().with_plain_http(PlainHttp::Anywhere);
    let Ok(target) = TargetUrl::parse(text, &policy) else {
        return;
    };
    assert!(target.as_str().len() <= MAX_URL_BYTES);
    assert!(target.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
    assert_ne!(target.port(), 0);
    let again = TargetUrl::parse(target.as_str(), &policy);
    assert_eq!(
        again.as_ref(),
        Ok(&target),
        "another URL when it is read again"
    );
    match target.literal_ip() {
        Some(address) => assert!(is_reachable(address), "{address} is allowed"),
        None => check_name(target.host()),
    }
    let shown = format!(
        "{}://{}:{}",
        target.url().scheme(),
        target.host(),
        target.port()
    );
    assert_eq!(
        (target.to_string(), format!("{target:?}")),
        (shown.clone(), shown)
    );
}

/// Nothing that a resolver of another kind would take for an address, and nothing local.
fn check_name(host: &str) {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x");
    let is_number = hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || last.bytes().all(|byte| byte.is_ascii_digit());
    assert!(!is_number, "{host} may be read as an address");
    let ends_in = |end: &str| host == end || host.ends_with(&format!(".{end}"));
    for local in ["localhost", "local", "internal"] {
        assert!(!ends_in(local), "{host} is local");
    }
    assert!(
        host.len() <= 253 && host.contains('.'),
        "{host} is no public name"
    );
}
