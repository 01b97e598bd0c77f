//! Is this address a server on the internet?

use std::net::{IpAddr, Ipv6Addr};

use crate::embedding::{canonical, embedded, is_well_known_nat64};
use crate::range::{Range, special_v4, special_v6};

/// What an address is, before any allow or deny list is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// Globally reachable unicast.
    Global,
    /// Anything else, with the block that makes it so.
    Forbidden(Range),
}

/// Classifies an address, and every IPv4 address that is embedded in it.
///
/// A mapped address is what the IPv4 address is, and so is one under the well-known NAT64
/// prefix. Any other IPv6 address is forbidden by its own block or by what it embeds.
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    let found = match canonical(address) {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => own_block(v6).or_else(|| embedded(v6).find_map(special_v4)),
    };
    found.map_or(AddressClass::Global, AddressClass::Forbidden)
}

/// The well-known NAT64 prefix lies outside global unicast and is globally reachable all the
/// same (RFC 6052): only what it embeds counts.
fn own_block(address: Ipv6Addr) -> Option<Range> {
    if is_well_known_nat64(address) {
        return None;
    }
    special_v6(address)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod edges;
