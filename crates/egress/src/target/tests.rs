use std::error::Error as _;

use super::*;
use crate::{EgressList, EgressRules, PlainHttp, PortList};
use proptest::prelude::*;

fn allowing(allow: &str) -> EgressPolicy {
    EgressPolicy::new(EgressList::parse(allow).unwrap(), EgressList::default())
        .with_plain_http(PlainHttp::Anywhere)
        .with_ports(PortList::parse("1-65535").unwrap())
}

/// Nothing private; by `http` too and on every port.
fn locked(text: &str) -> Result<TargetUrl, UrlError> {
    TargetUrl::parse(text, &allowing(""))
}

fn refused(text: &str) -> UrlError {
    locked(text).unwrap_err()
}

#[test]
fn ordinary_urls_pass_and_keep_their_text() {
    for (text, host, port) in [
        ("https://example.com/hooks?x=1", "example.com", 443),
        ("http://example.com:8080/", "example.com", 8080),
        (
            "https://user:pass@hooks.example.com/a%20b",
            "hooks.example.com",
            443,
        ),
        ("https://8.8.8.8/", "8.8.8.8", 443),
        ("https://[2606:4700::1111]:8443/", "[2606:4700::1111]", 8443),
        ("https://a_b.example.com/", "a_b.example.com", 443),
    ] {
        let target = locked(text).unwrap();
        assert_eq!(
            (target.as_str(), target.host(), target.port()),
            (text, host, port)
        );
        assert_eq!(target.url().as_str(), text);
    }
}

#[test]
fn names_are_normalised() {
    let target = locked("HTTPS://BÜCHER.Example.COM./x").unwrap();
    assert_eq!(target.as_str(), "https://xn--bcher-kva.example.com/x");
    assert_eq!(target.literal_ip(), None);
}

#[test]
fn literals_are_told_from_names() {
    let literal = |text| locked(text).unwrap().literal_ip().map(|ip| ip.to_string());
    assert_eq!(literal("http://8.8.8.8/").as_deref(), Some("8.8.8.8"));
    assert_eq!(literal("http://0x08080808/").as_deref(), Some("8.8.8.8"));
    assert_eq!(
        literal("http://[::ffff:8.8.8.8]/").as_deref(),
        Some("8.8.8.8")
    );
    assert_eq!(
        literal("http://[2606:4700::1111]/").as_deref(),
        Some("2606:4700::1111")
    );
    assert_eq!(literal("http://example.com/"), None);
}

#[test]
fn malformed_urls_are_refused_by_kind() {
    for (text, error) in [
        ("ftp://example.com/", UrlError::Scheme),
        ("file:///etc/passwd", UrlError::Scheme),
        ("gopher://example.com/", UrlError::Scheme),
        ("data:text/plain,x", UrlError::Scheme),
        ("localhost:8080/hooks", UrlError::Scheme),
        ("http://", UrlError::NoHost),
        ("https://?x", UrlError::NoHost),
        ("https://example.com/#part", UrlError::Fragment),
        ("https://example.com/#", UrlError::Fragment),
        ("https://example.com:0/", UrlError::Port),
        ("https://example.com../", UrlError::MalformedName),
        ("https://./", UrlError::MalformedName),
        ("https://a..example.com/", UrlError::MalformedName),
        ("https://*.example.com/", UrlError::MalformedName),
        ("https://exam\nple.com/", UrlError::ControlCharacter),
        ("https://example.com/\r\nx: y", UrlError::ControlCharacter),
        ("https://example.com/\0", UrlError::ControlCharacter),
    ] {
        assert_eq!(refused(text), error, "{text:?}");
    }
    for text in [
        "",
        "/hooks",
        "example.com/hooks",
        "http://[::1",
        "http://a b/",
        "http://x:99999/",
    ] {
        assert!(matches!(refused(text), UrlError::Unparsable(_)), "{text:?}");
    }
    // Zone identifiers name an interface of this machine.
    assert!(matches!(
        refused("http://[fe80::1%25eth0]/"),
        UrlError::Unparsable(_)
    ));
}

#[test]
fn the_length_is_bounded_as_given_and_as_sent() {
    let base = "https://example.com/";
    let of = |bytes: usize| format!("{base}{}", "a".repeat(bytes - base.len()));
    assert!(locked(&of(MAX_URL_BYTES)).is_ok());
    assert_eq!(refused(&of(MAX_URL_BYTES + 1)), UrlError::TooLong);
    let spaced = format!("{base}{}x", " ".repeat(1000));
    assert!(spaced.len() < MAX_URL_BYTES);
    assert_eq!(refused(&spaced), UrlError::TooLong);
}

