//! Whether an address is somebody's server on the internet, said a second time.
//!
//! Written from the IANA registries as bit patterns, without the product's tables, its library
//! of networks or its unwrapping, so that a mistake there is not repeated here. It may forbid
//! less than the product does, and nothing that it forbids may be allowed there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address may be called where nothing is on an allow list.
pub(crate) fn is_reachable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4_is_reachable(u32::from(v4)),
        IpAddr::V6(v6) => v6_is_reachable(u128::from(v6)),
    }
}

fn v4_is_reachable(bits: u32) -> bool {
    let [a, b, c, d] = bits.to_be_bytes();
    let special = match (a, b, c) {
        (0 | 10 | 127, _, _) | (169, 254, _) | (192, 168, _) => true,
        (100, b, _) => (64..128).contains(&b),
        (172, b, _) => (16..32).contains(&b),
        (168, 63, 129) => d == 16,
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113) => true,
        (198, 18 | 19, _) => true,
        (a, _, _) => a >= 224,
    };
    !special
}

fn v6_is_reachable(bits: u128) -> bool {
    let low = || v4_is_reachable(bits as u32);
    match (bits >> 96) as u32 {
        // Mapped, by which a socket speaks IPv4; everything else up there is not given out.
        0 => bits >> 32 == 0xffff && low(),
        0x0064_ff9b => (bits >> 32) & 0xffff_ffff_ffff_ffff == 0 && low(),
        top => global_unicast_is_reachable(bits, top),
    }
}

fn global_unicast_is_reachable(bits: u128, top: u32) -> bool {
    // 2000::/3 is all that is given out for global unicast.
    if top >> 29 != 0b001 {
        return false;
    }
    // 2001::/23 (Teredo, ORCHID and their like), 2001:db8::/32, 2002::/16 and 3fff::/20.
    if top >> 9 == 0x2001_0000 >> 9 || top == 0x2001_0db8 {
        return false;
    }
    if top >> 16 == 0x2002 || top & 0xffff_f000 == 0x3fff_0000 {
        return false;
    }
    // ISATAP: an interface identifier of 0000:5efe or 0200:5efe before an IPv4 address.
    let identifier = (bits >> 32) as u32;
    let is_isatap = identifier & !0x0200_0000 == 0x5efe;
    !is_isatap || v4_is_reachable(bits as u32)
}

/// Four bytes or sixteen as an address.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    let v6 = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(v6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_table_knows_servers_from_others() {
        for global in [
            "1.1.1.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ] {
            assert!(is_reachable(global.parse().unwrap()), "{global}");
        }
        for special in [
            "10.0.0.5",
            "100.64.0.1",
            "169.254.169.254",
            "240.0.0.1",
            "::1",
            "::ffff:10.0.0.5",
            "64:ff9b::a00:5",
            "64:ff9b:1::101:101",
            "2001:db8::1",
            "2001::1",
            "2002:a00:5::",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "2a00::5efe:a00:5",
            "2a00::200:5efe:a00:5",
            "3fff::1",
        ] {
            assert!(!is_reachable(special.parse().unwrap()), "{special}");
        }
    }
}
