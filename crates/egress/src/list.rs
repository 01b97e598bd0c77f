//! What an operator allows or denies: networks and host names in one list.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cidr::{CidrError, canonical_net, parse_cidr};
use crate::embedding::embedded;
use crate::host::HostPattern;

/// Why a list is refused. Names the item, so that it can be found in a long list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The item is neither a network nor an address nor a host name.
    #[error(
        "`{item}` is neither a network like 10.0.0.0/8 nor a host like hooks.example.com or \
         *.example.com"
    )]
    Invalid {
        /// The item, without the space around it.
        item: String,
    },
    /// The item is a network that was not written as one.
    #[error(transparent)]
    Network(CidrError),
}

/// Networks and host names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressList {
    nets: Vec<IpNet>,
    hosts: Vec<HostPattern>,
}

impl EgressList {
    /// Reads networks, addresses and host names, separated by commas. Blank text is the empty
    /// list.
    ///
    /// # Errors
    ///
    /// [`ListError`] names the first bad item; an item that is missing between two commas is bad.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let mut list = Self::default();
        if text.trim().is_empty() {
            return Ok(list);
        }
        for item in text.split(',').map(str::trim) {
            list.add(item)?;
        }
        Ok(list)
    }

    fn add(&mut self, item: &str) -> Result<(), ListError> {
        match parse_cidr(item) {
            Ok(net) => self.nets.push(canonical_net(net)),
            Err(CidrError::Invalid { item }) => match HostPattern::parse(&item) {
                Some(host) => self.hosts.push(host),
                None => return Err(ListError::Invalid { item }),
            },
            Err(error) => return Err(ListError::Network(error)),
        }
        Ok(())
    }

    /// The pattern that means this host, which is in lower case and has no root's dot.
    pub(crate) fn host(&self, name: &str) -> Option<&HostPattern> {
        self.hosts.iter().find(|host| host.matches(name))
    }

    /// The network that holds the address, as it is written.
    pub(crate) fn net(&self, address: IpAddr) -> Option<IpNet> {
        let holds = |net: &&IpNet| net.contains(&address);
        self.nets.iter().find(holds).copied()
    }

    /// The network that holds the address, or an IPv4 address that is embedded in it.
    pub(crate) fn net_around(&self, address: IpAddr) -> Option<IpNet> {
        let inside = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => embedded(v6).find_map(|v4| self.net(IpAddr::V4(v4))),
        };
        self.net(address).or(inside)
    }

    /// Every network of the list.
    pub(crate) fn nets(&self) -> impl Iterator<Item = &IpNet> {
        self.nets.iter()
    }
}

impl From<Vec<IpNet>> for EgressList {
    fn from(nets: Vec<IpNet>) -> Self {
        Self {
            nets: nets.into_iter().map(canonical_net).collect(),
            hosts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_hosts_stand_in_one_list() {
        let list = EgressList::parse("10.0.0.0/8, *.example.com,::1 , redis").unwrap();
        assert_eq!(list.nets().count(), 2);
        let host = |name| list.host(name).map(ToString::to_string);
        assert_eq!(host("a.example.com").as_deref(), Some("*.example.com"));
        assert_eq!(host("redis").as_deref(), Some("redis"));
        assert_eq!(host("example.com"), None);
        let net = |text: &str| list.net(text.parse().unwrap()).map(|net| net.to_string());
        assert_eq!(net("10.1.2.3").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(net("11.1.2.3"), None);
        assert_eq!(EgressList::parse(" "), Ok(EgressList::default()));
    }

    #[test]
    fn ssrf_04_a_mistyped_item_is_named_and_never_taken_for_something_else() {
        for (text, bad) in [
            ("10.0.0.0/8, 10.0.0.0/33", "10.0.0.0/33"),
            ("10.0.0.256", "10.0.0.256"),
            ("10.1/16", "10.1/16"),
            ("0x0a000001", "0x0a000001"),
            ("example.com,", ""),
            (",", ""),
            ("https://example.com", "https://example.com"),
            ("example.com/8", "example.com/8"),
            ("10.0.0.0/8;::1", "10.0.0.0/8;::1"),
            ("*", "*"),
            ("[::1]", "[::1]"),
        ] {
            let item = bad.to_owned();
            assert_eq!(EgressList::parse(text), Err(ListError::Invalid { item }));
        }
        let error = EgressList::parse("10.0.0.5/8").unwrap_err();
        assert!(error.to_string().contains("the network is 10.0.0.0/8"));
    }
}
