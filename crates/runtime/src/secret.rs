//! A configured secret that cannot be printed by accident.
//!
//! Keys reach logs through `{:?}` of a configuration struct, through `--print-config` and through
//! error chains. A type that has no other text than `[redacted]` closes all three at once.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretBox};
use serde::{Serialize, Serializer};
use subtle::ConstantTimeEq;

/// What is printed in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// A secret from a flag, the environment or the configuration file; wiped from memory on drop.
///
/// Parsing never fails: an error would be printed with the value in it. Rules about a secret's
/// form belong into a configuration's `validate`.
#[derive(Clone)]
pub struct SecretString(SecretBox<str>);

impl SecretString {
    /// The secret itself. Each call is a place to review: hand the text on, never format it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether `candidate` is the secret, in a time that depends on the lengths only.
    ///
    /// An empty secret matches nothing, so that a forgotten value opens no door.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        !self.is_empty() && bool::from(self.expose().as_bytes().ct_eq(candidate.as_bytes()))
    }

    /// Whether the secret has no characters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl From<String> for SecretString {
    fn from(secret: String) -> Self {
        Self(secret.into())
    }
}

impl FromStr for SecretString {
    type Err = Infallible;

    fn from_str(secret: &str) -> Result<Self, Infallible> {
        Ok(Self(secret.into()))
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for SecretString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        text.parse().unwrap()
    }

    #[test]
    fn dlq_06_a_secret_has_no_printable_form() {
        let key = secret("whsec_do-not-print");
        assert_eq!(format!("{key} {key:?}"), "[redacted] [redacted]");
        assert_eq!(serde_json::to_string(&key).unwrap(), "\"[redacted]\"");
    }

    #[test]
    fn only_the_whole_secret_matches() {
        let key = secret("abcdef");
        assert!(key.matches("abcdef"));
        for wrong in ["abcdeg", "abcde", "abcdefg", "", "ABCDEF"] {
            assert!(!key.matches(wrong), "{wrong:?} opened the door");
        }
    }

    #[test]
    fn an_empty_secret_matches_nothing() {
        assert!(!secret("").matches(""));
        assert!(secret("").is_empty());
    }
}