#[test]
fn ssrf_02_mapped_literals_are_refused() {
    for (text, message) in [
        (
            "http://[::ffff:169.254.169.254]/",
            "address 169.254.169.254 is link-local (169.254.0.0/16)",
        ),
        (
            "http://[::ffff:7f00:1]/",
            "address 127.0.0.1 is loopback (127.0.0.0/8)",
        ),
        (
            "http://[0:0:0:0:0:ffff:10.0.0.5]/",
            "address 10.0.0.5 is private-use (10.0.0.0/8)",
        ),
        (
            "http://[64:ff9b::10.0.0.5]/",
            "address 64:ff9b::a00:5 is private-use (10.0.0.0/8)",
        ),
        ("http://[::1]/", "address ::1 is loopback (::1/128)"),
    ] {
        assert_eq!(refused(text).to_string(), message, "{text}");
    }
}

#[test]
fn ssrf_04_special_literals_are_refused() {
    for host in [
        "100.64.0.1",
        "0.1.2.3",
        "198.18.0.1",
        "192.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "224.0.0.1",
    ] {
        let error = refused(&format!("https://{host}/"));
        assert!(
            matches!(error, UrlError::Denied(EgressDenied::Special { .. })),
            "{host}"
        );
    }
}

#[test]
fn ssrf_04_every_notation_of_an_address_is_that_address() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "①②⑦.0.0.1",
        "127。0。0。1",
    ] {
        let error = refused(&format!("http://{host}/"));
        let UrlError::Denied(EgressDenied::Special { address, .. }) = error else {
            panic!("{host} gave {error:?}");
        };
        assert_eq!(address.to_string(), "127.0.0.1", "{host}");
    }
    // Not an address at all: it must not fall back to being a name.
    for host in [
        "256.0.0.1",
        "1.2.3.4.5",
        "0x100000000",
        "example.1",
        "1.2.3.08",
    ] {
        assert!(locked(&format!("http://{host}/")).is_err(), "{host}");
    }
}

#[test]
fn userinfo_does_not_hide_the_host() {
    for text in [
        "http://example.com@127.0.0.1/",
        "http://example.com:80@[::1]/",
        "http:\\\\127.0.0.1\\",
    ] {
        assert!(matches!(refused(text), UrlError::Denied(_)), "{text}");
    }
}

#[test]
fn ssrf_09_local_names_are_refused() {
    for (text, rule) in [
        ("http://localhost/", NameRule::Localhost),
        ("http://localhost./", NameRule::Localhost),
        ("http://LOCALHOST/", NameRule::Localhost),
        ("http://ＬＯＣＡＬＨＯＳＴ/", NameRule::Localhost),
        ("http://loc%61lhost/", NameRule::Localhost),
        ("http://user@localhost:8080/", NameRule::Localhost),
        ("http://api.localhost/", NameRule::Localhost),
        ("http://api.localhost./", NameRule::Localhost),
        ("http://metadata.google.internal./", NameRule::Metadata),
        ("http://METADATA.google.internal/", NameRule::Metadata),
        ("http://db.corp.internal/", NameRule::Private("internal")),
        ("http://printer.local/", NameRule::Private("local")),
        ("http://redis/", NameRule::SingleLabel),
        ("http://redis./", NameRule::SingleLabel),
        ("http://abc.onion/", NameRule::Onion),
    ] {
        assert_eq!(refused(text), UrlError::LocalName(rule), "{text}");
    }
}

#[test]
fn ssrf_09_localhost_goes_with_loopback_and_nothing_else() {
    let dev = allowing("127.0.0.0/8,::1/128");
    for text in [
        "http://localhost:3000/",
        "http://LOCALHOST./",
        "http://api.localhost/",
        "http://127.0.0.1:1/",
    ] {
        assert!(TargetUrl::parse(text, &dev).is_ok(), "{text}");
    }
    for text in [
        "http://redis/",
        "http://db.internal/",
        "http://metadata.google.internal/",
        "http://10.0.0.1/",
    ] {
        assert!(TargetUrl::parse(text, &dev).is_err(), "{text}");
    }
    for allow in ["10.0.0.0/8", "::1/128", "127.0.0.2/32"] {
        let error = TargetUrl::parse("http://localhost/", &allowing(allow)).unwrap_err();
        assert_eq!(error, UrlError::LocalName(NameRule::Localhost), "{allow}");
    }
}

