//! Host names as an operator writes them in a list.

use std::fmt;

use url::Host;

use crate::name::is_well_formed;

/// A host name, or all names below one.
///
/// `hooks.example.com` is that name and no other; `*.example.com` is every name below
/// `example.com`, however deep, and not `example.com` itself. Names are compared as DNS does:
/// without case, without the root's dot, in their ASCII form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    name: String,
    below: bool,
}

impl HostPattern {
    /// Reads one name. `None` when it is no name that DNS can hold; an address in whatever
    /// notation is none, so that a mistyped network never becomes a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let Ok(Host::Domain(ascii)) = Host::parse(name) else {
            return None;
        };
        let name = ascii.strip_suffix('.').unwrap_or(&ascii).to_owned();
        is_well_formed(&name).then_some(Self { name, below })
    }

    /// Whether the pattern means this name. The name is in lower case and has no root's dot.
    pub(crate) fn matches(&self, name: &str) -> bool {
        if !self.below {
            return name == self.name;
        }
        name.strip_suffix(&self.name)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stars = if self.below { "*." } else { "" };
        write!(f, "{stars}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        HostPattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn a_name_is_itself_and_a_star_is_everything_below() {
        assert!(matches("hooks.example.com", "hooks.example.com"));
        assert!(matches("Hooks.EXAMPLE.com.", "hooks.example.com"));
        assert!(matches("bücher.example", "xn--bcher-kva.example"));
        assert!(matches("redis", "redis"));
        assert!(matches("*.example.com", "a.example.com"));
        assert!(matches("*.example.com", "a.b.example.com"));
        assert!(matches("*.internal", "db.internal"));
        for (pattern, name) in [
            ("example.com", "a.example.com"),
            ("a.example.com", "example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", ".example.com"),
            ("*.example.com", "notexample.com"),
            ("*.example.com", "example.com.evil.net"),
            ("*.example.com", "a.example.com.evil.net"),
        ] {
            assert!(!matches(pattern, name), "{pattern} means {name}");
        }
    }

    #[test]
    fn what_is_no_name_is_no_pattern() {
        for text in [
            "",
            ".",
            "*",
            "*.",
            "*.*.example.com",
            "a.*.example.com",
            "*example.com",
            "**.example.com",
            "a..b",
            "https://example.com",
            "example.com/hooks",
            "example.com:443",
            "user@example.com",
            "a b",
            "a;b",
            "127.0.0.1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "10.0.0.256",
            "*.0.0.1",
            "::1",
            "[::1]",
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_is_shown_as_it_is_compared() {
        let shown = |text: &str| HostPattern::parse(text).unwrap().to_string();
        assert_eq!(shown("*.Example.COM."), "*.example.com");
        assert_eq!(shown("Hooks.example.com"), "hooks.example.com");
    }
}
