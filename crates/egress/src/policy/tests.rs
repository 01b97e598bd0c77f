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
        policy.check_answer(
            "example.com",
            &texts.iter().map(|text| ip(text)).collect::<Vec<_>>(),
        )
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

fn answer(policy: &EgressPolicy, host: &str, addresses: &[&str]) -> Result<(), EgressDenied> {
    let addresses: Vec<_> = addresses.iter().map(|text| ip(text)).collect();
    policy.check_answer(host, &addresses)
}

fn lists(allow: &str, deny: &str) -> EgressPolicy {
    EgressPolicy::read(&EgressRules {
        allow,
        deny,
        ..EgressRules::default()
    })
    .unwrap()
}

#[test]
fn an_allowed_host_may_lead_to_the_operators_networks_and_to_nothing_else() {
    let policy = lists("hooks.example.com,*.inside.example.com", "");
    for host in [
        "hooks.example.com",
        "HOOKS.example.com.",
        "a.b.inside.example.com",
    ] {
        for address in [
            "10.0.0.5",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "127.0.0.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.5",
            "64:ff9b::10.0.0.5",
            "8.8.8.8",
        ] {
            assert_eq!(
                answer(&policy, host, &[address]),
                Ok(()),
                "{host} {address}"
            );
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "fe80::1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "198.18.0.1",
            "ff02::1",
            "2002:a00:5::",
        ] {
            let denied = answer(&policy, host, &["10.0.0.5", address]);
            assert!(
                matches!(denied, Err(EgressDenied::Special { .. })),
                "{host} {address}"
            );
        }
    }
    for host in [
        "inside.example.com",
        "example.com",
        "xhooks.example.com",
        "a.hooks.example.com",
    ] {
        assert!(answer(&policy, host, &["10.0.0.5"]).is_err(), "{host}");
        assert_eq!(answer(&policy, host, &["8.8.8.8"]), Ok(()), "{host}");
    }
}

#[test]
fn what_is_said_of_a_name_does_not_say_its_address() {
    let policy = lists("", "8.8.0.0/16");
    let said = |address| {
        answer(&policy, "example.com", &[address])
            .unwrap_err()
            .of_name()
    };
    assert_eq!(
        said("10.0.0.5"),
        "an address of the host is private-use (10.0.0.0/8)"
    );
    assert_eq!(
        said("8.8.8.8"),
        "an address of the host is on the deny list (8.8.0.0/16)"
    );
}

#[test]
fn deny_wins_over_every_way_of_allowing() {
    let policy = lists("hooks.example.com,10.0.0.0/8", "10.1.0.0/16,*.evil.example");
    let by_net = answer(&policy, "hooks.example.com", &["10.2.0.1", "10.1.0.1"]);
    assert_eq!(
        by_net.unwrap_err().to_string(),
        "address 10.1.0.1 is on the deny list (10.1.0.0/16)"
    );
    let by_host = answer(&policy, "a.evil.example", &["8.8.8.8"]);
    assert!(matches!(by_host, Err(EgressDenied::DenyHost { .. })));
    // An answer without addresses says nothing more of a denied host.
    let nothing = answer(&policy, "a.evil.example", &[]);
    assert!(matches!(nothing, Err(EgressDenied::DenyHost { .. })));
    let nat64 = answer(&policy, "hooks.example.com", &["64:ff9b::10.1.0.1"]);
    assert!(matches!(nat64, Err(EgressDenied::DenyList { .. })));
}

#[test]
fn each_setting_that_cannot_be_read_is_named() {
    let said = |rules: EgressRules<'_>| EgressPolicy::read(&rules).unwrap_err().to_string();
    let base = EgressRules::default();
    assert!(
        said(EgressRules {
            allow: "10.0.0.0/33",
            ..base
        })
        .starts_with("egress-allow: `10.0.0.0/33`")
    );
    assert!(said(EgressRules { deny: "*", ..base }).starts_with("egress-deny: `*`"));
    assert!(said(EgressRules { ports: "0", ..base }).starts_with("egress-ports: `0`"));
    assert_eq!(EgressPolicy::read(&base), Ok(EgressPolicy::locked_down()));
}