#[test]
fn private_names_go_with_an_allowed_private_network() {
    let inside = allowing("10.0.0.0/8");
    for text in [
        "http://redis/",
        "http://hooks.shop.svc.cluster.local/",
        "http://a.internal/",
    ] {
        assert!(TargetUrl::parse(text, &inside).is_ok(), "{text}");
    }
    for (text, rule) in [
        ("http://metadata.google.internal/", NameRule::Metadata),
        ("http://abc.onion/", NameRule::Onion),
    ] {
        assert_eq!(
            TargetUrl::parse(text, &inside),
            Err(UrlError::LocalName(rule))
        );
    }
}

#[test]
fn every_error_says_its_own_words_only() {
    let error = refused("/secret-path");
    let source = error.source().expect("the parser's error").to_string();
    assert!(!error.to_string().contains(&source));
    for text in [
        "ftp://example.com/hush",
        "https://localhost/hush",
        "https://u:hush@10.0.0.1/?hush",
        "https://example.com/hush#hush",
        "https://hush:0/hush",
        "hush",
    ] {
        let error = refused(text);
        assert!(!format!("{error} {error:?}").contains("hush"), "{text}");
    }
}

proptest! {
    #[test]
    fn display_never_leaks_what_may_be_secret(
        user in "zq[a-z]{4}", password in "zq[a-z]{4}", path in "zq[a-z]{4}", query in "zq[a-z]{4}",
        port in 1..=u16::MAX, https: bool,
    ) {
        let scheme = if https { "https" } else { "http" };
        let text = format!("{scheme}://{user}:{password}@hooks.example.com:{port}/{path}?{query}={query}");
        let target = locked(&text).unwrap();
        let shown = format!("{target} {target:?} {:#?}", Some(&target));
        prop_assert!(!shown.contains("zq"), "{}", shown);
        prop_assert_eq!(target.to_string(), format!("{scheme}://hooks.example.com:{port}"));
        prop_assert!(target.as_str().contains(&password));
    }

    /// What is accepted once is accepted again in its stored form, and means the same.
    #[test]
    fn parsing_is_stable(text in "https?://[a-zA-Z0-9.:@\\[\\]%-]{1,30}(/[ -~]{0,20})?") {
        if let Ok(target) = locked(&text) {
            prop_assert_eq!(locked(target.as_str()), Ok(target));
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        if let Ok(target) = locked(&text) {
            prop_assert!(matches!(target.url().scheme(), "http" | "https"));
        }
    }

    #[test]
    fn ssrf_04_a_literal_passes_exactly_when_its_address_does(v4: u32, form in 0..4) {
        let address = std::net::Ipv4Addr::from(v4);
        let host = match form {
            0 => address.to_string(),
            1 => v4.to_string(),
            2 => format!("{v4:#x}"),
            _ => format!("[::ffff:{address}]"),
        };
        let policy = allowing("");
        let verdict = policy.check_address(address.into()).map_err(UrlError::Denied);
        let parsed = TargetUrl::parse(&format!("http://{host}/"), &policy);
        prop_assert_eq!(parsed.map(|target| target.literal_ip()), verdict.map(|()| Some(address.into())));
    }
}

fn judged(url: &str, rules: EgressRules<'_>) -> Result<(), UrlError> {
    TargetUrl::parse(url, &EgressPolicy::read(&rules).unwrap()).map(drop)
}

#[test]
fn plain_http_is_for_those_who_permit_it() {
    let locked_down = EgressPolicy::locked_down();
    let error = TargetUrl::parse("http://example.com/", &locked_down).unwrap_err();
    assert_eq!(error, UrlError::PlainHttp);
    assert!(TargetUrl::parse("https://example.com/", &locked_down).is_ok());
    let open = locked_down.with_plain_http(PlainHttp::Anywhere);
    assert!(TargetUrl::parse("http://example.com/", &open).is_ok());
    assert!(TargetUrl::parse("ftp://example.com/", &open).is_err());
    // What is allowed although it is private is not thereby allowed without TLS.
    let allowed = EgressRules {
        allow: "10.0.0.0/8",
        ..EgressRules::default()
    };
    assert_eq!(
        judged("http://10.0.0.1/", allowed),
        Err(UrlError::PlainHttp)
    );
    // Except where it passes nobody on the way, unless that is refused too.
    let machine = EgressRules {
        allow: "127.0.0.0/8,::1/128,10.0.0.0/8,hooks.example.com",
        ..EgressRules::default()
    };
    let never = EgressRules {
        plain_http: PlainHttp::Never,
        ..machine
    };
    for host in [
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
    ] {
        let url = format!("http://{host}:8080/");
        assert_eq!(judged(&url, machine), Ok(()), "{url}");
        assert_eq!(judged(&url, never), Err(UrlError::PlainHttp), "{url}");
        let locked = judged(&url, EgressRules::default()).unwrap_err();
        assert_ne!(locked, UrlError::PlainHttp, "{url}");
    }
    for host in [
        "10.0.0.1",
        "hooks.example.com",
        "8.8.8.8",
        "a.localhost",
        "127.0.0.1.example.com",
    ] {
        let url = format!("http://{host}:8080/");
        assert_eq!(judged(&url, machine), Err(UrlError::PlainHttp), "{url}");
    }
    // An address that is forbidden anyway is named first.
    let inner = judged("http://10.0.0.1/", EgressRules::default());
    assert!(matches!(inner, Err(UrlError::Denied(_))));
}

#[test]
fn ports_of_other_protocols_are_refused() {
    for port in [443, 80, 1024, 8443, 65_535] {
        let url = format!("https://example.com:{port}/");
        assert_eq!(judged(&url, EgressRules::default()), Ok(()), "{port}");
    }
    for port in [1, 21, 22, 23, 25, 53, 110, 143, 465, 587, 993, 995, 1023] {
        for url in [
            format!("https://example.com:{port}/"),
            format!("https://8.8.8.8:{port}/"),
        ] {
            let refused = judged(&url, EgressRules::default());
            assert_eq!(refused, Err(UrlError::DeniedPort(port)), "{url}");
        }
    }
    let few = EgressRules {
        ports: "443",
        plain_http: PlainHttp::Anywhere,
        ..EgressRules::default()
    };
    assert_eq!(judged("https://example.com/", few), Ok(()));
    assert_eq!(
        judged("http://example.com/", few),
        Err(UrlError::DeniedPort(80))
    );
}

#[test]
fn a_denied_host_is_refused_however_it_is_written_and_whatever_is_allowed() {
    let rules = EgressRules {
        allow: "0.0.0.0/0,*.example.com,bad.example.com",
        deny: "bad.example.com,*.evil.example",
        ..EgressRules::default()
    };
    for url in [
        "https://bad.example.com/",
        "https://BAD.example.com./",
        "https://b%61d.example.com/",
        "https://ｂａｄ.example.com/",
        "https://user:pass@bad.example.com:8443/x?y",
        "https://a.evil.example/",
        "https://a.b.evil.example./",
    ] {
        let error = judged(url, rules).unwrap_err();
        assert!(
            matches!(error, UrlError::Denied(EgressDenied::DenyHost { .. })),
            "{url}"
        );
        assert!(error.is_policy());
    }
    assert_eq!(judged("https://good.example.com/", rules), Ok(()));
    assert_eq!(judged("https://evil.example/", rules), Ok(()));
    let error = judged("https://a.evil.example/hush?hush", rules).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the host is on the deny list (*.evil.example)"
    );
}

