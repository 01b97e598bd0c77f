//! The operator's word on top of what addresses are.
//!
//! In this order: what is denied is refused, by host or by any address; what is allowed passes;
//! the rest passes where it is globally reachable. A host that is allowed may lead to the
//! operator's own networks, and not to what is nobody's host (link-local, where clouds keep their
//! credentials, multicast, reserved): whoever can change one name of an allowed domain must not
//! get there. Such a block has to be allowed by its network.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::address::{AddressClass, classify};
use crate::embedding::canonical;
use crate::host::HostPattern;
use crate::list::{EgressList, ListError};
use crate::name::{self, NameRule};
use crate::ports::{PortList, PortsError};
use crate::range::Range;

/// Why an address or a host may not be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressDenied {
    /// The address is not globally reachable and not on the allow list.
    #[error("address {address} is {range}")]
    Special {
        /// The address, unwrapped if it was a mapped one.
        address: IpAddr,
        /// The block that makes it so.
        range: Range,
    },
    /// The operator denies the address.
    #[error("address {address} is on the deny list ({net})")]
    DenyList {
        /// The address, unwrapped if it was a mapped one.
        address: IpAddr,
        /// The item of the list.
        net: IpNet,
    },
    /// The operator denies the host.
    #[error("the host is on the deny list ({host})")]
    DenyHost {
        /// The item of the list.
        host: HostPattern,
    },
    /// The name has no address at all.
    #[error("the name has no address")]
    NoAddress,
}

impl EgressDenied {
    /// The rule in words for whoever wrote the host's name, without the address that it turned out
    /// to have: an inner name server's answer is not theirs to read.
    #[must_use]
    pub fn of_name(&self) -> String {
        match self {
            Self::Special { range, .. } => format!("an address of the host is {range}"),
            Self::DenyList { net, .. } => {
                format!("an address of the host is on the deny list ({net})")
            }
            Self::DenyHost { .. } | Self::NoAddress => self.to_string(),
        }
    }
}

/// Where `http` may be called, which has no TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Nowhere.
    Never,
    /// On this machine, where its loopback addresses are allowed: what goes there passes nobody
    /// on the way.
    #[default]
    Loopback,
    /// Wherever `https` may be called.
    Anywhere,
}

impl From<Option<bool>> for PlainHttp {
    /// What an operator has said, if anything.
    fn from(said: Option<bool>) -> Self {
        match said {
            None => Self::Loopback,
            Some(false) => Self::Never,
            Some(true) => Self::Anywhere,
        }
    }
}

/// What an operator set, as text.
#[derive(Clone, Copy, Debug)]
pub struct EgressRules<'a> {
    /// Networks and hosts that may be called although they are private.
    pub allow: &'a str,
    /// Networks and hosts that may never be called.
    pub deny: &'a str,
    /// Where `http` may be called, without TLS.
    pub plain_http: PlainHttp,
    /// Ports that may be called, as [`PortList::parse`] reads them.
    pub ports: &'a str,
}

impl Default for EgressRules<'_> {
    /// What [`EgressPolicy::locked_down`] is.
    fn default() -> Self {
        Self {
            allow: "",
            deny: "",
            plain_http: PlainHttp::default(),
            ports: PortList::DEFAULT,
        }
    }
}

/// Which rule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// What is allowed.
    #[error("egress-allow: {0}")]
    Allow(ListError),
    /// What is denied.
    #[error("egress-deny: {0}")]
    Deny(ListError),
    /// The ports.
    #[error("egress-ports: {0}")]
    Ports(PortsError),
}

/// What may be called: hosts and addresses that are not denied, and among them the globally
/// reachable and the allowed; by `https`, and `http` where that is permitted; on the ports of a
/// list. The default is [`EgressPolicy::locked_down`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    allow: EgressList,
    deny: EgressList,
    plain_http: PlainHttp,
    ports: PortList,
}

impl EgressPolicy {
    /// Allows the first list although it is not globally reachable, and denies the second
    /// whatever it is. Deny wins. `https` only, on the default ports.
    #[must_use]
    pub fn new(allow: impl Into<EgressList>, deny: impl Into<EgressList>) -> Self {
        Self {
            allow: allow.into(),
            deny: deny.into(),
            ..Self::default()
        }
    }

