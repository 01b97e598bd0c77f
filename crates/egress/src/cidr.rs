//! Lists of networks as an operator writes them.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use crate::embedding::canonical;

/// Why a list of networks is refused. Names the item, so that it can be found in a long list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The item is neither an address nor a network.
    #[error("`{item}` is neither an address nor a network like 10.0.0.0/8")]
    Invalid {
        /// The item, without the space around it.
        item: String,
    },
    /// The item names a host and a prefix at once. Taking it for the network could open more
    /// than was meant.
    #[error("`{item}` has bits set behind its prefix; the network is {network}")]
    HostBits {
        /// The item, without the space around it.
        item: String,
        /// The network that its prefix belongs to.
        network: IpNet,
    },
}

/// Reads networks and bare addresses, separated by commas. Blank text is the empty list.
///
/// # Errors
///
/// [`CidrError`] names the first bad item; an item that is missing between two commas is bad.
pub fn parse_cidrs(text: &str) -> Result<Vec<IpNet>, CidrError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|item| parse_cidr(item.trim()))
        .collect()
}

/// Reads one network or bare address, without space around it.
pub(crate) fn parse_cidr(item: &str) -> Result<IpNet, CidrError> {
    if let Ok(address) = item.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let net: IpNet = item.parse().map_err(|_| CidrError::Invalid {
        item: item.to_owned(),
    })?;
    if net.trunc() != net {
        let network = net.trunc();
        return Err(CidrError::HostBits {
            item: item.to_owned(),
            network,
        });
    }
    Ok(net)
}

/// A network of mapped addresses as the IPv4 network it stands for. Addresses are unwrapped
/// before they are compared, so the mapped spelling would match nothing.
pub(crate) fn canonical_net(net: IpNet) -> IpNet {
    let net = net.trunc();
    let (IpAddr::V4(address), IpNet::V6(v6)) = (canonical(net.addr()), net) else {
        return net;
    };
    let prefix = v6.prefix_len().checked_sub(96);
    let mapped = prefix.and_then(|prefix| Ipv4Net::new(address, prefix).ok());
    mapped.map_or(net, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(text: &str) -> Vec<String> {
        let nets = parse_cidrs(text).unwrap();
        nets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn networks_and_addresses_are_read() {
        assert_eq!(nets("10.0.0.0/8, ::1/128"), ["10.0.0.0/8", "::1/128"]);
        assert_eq!(nets("127.0.0.1,fd00::1"), ["127.0.0.1/32", "fd00::1/128"]);
        assert_eq!(nets("0.0.0.0/0"), ["0.0.0.0/0"]);
        assert!(nets("").is_empty() && nets(" \t").is_empty());
    }

    #[test]
    fn the_bad_item_is_named() {
        for (text, item) in [
            ("10.0.0.0/8, 10.0.0.0/33", "10.0.0.0/33"),
            ("example.com", "example.com"),
            ("10.0.0.0/8;::1", "10.0.0.0/8;::1"),
            ("10.1/16", "10.1/16"),
            ("::1/129", "::1/129"),
            ("10.0.0.0/8,", ""),
            (",", ""),
        ] {
            let item = item.to_owned();
            assert_eq!(
                parse_cidrs(text),
                Err(CidrError::Invalid { item }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_host_with_a_prefix_is_refused_and_corrected() {
        let error = parse_cidrs("10.0.0.5/8").unwrap_err();
        let network = "10.0.0.0/8".parse().unwrap();
        assert_eq!(
            error,
            CidrError::HostBits {
                item: "10.0.0.5/8".to_owned(),
                network
            }
        );
    }

    #[test]
    fn mapped_networks_become_ipv4() {
        let canonical = |text: &str| canonical_net(text.parse().unwrap()).to_string();
        assert_eq!(canonical("::ffff:10.0.0.0/104"), "10.0.0.0/8");
        assert_eq!(canonical("::ffff:0:0/96"), "0.0.0.0/0");
        assert_eq!(canonical("::/0"), "::/0");
        assert_eq!(canonical("::ffff:0:0/95"), "::fffe:0:0/95");
        assert_eq!(canonical("10.0.0.5/8"), "10.0.0.0/8");
    }
}
