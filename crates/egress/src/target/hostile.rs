//! URLs that try to reach what they may not. None of them is a case from elsewhere: they are
//! what one would try who has read the rules.

use super::*;
use crate::{EgressList, PlainHttp, PortList};

/// Nothing private; `http` and every port, so that only the host can be the reason.
fn open() -> EgressPolicy {
    EgressPolicy::locked_down()
        .with_plain_http(PlainHttp::Anywhere)
        .with_ports(PortList::parse("1-65535").unwrap())
}

/// What an answer of DNS or a literal would be called at, by whoever reads URLs as we do.
fn refused(url: &str) -> UrlError {
    match TargetUrl::parse(url, &open()) {
        Err(error) => error,
        Ok(target) => panic!("{url} leads to {target}"),
    }
}

const TRICKS: [&str; 118] = [
    // Decimal, octal, hexadecimal, and mixtures of them.
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0xA9FEA9FE/",
    "http://0xa9.0xfe.0xa9.0xfe/",
    "http://0251.0376.0251.0376/",
    "http://0251.254.0xa9.254/",
    "http://025177524776/",
    "http://169.254.43518/",
    "http://169.16689662/",
    "http://0xa9.16689662/",
    "http://0xa9.0376.43518/",
    "http://00000000000000000000251.0376.0251.0376/",
    "http://0x000000000000000000a9fea9fe/",
    "http://0300.0250.1.1/",
    "http://0x0a.0.0.1/",
    "http://012.0.0.1/",
    "http://012.1/",
    "http://167772161/",
    "http://0xac100001/",
    "http://3232235777/",
    // Short forms.
    "http://0/",
    "http://0x0/",
    "http://00/",
    "http://0.0/",
    "http://0.0.0/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.65530/",
    "http://10.1/",
    "http://10.65535/",
    "http://192.168.257/",
    "http://172.16.1/",
    // Dots at the end.
    "http://127.0.0.1./",
    "http://2130706433./",
    "http://0x7f.1./",
    "http://localhost./",
    "http://localhost../",
    "http://redis./",
    "http://./",
    "http://..../",
    // Other dots, digits and letters that become ASCII.
    "http://127。0。0。1/",
    "http://127．0．0．1/",
    "http://127｡0｡0｡1/",
    "http://１２７.0.0.1/",
    "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/",
    "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
    "http://¹²⁷.0.0.1/",
    "http://0ｘ7f000001/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://𝓵𝓸𝓬𝓪𝓵𝓱𝓸𝓼𝓽/",
    "http://LocalHoſt/",
    "http://local\u{ad}host/",
    "http://local\u{200b}host/",
    "http://metadata。google。internal/",
    // Percent-encoding.
    "http://%31%32%37.%30.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://%6cocalhost/",
    "http://localhos%74%2e/",
    "http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1/",
    "http://127.0.0.1%00.example.com/",
    "http://example.com%00.127.0.0.1/",
    "http://127.0.0.1%2f@example.com:80:80/",
    "http://[%3a%3a1]/",
    "http://%5b::1%5d/",
    // Users and passwords that look like hosts, and other ways of writing the authority.
    "http://example.com@127.0.0.1/",
    "http://example.com:443@127.0.0.1:80/",
    "http://example.com%40127.0.0.1@10.0.0.1/",
    "http://a@b@127.0.0.1/",
    "http://example.com\\@127.0.0.1/x@10.0.0.1\u{7}",
    "http://127.0.0.1\\@example.com/",
    "http://127.0.0.1/@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://127.0.0.1#@example.com/",
    "http:///127.0.0.1/",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http://///127.0.0.1/",
    "http:/\\/127.0.0.1/",
    "\u{20}http://127.0.0.1/",
    "http://127.0.0.1:80:80/",
    "http://:80/",
    "http://@/",
    "http://user:pass@/",
    "http://1.1.1.1 &@127.0.0.1# @3.3.3.3/",
    // Zones.
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[::1%25]/",
    "http://[fe80::1%251]/",
    // IPv4 in IPv6, in every way that something unwraps.
    "http://[::ffff:127.0.0.1]/",
    "http://[::FFFF:7F00:1]/",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "http://[0000:0000:0000:0000:0000:ffff:192.168.1.1]/",
    "http://[::127.0.0.1]/",
    "http://[::7f00:1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::169.254.169.254]/",
    "http://[64:ff9b:1:a9fe:a9:fe00::]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2002:c0a8:101::8.8.8.8]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:0:0808:0808:0:0:80ff:fffe]/",
    "http://[2a00:1450::5efe:127.0.0.1]/",
    "http://[2a00:1450::200:5efe:a9fe:a9fe]/",
    "http://[fe80::5efe:127.0.0.1]/",
    // IPv6 of its own.
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::0001]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[ff02::1]/",
    "http://[::1.2.3]/",
    "http://[1::2::3]/",
    "http://[::1/",
];

