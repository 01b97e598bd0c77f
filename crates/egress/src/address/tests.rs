use std::net::Ipv4Addr;

use super::*;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    match classify(text.parse().unwrap()) {
        AddressClass::Global => "global".to_owned(),
        AddressClass::Forbidden(range) => range.to_string(),
    }
}

#[test]
fn ssrf_04_special_use_ipv4_is_forbidden() {
    for (first, last, range) in [
        ("0.0.0.0", "0.0.0.0", "unspecified (0.0.0.0/32)"),
        ("0.0.0.1", "0.255.255.255", "this network (0.0.0.0/8)"),
        ("10.0.0.0", "10.255.255.255", "private-use (10.0.0.0/8)"),
        (
            "100.64.0.0",
            "100.127.255.255",
            "shared address space of carrier-grade NAT (100.64.0.0/10)",
        ),
        ("127.0.0.0", "127.255.255.255", "loopback (127.0.0.0/8)"),
        (
            "168.63.129.16",
            "168.63.129.16",
            "cloud platform service (168.63.129.16/32)",
        ),
        (
            "169.254.0.0",
            "169.254.255.255",
            "link-local (169.254.0.0/16)",
        ),
        (
            "172.16.0.0",
            "172.31.255.255",
            "private-use (172.16.0.0/12)",
        ),
        (
            "192.0.0.0",
            "192.0.0.255",
            "IETF protocol assignments (192.0.0.0/24)",
        ),
        ("192.0.2.0", "192.0.2.255", "documentation (192.0.2.0/24)"),
        (
            "192.88.99.0",
            "192.88.99.255",
            "6to4 relay anycast (192.88.99.0/24)",
        ),
        (
            "192.168.0.0",
            "192.168.255.255",
            "private-use (192.168.0.0/16)",
        ),
        (
            "198.18.0.0",
            "198.19.255.255",
            "benchmarking (198.18.0.0/15)",
        ),
        (
            "198.51.100.0",
            "198.51.100.255",
            "documentation (198.51.100.0/24)",
        ),
        (
            "203.0.113.0",
            "203.0.113.255",
            "documentation (203.0.113.0/24)",
        ),
        ("224.0.0.0", "239.255.255.255", "multicast (224.0.0.0/4)"),
        ("240.0.0.0", "255.255.255.254", "reserved (240.0.0.0/4)"),
        (
            "255.255.255.255",
            "255.255.255.255",
            "limited broadcast (255.255.255.255/32)",
        ),
    ] {
        assert_eq!(shown(first), range, "{first}");
        assert_eq!(shown(last), range, "{last}");
    }
}

#[test]
fn ssrf_04_the_neighbours_of_every_range_are_global() {
    for address in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "8.8.8.8",
    ] {
        assert_eq!(shown(address), "global", "{address}");
    }
}

#[test]
fn ssrf_02_special_use_ipv6_is_forbidden() {
    for (address, range) in [
        ("::", "unspecified (::/128)"),
        ("::1", "loopback (::1/128)"),
        ("::8.8.8.8", "IPv4-compatible (::/96)"),
        (
            "64:ff9b:1::8.8.8.8",
            "local-use IPv4/IPv6 translation (64:ff9b:1::/48)",
        ),
        ("100::1", "discard-only (100::/64)"),
        ("100:0:0:1::1", "dummy prefix (100:0:0:1::/64)"),
        ("100:0:0:2::1", "outside global unicast (::/0)"),
        ("2001::1", "Teredo (2001::/32)"),
        ("2001:1::1", "IETF protocol assignments (2001::/23)"),
        ("2001:1ff:ffff::", "IETF protocol assignments (2001::/23)"),
        ("2001:2::1", "benchmarking (2001:2::/48)"),
        ("2001:10::1", "ORCHID (2001:10::/28)"),
        ("2001:2f::1", "ORCHIDv2 (2001:20::/28)"),
        ("2001:3f::1", "drone remote identification (2001:30::/28)"),
        ("2001:db8::1", "documentation (2001:db8::/32)"),
        ("2002:808:808::1", "6to4 (2002::/16)"),
        ("3fff:fff::1", "documentation (3fff::/20)"),
        ("5f00::1", "segment routing identifiers (5f00::/16)"),
        ("fc00::1", "unique-local (fc00::/7)"),
        ("fd00:ec2::253", "unique-local (fc00::/7)"),
        (
            "fd00:ec2::254",
            "cloud platform service (fd00:ec2::254/128)",
        ),
        ("fd20:ce::254", "cloud platform service (fd20:ce::254/128)"),
        ("fe80::1", "link-local (fe80::/10)"),
        ("febf::1", "link-local (fe80::/10)"),
        ("fec0::1", "site-local (fec0::/10)"),
        ("ff02::1", "multicast (ff00::/8)"),
        ("4000::1", "outside global unicast (::/0)"),
        ("1fff:ffff::1", "outside global unicast (::/0)"),
        ("::ffff:0:8.8.8.8", "outside global unicast (::/0)"),
        ("64:ff9b:0:1::8.8.8.8", "outside global unicast (::/0)"),
    ] {
        assert_eq!(shown(address), range, "{address}");
    }
}

