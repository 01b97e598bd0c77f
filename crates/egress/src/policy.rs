//! The operator's word on top of what addresses are.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::address::{AddressClass, classify};
use crate::cidr::canonical_net;
use crate::embedding::{canonical, embedded};
use crate::range::Range;

/// Why an address may not be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// The name has no address at all.
    #[error("the name has no address")]
    NoAddress,
}

/// Which addresses may be called: those not denied, and among them the globally reachable and
/// the allowed. The default is [`EgressPolicy::locked_down`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
}

impl EgressPolicy {
    /// Allows the first networks although they are not globally reachable, and denies the second
    /// whatever they are. Deny wins.
    #[must_use]
    pub fn new(allow: Vec<IpNet>, deny: Vec<IpNet>) -> Self {
        let canonical = |nets: Vec<IpNet>| nets.into_iter().map(canonical_net).collect();
        Self {
            allow: canonical(allow),
            deny: canonical(deny),
        }
    }

    /// Allows what is globally reachable and nothing else.
    #[must_use]
    pub fn locked_down() -> Self {
        Self::default()
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
        let address = canonical(address);
        if let Some(net) = self.denied(address) {
            return Err(EgressDenied::DenyList { address, net });
        }
        if covers(&self.allow, address) {
            return Ok(());
        }
        match classify(address) {
            AddressClass::Global => Ok(()),
            AddressClass::Forbidden(range) => Err(EgressDenied::Special { address, range }),
        }
    }

    /// Judges a whole answer of DNS: one forbidden address forbids it all, as the one that
    /// connects first is not known beforehand, and a name that mixes the two is up to something.
    ///
    /// # Errors
    ///
    /// [`EgressDenied`] of the first forbidden address, and [`EgressDenied::NoAddress`] for an
    /// empty answer.
    pub fn check_all(&self, addresses: &[IpAddr]) -> Result<(), EgressDenied> {
        if addresses.is_empty() {
            return Err(EgressDenied::NoAddress);
        }
        addresses
            .iter()
            .try_for_each(|&address| self.check_address(address))
    }

