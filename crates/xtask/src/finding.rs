//! What a rule found: a place, the rule, and the reason the rule exists.

use std::fmt;

/// A rule of the structure check, with the reason a reader is given when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Short name, as printed and as tests match it.
    pub name: &'static str,
    /// Why the rule exists, as the end of the sentence "because …".
    pub reason: &'static str,
}

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// Path from the repository's root.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is there, in a few words.
    pub what: String,
}

impl Finding {
    /// A finding of `rule` at `path`:`line`.
    pub fn new(rule: Rule, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            rule,
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            path,
            line,
            what,
        } = self;
        write!(
            f,
            "{path}:{line}: {}: {what} (because {})",
            rule.name, rule.reason
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_rule_and_reason() {
        let rule = Rule {
            name: "edge",
            reason: "services meet on streams only",
        };
        let finding = Finding::new(rule, "crates/a/Cargo.toml", 7, "depends on b");
        assert_eq!(
            finding.to_string(),
            "crates/a/Cargo.toml:7: edge: depends on b (because services meet on streams only)"
        );
    }
}