#[test]
fn ordinary_ipv6_is_global() {
    for address in [
        "2000::",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2001:db7::1",
        "2001:db9::1",
        "2003::1",
        "2606:4700::1111",
        "2a00:1450::1",
        "3fff:1000::1",
        "3fff:ffff::1",
    ] {
        assert_eq!(shown(address), "global", "{address}");
    }
}

#[test]
fn ssrf_02_mapped_addresses_are_unwrapped() {
    for (address, range) in [
        ("::ffff:169.254.169.254", "link-local (169.254.0.0/16)"),
        ("::ffff:7f00:1", "loopback (127.0.0.0/8)"),
        ("0:0:0:0:0:ffff:10.0.0.5", "private-use (10.0.0.0/8)"),
        ("::ffff:0.0.0.0", "unspecified (0.0.0.0/32)"),
        ("::ffff:8.8.8.8", "global"),
    ] {
        assert_eq!(shown(address), range, "{address}");
    }
}

#[test]
fn ssrf_02_isatap_under_a_global_prefix_is_unwrapped() {
    assert_eq!(shown("2a00::5efe:10.0.0.5"), "private-use (10.0.0.0/8)");
    assert_eq!(
        shown("2a00::200:5efe:169.254.169.254"),
        "link-local (169.254.0.0/16)"
    );
    assert_eq!(shown("2a00::5efe:8.8.8.8"), "global");
}

/// Half of the addresses come from forbidden blocks; blind choice would seldom meet them.
fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    let special = prop::sample::select(vec![
        0x0a00_0000_u32,
        0x7f00_0000,
        0xa9fe_0000,
        0xac10_0000,
        0xc0a8_0000,
        0x6440_0000,
        0,
        0xe000_0000,
    ]);
    prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from),
        (special, 0..=0xffff_u32).prop_map(|(net, host)| Ipv4Addr::from(net | host)),
    ]
}

proptest! {
    #[test]
    fn ssrf_02_every_embedding_of_a_forbidden_ipv4_is_forbidden(v4 in any_v4(), other: u32, prefix: u64) {
        let inner = classify(IpAddr::V4(v4));
        let bits = u128::from(u32::from(v4));
        let nat64 = 0x0064_ff9b_u128 << 96;
        let mapped = IpAddr::V6(Ipv6Addr::from(0xffff_u128 << 32 | bits));
        prop_assert_eq!(classify(mapped), inner);
        prop_assert_eq!(classify(IpAddr::V6(Ipv6Addr::from(nat64 | bits))), inner);

        let other = u128::from(other);
        let flipped = u128::from(!u32::from(v4));
        for outer in [
            bits,
            nat64 | 1 << 80 | bits,
            nat64 | 1 << 80 | (bits >> 16) << 64 | (bits & 0xffff) << 40,
            0x2002_u128 << 112 | bits << 80 | other,
            0x2001_u128 << 112 | bits << 64 | other,
            0x2001_u128 << 112 | other << 64 | flipped,
        ] {
            let class = classify(IpAddr::V6(Ipv6Addr::from(outer)));
            prop_assert!(matches!(class, AddressClass::Forbidden(_)), "{outer:x}");
        }
        if let AddressClass::Forbidden(_) = inner {
            let isatap = u128::from(prefix) << 64 | 0x5efe_u128 << 32 | bits;
            let class = classify(IpAddr::V6(Ipv6Addr::from(isatap)));
            prop_assert!(matches!(class, AddressClass::Forbidden(_)));
        }
    }

    /// An independent statement of the rule for IPv6: nothing outside of 2000::/3 and NAT64.
    #[test]
    fn outside_global_unicast_only_nat64_is_global(bits: u128) {
        let address = Ipv6Addr::from(bits);
        let first = address.segments()[0];
        if classify(IpAddr::V6(address)) == AddressClass::Global {
            prop_assert!((0x2000..0x4000).contains(&first) || first == 0x64);
        }
    }

    /// The standard library's predicates cover less than this crate, and never more.
    #[test]
    fn what_the_standard_library_calls_special_is_forbidden(v4 in any_v4()) {
        let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        if special {
            prop_assert!(matches!(classify(IpAddr::V4(v4)), AddressClass::Forbidden(_)));
        }
    }
}