#[test]
fn an_allowed_host_may_have_a_private_name_and_its_neighbour_may_not() {
    let rules = EgressRules {
        allow: "redis,*.svc.cluster.local,localhost,metadata.google.internal,a.onion",
        ..EgressRules::default()
    };
    for url in [
        "https://redis:6379/",
        "https://hooks.shop.svc.cluster.local/",
        "https://LOCALHOST./",
    ] {
        assert_eq!(judged(url, rules), Ok(()), "{url}");
    }
    for (url, rule) in [
        ("https://postgres/", NameRule::SingleLabel),
        ("https://svc.cluster.local/", NameRule::Private("local")),
        ("https://api.localhost/", NameRule::Localhost),
        ("https://metadata.google.internal/", NameRule::Metadata),
        ("https://a.onion/", NameRule::Onion),
    ] {
        assert_eq!(judged(url, rules), Err(UrlError::LocalName(rule)), "{url}");
    }
    // A name opens nothing for an address that is written as one.
    assert!(judged("https://127.0.0.1/", rules).is_err());
}

#[test]
fn what_is_wrong_and_what_is_refused_are_told_apart() {
    for (url, policy) in [
        ("https://10.0.0.1/", true),
        ("https://localhost/", true),
        ("http://example.com/", true),
        ("https://example.com:25/", true),
        ("ftp://example.com/", false),
        ("https://example.com/#a", false),
        ("https://example.com:0/", false),
        ("https://a..b/", false),
        ("nonsense", false),
    ] {
        let error = judged(url, EgressRules::default()).unwrap_err();
        assert_eq!(error.is_policy(), policy, "{url}");
    }
}
