//! Which signatures an endpoint asked for.

use std::fmt;
use std::str::FromStr;

/// One way of signing a request. An endpoint may ask for several at once, for a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// HMAC-SHA256 of Standard Webhooks, in `webhook-signature`.
    V1,
    /// Ed25519 of Standard Webhooks, in `webhook-signature`.
    V1a,
    /// Hexadecimal HMAC-SHA256 over timestamp and body, in `x-hub-signature-256`.
    Hub,
    /// The signatures of [`Scheme::V1`] under the `svix-` names.
    Svix,
}

impl Scheme {
    /// Every scheme, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::V1, Self::V1a, Self::Hub, Self::Svix];

    /// The name used in an endpoint's `signatures`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1a => "v1a",
            Self::Hub => "hub",
            Self::Svix => "svix",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name is none of [`Scheme::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signature scheme; known are v1, v1a, hub and svix")]
pub struct UnknownScheme;

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|scheme| scheme.as_str() == name)
            .ok_or(UnknownScheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.as_str().parse(), Ok(scheme));
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "V1", "v1 ", "v2", "sha256"] {
            assert_eq!(name.parse::<Scheme>(), Err(UnknownScheme), "{name}");
        }
    }
}