#[test]
fn ssrf_02_ssrf_04_ssrf_09_no_trick_leads_inside() {
    for url in TRICKS {
        let error = refused(url);
        // In the other scheme too, and behind a port.
        refused(&url.replacen("http:", "https:", 1));
        assert!(!error.to_string().contains("meta-data"), "{url}");
    }
}

#[test]
fn what_only_looks_like_a_trick_is_let_through_as_what_it_is() {
    for (url, host) in [
        ("https://127.0.0.1@example.com/", "example.com"),
        ("https://localhost:x@example.com/", "example.com"),
        ("https://127.0.0.1.example.com/", "127.0.0.1.example.com"),
        ("https://localhost.example.com/", "localhost.example.com"),
        ("https://0x7f000001.example.com/", "0x7f000001.example.com"),
        (
            "https://169-254-169-254.example.com/",
            "169-254-169-254.example.com",
        ),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("https://134744072/", "8.8.8.8"),
        ("https://0x08.8.2056/", "8.8.8.8"),
        ("https://8.8.8.8./", "8.8.8.8"),
        ("https://[64:ff9b::8.8.8.8]/", "[64:ff9b::808:808]"),
        ("https://example.com/http://127.0.0.1/", "example.com"),
        ("https://example.com/?u=http://127.0.0.1/", "example.com"),
    ] {
        let target = TargetUrl::parse(url, &open()).unwrap_or_else(|e| panic!("{url}: {e}"));
        assert_eq!(target.host(), host, "{url}");
        // What is dialled is what was judged: the stored form reads the same.
        assert_eq!(TargetUrl::parse(target.as_str(), &open()), Ok(target));
    }
}

#[test]
fn a_denied_network_is_denied_in_every_notation() {
    let everything = EgressList::parse("0.0.0.0/0,::/0").unwrap();
    let policy = EgressPolicy::new(everything, EgressList::parse("203.0.113.7").unwrap())
        .with_plain_http(PlainHttp::Anywhere);
    for host in [
        "203.0.113.7",
        "3405803783",
        "0xcb007107",
        "0313.0.0161.7",
        "203.28935",
        "203.0.113.7.",
        "２０３.0.113.7",
        "%32%303.0.113.7",
        "[::ffff:203.0.113.7]",
        "[::ffff:cb00:7107]",
        "[::203.0.113.7]",
        "[64:ff9b::203.0.113.7]",
        "[64:ff9b:1::cb00:7107]",
        "[2002:cb00:7107::1]",
        "[2001:0:808:808::34ff:8ef8]",
        "[2a00::5efe:203.0.113.7]",
    ] {
        let refused = TargetUrl::parse(&format!("http://{host}/"), &policy);
        let denied = matches!(
            refused,
            Err(UrlError::Denied(EgressDenied::DenyList { .. }))
        );
        assert!(denied, "{host}: {refused:?}");
    }
    assert!(TargetUrl::parse("http://203.0.113.8/", &policy).is_ok());
}
