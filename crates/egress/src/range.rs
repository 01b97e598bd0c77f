//! The ranges that are not somebody's server on the internet.
//!
//! From the IANA IPv4 and IPv6 special-purpose address registries: every block that is not
//! globally reachable, and multicast. Where a registry carves a globally reachable address out of
//! such a block (anycast of port control and relay protocols in `192.0.0.0/24` and `2001::/23`)
//! the whole block stays forbidden: those addresses are answered by the nearest gateway, which is
//! the operator's own.
//!
//! The predicates of the standard library are not used: the stable ones say nothing of carrier
//! grade NAT, `0.0.0.0/8`, benchmarking or the reserved block.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A named block of addresses. Shown as `private-use (10.0.0.0/8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    name: &'static str,
    net: IpNet,
    own: bool,
}

impl Range {
    const fn v4(name: &'static str, [a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        let net = Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix);
        Self {
            name,
            net: IpNet::V4(net),
            own: false,
        }
    }

    /// One address.
    const fn one_v6(name: &'static str, address: Ipv6Addr) -> Self {
        Self {
            name,
            net: IpNet::V6(Ipv6Net::new_assert(address, 128)),
            own: false,
        }
    }

    /// A block that operators number their own machines from.
    const fn own(self) -> Self {
        Self { own: true, ..self }
    }

    /// The segments are the first four of eight; the rest is zero.
    const fn v6(name: &'static str, [a, b, c, d]: [u16; 4], prefix: u8) -> Self {
        let net = Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), prefix);
        Self {
            name,
            net: IpNet::V6(net),
            own: false,
        }
    }

    /// Whether operators number their own machines from the block: a host name that they trust
    /// may lead there.
    pub(crate) const fn is_own_network(&self) -> bool {
        self.own
    }

    /// What the block is for, in the words of its registry.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The block.
    #[must_use]
    pub const fn net(&self) -> IpNet {
        self.net
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.net)
    }
}

const CLOUD: &str = "cloud platform service";

/// The more specific comes first: the first match gives the name.
const V4: [Range; 18] = [
    Range::v4("unspecified", [0, 0, 0, 0], 32),
    Range::v4("this network", [0, 0, 0, 0], 8),
    Range::v4("private-use", [10, 0, 0, 0], 8).own(),
    // Inside of the next: where Alibaba's machines are told their credentials.
    Range::v4(CLOUD, [100, 100, 100, 200], 32),
    Range::v4(
        "shared address space of carrier-grade NAT",
        [100, 64, 0, 0],
        10,
    )
    .own(),
    Range::v4("loopback", [127, 0, 0, 0], 8).own(),
    // Public by its number, yet answered by the host underneath every virtual machine of Azure.
    Range::v4(CLOUD, [168, 63, 129, 16], 32),
    Range::v4("link-local", [169, 254, 0, 0], 16),
    Range::v4("private-use", [172, 16, 0, 0], 12).own(),
    Range::v4("IETF protocol assignments", [192, 0, 0, 0], 24),
    Range::v4("documentation", [192, 0, 2, 0], 24),
    Range::v4("6to4 relay anycast", [192, 88, 99, 0], 24),
    Range::v4("private-use", [192, 168, 0, 0], 16).own(),
    Range::v4("benchmarking", [198, 18, 0, 0], 15),
    Range::v4("documentation", [198, 51, 100, 0], 24),
    Range::v4("documentation", [203, 0, 113, 0], 24),
    Range::v4("multicast", [224, 0, 0, 0], 4),
    Range::v4("reserved", [240, 0, 0, 0], 4),
];

const BROADCAST: Range = Range::v4("limited broadcast", [255, 255, 255, 255], 32);

const LOOPBACK_V6: Range = Range::one_v6("loopback", Ipv6Addr::LOCALHOST).own();

const V6: [Range; 21] = [
    Range::v6("unspecified", [0, 0, 0, 0], 128),
    Range::v6("IPv4-compatible", [0, 0, 0, 0], 96),
    Range::v6("local-use IPv4/IPv6 translation", [0x64, 0xff9b, 1, 0], 48),
    Range::v6("discard-only", [0x100, 0, 0, 0], 64),
    Range::v6("dummy prefix", [0x100, 0, 0, 1], 64),
    Range::v6("Teredo", [0x2001, 0, 0, 0], 32),
    Range::v6("benchmarking", [0x2001, 2, 0, 0], 48),
    Range::v6("ORCHID", [0x2001, 0x10, 0, 0], 28),
    Range::v6("ORCHIDv2", [0x2001, 0x20, 0, 0], 28),
    Range::v6("drone remote identification", [0x2001, 0x30, 0, 0], 28),
    Range::v6("IETF protocol assignments", [0x2001, 0, 0, 0], 23),
    Range::v6("documentation", [0x2001, 0xdb8, 0, 0], 32),
    Range::v6("6to4", [0x2002, 0, 0, 0], 16),
    Range::v6("documentation", [0x3fff, 0, 0, 0], 20),
    Range::v6("segment routing identifiers", [0x5f00, 0, 0, 0], 16),
    // Inside of the next: where machines of Amazon and Google are told their credentials.
    Range::one_v6(CLOUD, Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    Range::one_v6(CLOUD, Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    Range::v6("unique-local", [0xfc00, 0, 0, 0], 7).own(),
    Range::v6("link-local", [0xfe80, 0, 0, 0], 10),
    Range::v6("site-local", [0xfec0, 0, 0, 0], 10),
    Range::v6("multicast", [0xff00, 0, 0, 0], 8),
];

/// Everything that IANA has not given out for global unicast, and no block above names.
const OUTSIDE: Range = Range::v6("outside global unicast", [0, 0, 0, 0], 0);

const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The forbidden block that the IPv4 address lies in.
pub(crate) fn special_v4(address: Ipv4Addr) -> Option<Range> {
    if address.is_broadcast() {
        return Some(BROADCAST);
    }
    first(&V4, IpAddr::V4(address))
}

/// The forbidden block that the IPv6 address itself lies in, whatever it may embed.
pub(crate) fn special_v6(address: Ipv6Addr) -> Option<Range> {
    if address.is_loopback() {
        return Some(LOOPBACK_V6);
    }
    first(&V6, IpAddr::V6(address))
        .or_else(|| (!GLOBAL_UNICAST.contains(&address)).then_some(OUTSIDE))
}

fn first(ranges: &[Range], address: IpAddr) -> Option<Range> {
    ranges
        .iter()
        .find(|range| range.net.contains(&address))
        .copied()
}
