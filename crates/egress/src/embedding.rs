//! IPv4 addresses that hide inside IPv6 ones.
//!
//! Translators and tunnels deliver a packet for such an IPv6 address to the IPv4 address inside
//! it, so a rule that looks at the outside only is walked around by writing `10.0.0.5` in
//! another way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 address itself when the IPv6 one is only its mapped form (`::ffff:0:0/96`): a socket
/// connects to it by IPv4, so every rule must judge it as IPv4.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// Whether the address is `64:ff9b::/96`, which stands for the IPv4 address in its last 32 bits
/// and for nothing else.
pub(crate) fn is_well_known_nat64(address: Ipv6Addr) -> bool {
    address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
}

/// Every IPv4 address that a packet for this address may end up at. At most two.
pub(crate) fn embedded(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let s = address.segments();
    let last = v4(s[6], s[7]);
    let found = match s {
        // Mapped, and the compatible form that RFC 4291 retired.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => [Some(last), None],
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => [Some(last), None],
        // RFC 8215 lets the operator cut this block at will. The IPv4 address is in the last 32
        // bits, or (RFC 6052, prefix of 48) around the eight bits that are always zero.
        [0x64, 0xff9b, 1, ..] => [Some(last), Some(around_octet(s[3], s[4], s[5]))],
        [0x2002, ..] => [Some(v4(s[1], s[2])), None],
        // Teredo: the server, and the client with all its bits flipped.
        [0x2001, 0, ..] => [Some(v4(s[2], s[3])), Some(v4(!s[6], !s[7]))],
        // ISATAP lives in the interface identifier, under any prefix; the one bit that may be
        // set says that the IPv4 address is meant to be unique.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [Some(last), None],
        _ => [None, None],
    };
    found.into_iter().flatten()
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

/// The address whose first half is `high`, and whose second half begins in the low byte of
/// `middle` and ends in the high byte of `low`.
fn around_octet(high: u16, middle: u16, low: u16) -> Ipv4Addr {
    v4(high, middle << 8 | low >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> Vec<String> {
        let address: Ipv6Addr = text.parse().unwrap();
        embedded(address).map(|v4| v4.to_string()).collect()
    }

    #[test]
    fn every_form_is_unwrapped() {
        for (text, expected) in [
            ("::ffff:10.0.0.5", &["10.0.0.5"][..]),
            ("::10.0.0.5", &["10.0.0.5"]),
            ("64:ff9b::10.0.0.5", &["10.0.0.5"]),
            ("64:ff9b:1::10.0.0.5", &["10.0.0.5", "0.0.0.0"]),
            ("64:ff9b:1:a00:0:500::", &["0.0.0.0", "10.0.0.5"]),
            ("2002:a00:5::1", &["10.0.0.5"]),
            // The example of RFC 4380: server 65.54.227.120, client 192.0.2.45.
            (
                "2001:0:4136:e378:8000:63bf:3fff:fdd2",
                &["65.54.227.120", "192.0.2.45"],
            ),
            ("2a00::5efe:10.0.0.5", &["10.0.0.5"]),
            ("2a00::200:5efe:10.0.0.5", &["10.0.0.5"]),
            ("2a00::10.0.0.5", &[]),
            ("2a00:5efe::10.0.0.5", &[]),
        ] {
            assert_eq!(inside(text), expected, "{text}");
        }
    }

    #[test]
    fn only_the_mapped_form_is_another_spelling() {
        let canonical = |text: &str| canonical(text.parse().unwrap()).to_string();
        assert_eq!(canonical("::ffff:a00:5"), "10.0.0.5");
        assert_eq!(canonical("10.0.0.5"), "10.0.0.5");
        assert_eq!(canonical("::a00:5"), "::a00:5");
        assert_eq!(canonical("64:ff9b::a00:5"), "64:ff9b::a00:5");
    }
}
