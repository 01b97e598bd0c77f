//! Host names that can only mean something inside.
//!
//! Every name is resolved and its addresses are checked at each attempt, so these rules are not
//! what keeps a delivery out. They say so at once, to the person who typed the name, instead of
//! in a dead letter. Names are compared in lower case and without the root's dot: `LOCALHOST.`
//! is `localhost` (RFC 6761).

use std::fmt;

const LOCALHOST: [&str; 2] = ["localhost", "localdomain"];

const METADATA: [&str; 4] = [
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
];

/// RFC 6762 (`local`, and its appendix of names in use on private networks), RFC 8375
/// (`home.arpa`), and `internal`, which ICANN reserved for private use.
const PRIVATE: [&str; 8] = [
    "local",
    "internal",
    "home.arpa",
    "lan",
    "home",
    "corp",
    "intranet",
    "private",
];

/// The rule that a host name breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// `localhost` and everything under it is this machine. Permitted where the policy allows
    /// `127.0.0.1` or the name.
    Localhost,
    /// A name without a dot is completed or answered by the local network. Permitted where the
    /// policy allows a network beyond this machine, or the name.
    SingleLabel,
    /// Names under this suffix exist on private networks only. Permitted where the policy allows
    /// a network beyond this machine, or the name.
    Private(&'static str),
    /// The name of a cloud's metadata service. Never permitted.
    Metadata,
    /// Names under `onion` are not in the DNS (RFC 7686). Never permitted.
    Onion,
}

impl fmt::Display for NameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost => f.write_str("localhost names mean this machine"),
            Self::SingleLabel => f.write_str("a name without a dot belongs to a local network"),
            Self::Private(suffix) => write!(f, "names under .{suffix} belong to a private network"),
            Self::Metadata => f.write_str("it names a cloud's metadata service"),
            Self::Onion => f.write_str("names under .onion are not in the DNS"),
        }
    }
}

/// Whether the name is one that DNS can hold: at most 253 characters, in labels of 1 to 63
/// letters, digits, hyphens or underscores.
pub(crate) fn is_well_formed(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fits);
    name.len() <= 253 && name.split('.').all(label)
}

/// The rule that a name breaks where nothing is allowed. The name is in lower case and has no
/// root's dot.
pub(crate) fn local_rule(name: &str) -> Option<NameRule> {
    let under = |suffix: &str| {
        name.strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if METADATA.iter().any(|suffix| under(suffix)) {
        return Some(NameRule::Metadata);
    }
    if LOCALHOST.iter().any(|suffix| under(suffix)) {
        return Some(NameRule::Localhost);
    }
    if under("onion") {
        return Some(NameRule::Onion);
    }
    if let Some(suffix) = PRIVATE.iter().find(|suffix| under(suffix)) {
        return Some(NameRule::Private(suffix));
    }
    (!name.contains('.')).then_some(NameRule::SingleLabel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_match_at_a_dot_only() {
        for (name, rule) in [
            ("localhost", Some(NameRule::Localhost)),
            ("a.b.localhost", Some(NameRule::Localhost)),
            ("localhost.localdomain", Some(NameRule::Localhost)),
            ("notlocalhost.com", None),
            ("localhost.com", None),
            ("xlocalhost", Some(NameRule::SingleLabel)),
            ("metadata.google.internal", Some(NameRule::Metadata)),
            ("x.metadata.goog", Some(NameRule::Metadata)),
            ("db.internal", Some(NameRule::Private("internal"))),
            ("printer.local", Some(NameRule::Private("local"))),
            ("router.home.arpa", Some(NameRule::Private("home.arpa"))),
            ("example.arpa", None),
            ("myinternal.com", None),
            ("abc.onion", Some(NameRule::Onion)),
            ("redis", Some(NameRule::SingleLabel)),
            ("example.com", None),
        ] {
            assert_eq!(local_rule(name), rule, "{name}");
        }
    }

    #[test]
    fn names_that_dns_cannot_hold_are_malformed() {
        let label = "a".repeat(63);
        let longest = [label.as_str(); 4].join(".");
        assert!(is_well_formed(&longest[2..]) && !is_well_formed(&longest));
        assert!(is_well_formed("_dmarc.xn--bcher-kva.example") && is_well_formed(&label));
        for name in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "a*b.com",
            "a b",
            &format!("{label}a.com"),
        ] {
            assert!(!is_well_formed(name), "{name:?}");
        }
    }
}
