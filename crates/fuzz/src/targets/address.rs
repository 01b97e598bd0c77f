//! Answers of DNS, under an operator's lists.
//!
//! The input is an allow list, a deny list, a list of ports and a host, each a line, and behind
//! them addresses of 4 or 16 bytes, each with a byte before it that says which.

use super::split_at;
use crate::reachable::{from_bytes, is_reachable};
use posthorn_egress::{AddressClass, EgressPolicy, EgressRules, classify};
use std::net::IpAddr;

/// Without lists only what is reachable is allowed; a denial never allows anything; an allowed
/// host never leads to where clouds keep their credentials; and an answer with one forbidden
/// address, or none at all, is forbidden.
pub(crate) fn run(data: &[u8]) {
    let (allow, rest) = text_line(data);
    let (deny, rest) = text_line(rest);
    let (ports, rest) = text_line(rest);
    let (host, rest) = text_line(rest);
    let addresses = addresses(rest);
    let plain = EgressPolicy::locked_down();
    check_plain(&plain, host, &addresses);
    let rules = EgressRules {
        allow,
        ports,
        ..EgressRules::default()
    };
    let open = EgressPolicy::read(&rules);
    let both = EgressPolicy::read(&EgressRules { deny, ..rules });
    if let (Ok(open), Ok(both)) = (open, both) {
        check_lists(&open, &both, host, &addresses);
        check_answers(&open, host, &addresses, allow);
    }
}

fn check_plain(plain: &EgressPolicy, host: &str, addresses: &[IpAddr]) {
    for &address in addresses {
        let allowed = plain.check_address(address).is_ok();
        assert!(!allowed || is_reachable(address), "{address} is allowed");
        assert_eq!(allowed, classify(address) == AddressClass::Global);
    }
    let each = addresses.iter().all(|&address| is_reachable(address));
    let allowed = plain.check_answer(host, addresses).is_ok();
    assert!(!allowed || (each && !addresses.is_empty()));
}

fn check_lists(open: &EgressPolicy, both: &EgressPolicy, host: &str, addresses: &[IpAddr]) {
    for &address in addresses {
        let plain = EgressPolicy::locked_down().check_address(address).is_ok();
        let opened = open.check_address(address).is_ok();
        assert!(!plain || opened, "an allow list forbids {address}");
        assert!(opened || both.check_address(address).is_err());
    }
    let opened = open.check_answer(host, addresses).is_ok();
    assert!(opened || both.check_answer(host, addresses).is_err());
}

fn check_answers(policy: &EgressPolicy, host: &str, addresses: &[IpAddr], allow: &str) {
    if policy.check_answer(host, addresses).is_err() {
        return;
    }
    assert!(!addresses.is_empty());
    // Without a colon or a slash there is a name in the list at most, or single addresses.
    let credentials: IpAddr = [169, 254, 169, 254].into();
    let listed = allow.contains(['/', ':']) || allow.contains("169.254.");
    assert!(
        listed || !addresses.contains(&credentials),
        "a name leads there"
    );
}

fn text_line(data: &[u8]) -> (&str, &[u8]) {
    let (line, rest) = split_at(data, b'\n');
    (std::str::from_utf8(line).unwrap_or_default(), rest)
}

fn addresses(mut data: &[u8]) -> Vec<IpAddr> {
    let mut found = Vec::new();
    while let Some((&kind, rest)) = data.split_first() {
        let length = if kind.is_multiple_of(2) { 4 } else { 16 };
        let Some((bytes, after)) = rest.split_at_checked(length) else {
            break;
        };
        found.extend(from_bytes(bytes));
        data = after;
    }
    found
}