    /// Reads what an operator set.
    ///
    /// # Errors
    ///
    /// [`RulesError`] names the setting and the item.
    pub fn read(rules: &EgressRules<'_>) -> Result<Self, RulesError> {
        Ok(Self {
            allow: EgressList::parse(rules.allow).map_err(RulesError::Allow)?,
            deny: EgressList::parse(rules.deny).map_err(RulesError::Deny)?,
            plain_http: rules.plain_http,
            ports: PortList::parse(rules.ports).map_err(RulesError::Ports)?,
        })
    }

    /// Allows what is globally reachable and nothing else, by `https`, on the default ports.
    #[must_use]
    pub fn locked_down() -> Self {
        Self::default()
    }

    /// The same, with `http` there.
    #[must_use]
    pub fn with_plain_http(self, plain_http: PlainHttp) -> Self {
        Self { plain_http, ..self }
    }

    /// The same on these ports.
    #[must_use]
    pub fn with_ports(self, ports: PortList) -> Self {
        Self { ports, ..self }
    }

    /// Judges one address.
    ///
    /// A mapped address is judged as the IPv4 address it is. The deny list also looks into every
    /// other form in which an IPv6 address can carry an IPv4 one; the allow list does not, so a
    /// tunnel into an allowed network has to be allowed by its own address.
    ///
    /// # Errors
    ///
    /// [`EgressDenied`] names the rule.
    pub fn check_address(&self, address: IpAddr) -> Result<(), EgressDenied> {
        self.check_reached(address, false)
    }

    /// Judges a whole answer of DNS for `host`: one forbidden address forbids it all, as the one
    /// that connects first is not known beforehand, and a name that mixes the two is up to
    /// something. The host is as [`crate::TargetUrl::host`] has it.
    ///
    /// # Errors
    ///
    /// [`EgressDenied`] of the host or the first forbidden address, and
    /// [`EgressDenied::NoAddress`] for an empty answer.
    pub fn check_answer(&self, host: &str, addresses: &[IpAddr]) -> Result<(), EgressDenied> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        self.check_denied(&host)?;
        if addresses.is_empty() {
            return Err(EgressDenied::NoAddress);
        }
        let trusted = self.allow.host(&host).is_some();
        addresses
            .iter()
            .try_for_each(|&address| self.check_reached(address, trusted))
    }

    /// The rule that the name breaks, as far as it can be told without its addresses. The name
    /// is in lower case and has no root's dot.
    pub(crate) fn broken_rule(&self, host: &str) -> Option<NameRule> {
        let rule = name::local_rule(host)?;
        let permitted = match rule {
            NameRule::Localhost => self.allow.host(host).is_some() || self.allows_loopback(),
            NameRule::SingleLabel | NameRule::Private(_) => {
                self.allow.host(host).is_some() || self.allows_private_network()
            }
            NameRule::Metadata | NameRule::Onion => false,
        };
        (!permitted).then_some(rule)
    }

    /// Refuses a host that the operator denies.
    pub(crate) fn check_denied(&self, host: &str) -> Result<(), EgressDenied> {
        match self.deny.host(host) {
            Some(host) => Err(EgressDenied::DenyHost { host: host.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn allows_plain_http(&self, on_loopback: bool) -> bool {
        match self.plain_http {
            PlainHttp::Never => false,
            PlainHttp::Loopback => on_loopback,
            PlainHttp::Anywhere => true,
        }
    }

    pub(crate) fn allows_port(&self, port: u16) -> bool {
        self.ports.contains(port)
    }

    fn check_reached(&self, address: IpAddr, by_trusted_host: bool) -> Result<(), EgressDenied> {
        let address = canonical(address);
        if let Some(net) = self.deny.net_around(address) {
            return Err(EgressDenied::DenyList { address, net });
        }
        if self.allow.net(address).is_some() {
            return Ok(());
        }
        match classify(address) {
            AddressClass::Global => Ok(()),
            AddressClass::Forbidden(range) if by_trusted_host && range.is_own_network() => Ok(()),
            AddressClass::Forbidden(range) => Err(EgressDenied::Special { address, range }),
        }
    }

    /// Whether this machine itself may be called, and so be named `localhost`.
    fn allows_loopback(&self) -> bool {
        self.check_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok()
    }

    /// Whether some network of the operator's own, beyond this machine, may be called: then the
    /// names that only such a network knows make sense.
    fn allows_private_network(&self) -> bool {
        let is_loopback =
            |net: &IpNet| net.network().is_loopback() && net.broadcast().is_loopback();
        self.allow.nets().any(|net| !is_loopback(net))
    }
}

#[cfg(test)]
mod tests;