    /// Whether this machine itself may be called, and so be named `localhost`.
    pub(crate) fn allows_loopback(&self) -> bool {
        self.check_address(IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok()
    }

    /// Whether some network of the operator's own, beyond this machine, may be called: then the
    /// names that only such a network knows make sense.
    pub(crate) fn allows_private_network(&self) -> bool {
        let is_loopback =
            |net: &IpNet| net.network().is_loopback() && net.broadcast().is_loopback();
        self.allow.iter().any(|net| !is_loopback(net))
    }

    fn denied(&self, address: IpAddr) -> Option<IpNet> {
        let holds = |net: &&IpNet| match address {
            IpAddr::V4(_) => net.contains(&address),
            IpAddr::V6(v6) => {
                net.contains(&address) || embedded(v6).any(|v4| net.contains(&IpAddr::V4(v4)))
            }
        };
        self.deny.iter().find(holds).copied()
    }
}

fn covers(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_cidrs;
    use proptest::prelude::*;

    fn policy(allow: &str, deny: &str) -> EgressPolicy {
        EgressPolicy::new(parse_cidrs(allow).unwrap(), parse_cidrs(deny).unwrap())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn allowed(policy: &EgressPolicy, text: &str) -> bool {
        policy.check_address(ip(text)).is_ok()
    }

    #[test]
    fn locked_down_allows_the_internet_only() {
        let policy = EgressPolicy::locked_down();
        assert!(allowed(&policy, "8.8.8.8") && allowed(&policy, "2606:4700::1111"));
        assert!(!allowed(&policy, "127.0.0.1") && !allowed(&policy, "::1"));
    }

    #[test]
    fn the_error_names_address_and_rule() {
        let policy = policy("", "8.8.0.0/16");
        let text = |address| policy.check_address(ip(address)).unwrap_err().to_string();
        assert_eq!(
            text("::ffff:10.0.0.5"),
            "address 10.0.0.5 is private-use (10.0.0.0/8)"
        );
        assert_eq!(
            text("8.8.8.8"),
            "address 8.8.8.8 is on the deny list (8.8.0.0/16)"
        );
    }

    #[test]
    fn allow_opens_exactly_what_it_names_in_every_spelling() {
        let policy = policy("10.1.0.0/16,::1", "");
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "::1"] {
            assert!(allowed(&policy, address), "{address}");
        }
        for address in [
            "10.2.0.1",
            "::ffff:10.2.0.1",
            "64:ff9b::10.1.2.3",
            "127.0.0.1",
            "::2",
        ] {
            assert!(!allowed(&policy, address), "{address}");
        }
    }

    #[test]
    fn deny_wins_over_allow_and_over_the_internet_in_every_spelling() {
        let policy = policy("0.0.0.0/0,::/0", "10.1.0.0/16,8.8.8.8");
        for address in [
            "10.1.2.3",
            "::ffff:10.1.2.3",
            "::10.1.2.3",
            "64:ff9b::10.1.2.3",
            "2002:a01:203::",
            "2a00::5efe:10.1.2.3",
            "8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            let denied = policy.check_address(ip(address));
            assert!(
                matches!(denied, Err(EgressDenied::DenyList { .. })),
                "{address}"
            );
        }
        assert!(allowed(&policy, "10.2.0.1") && allowed(&policy, "::1"));
    }

    #[test]
    fn lists_may_be_written_in_the_mapped_form() {
        let policy = policy("::ffff:10.0.0.0/104", "::ffff:10.1.0.0/112");
        assert!(allowed(&policy, "10.2.0.1") && allowed(&policy, "::ffff:10.2.0.1"));
        assert!(!allowed(&policy, "10.1.0.1"));
    }

    #[test]
    fn ssrf_06_one_forbidden_address_forbids_the_answer() {
        let policy = EgressPolicy::locked_down();
        let check = |texts: &[&str]| {
            policy.check_all(&texts.iter().map(|text| ip(text)).collect::<Vec<_>>())
        };
        assert_eq!(check(&["1.1.1.1", "2606:4700::1111"]), Ok(()));
        for answer in [
            &["1.1.1.1", "::1"][..],
            &["1.1.1.1", "10.0.0.9"],
            &["10.0.0.9", "1.1.1.1"],
            &["1.1.1.1", "1.0.0.1", "2606:4700::1111", "::ffff:10.0.0.9"],
        ] {
            let denied = check(answer);
            assert!(
                matches!(denied, Err(EgressDenied::Special { .. })),
                "{answer:?}"
            );
        }
        assert_eq!(check(&[]), Err(EgressDenied::NoAddress));
    }

    #[test]
    fn which_names_make_sense() {
        let dev = policy("127.0.0.0/8,::1/128", "");
        assert!(dev.allows_loopback() && !dev.allows_private_network());
        let inside = policy("10.0.0.0/8", "");
        assert!(!inside.allows_loopback() && inside.allows_private_network());
        assert!(!policy("127.0.0.0/8", "127.0.0.1").allows_loopback());
        assert!(policy("0.0.0.0/0", "").allows_private_network());
        let closed = EgressPolicy::locked_down();
        assert!(!closed.allows_loopback() && !closed.allows_private_network());
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_judged_like_its_ipv4(v4: u32, net: u32, prefix in 0..=32_u8) {
            let net = IpNet::new(Ipv4Addr::from(net).into(), prefix).unwrap().trunc();
            let (plain, mapped) = (Ipv4Addr::from(v4), Ipv4Addr::from(v4).to_ipv6_mapped());
            for policy in [
                EgressPolicy::new(vec![net], Vec::new()),
                EgressPolicy::new(Vec::new(), vec![net]),
            ] {
                let verdict = policy.check_address(plain.into());
                prop_assert_eq!(policy.check_address(mapped.into()), verdict);
            }
        }
    }
}
