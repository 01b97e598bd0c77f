//! The version of a nats-server, and the oldest that will do.

use std::fmt;
use std::str::FromStr;

/// The oldest nats-server that Posthorn runs on.
pub const MINIMUM: Version = Version::new(2, 12, 0);

/// A version as nats-server prints it: three numbers, and whether it is a pre-release.
///
/// A pre-release is older than the release of the same numbers, whatever its label says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
    /// After the numbers, so that the derived order puts a pre-release first.
    released: bool,
}

/// What was read is not a version of nats-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a nats-server version")]
pub struct VersionError;

impl Version {
    /// A released version.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
            released: true,
        }
    }

    /// Reads the line that `nats-server --version` prints, such as `nats-server: v2.15.1`.
    ///
    /// # Errors
    /// [`VersionError`] when the line has another form, so that a program which merely
    /// happens to bear the name is not taken for a server.
    pub fn from_banner(banner: &str) -> Result<Self, VersionError> {
        banner
            .trim()
            .strip_prefix("nats-server: v")
            .ok_or(VersionError)?
            .parse()
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Build metadata after `+` says nothing about the order.
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, label) = match text.split_once('-') {
            Some((numbers, label)) => (numbers, Some(label)),
            None => (text, None),
        };
        let mut parts = numbers.split('.');
        let version = Self {
            major: number(parts.next())?,
            minor: number(parts.next())?,
            patch: number(parts.next())?,
            released: label.is_none(),
        };
        if parts.next().is_some() || label.is_some_and(str::is_empty) {
            return Err(VersionError);
        }
        Ok(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.released {
            f.write_str("-pre")?;
        }
        Ok(())
    }
}

/// One number of a version. `u32::from_str` alone would also accept a sign.
fn number(part: Option<&str>) -> Result<u32, VersionError> {
    let part = part.ok_or(VersionError)?;
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError);
    }
    part.parse().map_err(|_| VersionError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_read() {
        assert_eq!(
            Version::from_banner("nats-server: v2.15.1\n"),
            Ok(Version::new(2, 15, 1))
        );
    }

    #[test]
    fn what_is_no_banner_is_refused() {
        for banner in [
            "",
            "2.15.1",
            "nats-server: 2.15.1",
            "nats-server: v2.15",
            "nats-server: v2.15.1.4",
            "nats-server: v2.+5.1",
            "nats-server: v2.15.99999999999",
            "nats-server: v2.15.1-",
            "gnatsd: v1.0.0",
        ] {
            assert_eq!(Version::from_banner(banner), Err(VersionError), "{banner}");
        }
    }

    #[test]
    fn the_minimum_divides_old_from_new() {
        let parse = |text: &str| text.parse::<Version>().unwrap();
        assert!(parse("2.9.10") < MINIMUM);
        assert!(parse("2.11.99") < MINIMUM);
        assert!(parse("2.12.0-beta.1") < MINIMUM);
        assert!(parse("2.12.0") >= MINIMUM);
        assert!(parse("2.12.1-RC.2") >= MINIMUM);
        assert!(parse("2.12.0+build.5") >= MINIMUM);
        assert!(parse("3.0.0") >= MINIMUM);
    }
}
