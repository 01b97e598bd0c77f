//! The first and the last address of every IPv6 block of the registries, and their neighbours.

use super::*;

fn is_global(text: &str) -> bool {
    classify(text.parse().unwrap()) == AddressClass::Global
}

/// First and last.
const BLOCKS: [(&str, &str); 23] = [
    ("::", "::"),
    ("::1", "::1"),
    ("::ffff:0:0", "::ffff:0.255.255.255"),
    ("64:ff9b::", "64:ff9b::0.255.255.255"),
    ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    ("100::", "100::ffff:ffff:ffff:ffff"),
    ("100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
    ("1fff:ffff::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
    ("2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:30::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

/// What comes before and after them, and whether it may be called.
const NEIGHBOURS: [(&str, bool); 22] = [
    ("::1", false),
    ("::", false),
    ("::2", false),
    ("::ffff:1.0.0.0", true),
    ("64:ff9b::1.0.0.0", true),
    ("64:ff9b:0:ffff:ffff:ffff:ffff:ffff", false),
    ("64:ff9b:2::", false),
    ("100:0:0:1::", false),
    ("100:0:0:2::", false),
    ("2000::", true),
    ("2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
    ("2001:200::", true),
    ("2001:2:1::", false),
    ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", true),
    ("2001:db9::", true),
    ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
    ("2003::", true),
    ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
    ("3fff:1000::", true),
    ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true),
    ("5f01::", false),
    ("fbff::", false),
];

#[test]
fn ssrf_02_the_edges_of_every_ipv6_block_are_inside_and_their_neighbours_are_judged_by_their_own() {
    for (first, last) in BLOCKS {
        assert!(!is_global(first), "{first}");
        assert!(!is_global(last), "{last}");
    }
    for (neighbour, global) in NEIGHBOURS {
        assert_eq!(is_global(neighbour), global, "{neighbour}");
    }
}

/// Every special block of IPv4 as the registry has it, in every form in which IPv6 carries one.
#[test]
fn ssrf_02_ssrf_04_the_edges_of_every_ipv4_block_are_forbidden_in_every_embedding() {
    for (first, last) in [
        ("0.0.0.0", "0.255.255.255"),
        ("10.0.0.0", "10.255.255.255"),
        ("100.64.0.0", "100.127.255.255"),
        ("127.0.0.0", "127.255.255.255"),
        ("169.254.0.0", "169.254.255.255"),
        ("172.16.0.0", "172.31.255.255"),
        ("192.0.0.0", "192.0.0.255"),
        ("192.0.2.0", "192.0.2.255"),
        ("192.88.99.0", "192.88.99.255"),
        ("192.168.0.0", "192.168.255.255"),
        ("198.18.0.0", "198.19.255.255"),
        ("198.51.100.0", "198.51.100.255"),
        ("203.0.113.0", "203.0.113.255"),
        ("224.0.0.0", "239.255.255.255"),
        ("240.0.0.0", "255.255.255.255"),
        ("168.63.129.16", "168.63.129.16"),
        ("100.100.100.200", "100.100.100.200"),
    ] {
        for v4 in [first, last] {
            let address: std::net::Ipv4Addr = v4.parse().unwrap();
            let [a, b, c, d] = address.octets();
            let flipped = std::net::Ipv4Addr::from(!u32::from(address));
            for text in [
                v4.to_owned(),
                format!("::ffff:{v4}"),
                format!("::{v4}"),
                format!("64:ff9b::{v4}"),
                format!("64:ff9b:1::{v4}"),
                format!("64:ff9b:1:{a:02x}{b:02x}:{c:02x}:{d:02x}00::"),
                format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
                format!("2001:0:{a:02x}{b:02x}:{c:02x}{d:02x}::"),
                format!("2001:0:808:808::{flipped}"),
                format!("2a00:1450::5efe:{v4}"),
                format!("2a00:1450::200:5efe:{v4}"),
            ] {
                assert!(!is_global(&text), "{text}");
            }
        }
    }
}
