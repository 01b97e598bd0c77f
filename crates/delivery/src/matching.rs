//! Which event types an endpoint subscribed to: NATS wildcards, because publishers and
//! operators already know them.

use crate::ids::{EventType, is_type_token};
use std::fmt;

/// A subscription pattern: tokens separated by dots, `*` for exactly one token, `>` as the
/// last token for one or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(Box<str>);

/// Why a pattern was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern is 1 to 16 tokens of A-Z, a-z, 0-9, '_' and '-', or '*' for one token, or '>' \
     as the last token for the rest, separated by dots, and at most 128 characters"
)]
pub struct PatternError;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PatternError`] when it breaks the rule that the error states.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let tokens: Vec<&str> = text.split('.').collect();
        let last = tokens.len() - 1;
        let allowed = |(at, token): (usize, &&str)| {
            *token == "*" || (*token == ">" && at == last) || is_type_token(token)
        };
        if text.len() > 128 || tokens.len() > 16 || !tokens.iter().enumerate().all(allowed) {
            return Err(PatternError);
        }
        Ok(Pattern(text.into()))
    }

    /// The pattern that every type matches.
    #[must_use]
    pub fn all() -> Pattern {
        Pattern(">".into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an event of this type is wanted.
    #[must_use]
    pub fn matches(&self, event_type: &EventType) -> bool {
        let mut wanted = self.0.split('.');
        let mut given = event_type.as_str().split('.');
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some(">"), Some(_)) => return true,
                (Some("*"), Some(_)) => {}
                (Some(want), Some(have)) if want == have => {}
                _ => return false,
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_mean_what_nats_says() {
        let table = [
            ("invoice.paid", "invoice.paid", true),
            ("invoice.paid", "invoice.paid.late", false),
            ("invoice.*", "invoice.paid", true),
            ("invoice.*", "invoice", false),
            ("invoice.*", "invoice.paid.late", false),
            ("invoice.>", "invoice.paid.late", true),
            ("invoice.>", "invoice", false),
            (">", "x", true),
            ("*.paid", "invoice.paid", true),
            ("*", "a.b", false),
            ("Invoice.paid", "invoice.paid", false),
        ];
        for (pattern, event_type, expected) in table {
            let matched = Pattern::parse(pattern)
                .unwrap()
                .matches(&EventType::parse(event_type).unwrap());
            assert_eq!(matched, expected, "{pattern} against {event_type}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for bad in [
            "",
            ".",
            "a.",
            ">.a",
            "a.>.b",
            "a*",
            "a.**",
            "a b",
            "é",
            &"a.".repeat(80),
        ] {
            assert_eq!(Pattern::parse(bad), Err(PatternError), "{bad:?}");
        }
    }
}
