//! Which ports may be called.

use std::fmt;
use std::ops::RangeInclusive;

/// Where web servers listen: 80, 443, and everything above the ports that other protocols have
/// for themselves. A mail server or a database on 25 or 22 understands enough of a request to be
/// made to do something by it.
const WEB: [RangeInclusive<u16>; 3] = [80..=80, 443..=443, 1024..=u16::MAX];

/// Why a list of ports is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{item}` is neither a port from 1 to 65535 nor a range like 8000-8999")]
pub struct PortsError {
    /// The item, without the space around it.
    item: String,
}

/// The ports that may be called. The default is 80, 443 and 1024–65535.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortList {
    ranges: Vec<RangeInclusive<u16>>,
}

impl Default for PortList {
    fn default() -> Self {
        Self {
            ranges: WEB.to_vec(),
        }
    }
}

impl PortList {
    /// The default, as [`PortList::parse`] reads it.
    pub const DEFAULT: &str = "80,443,1024-65535";

    /// Reads ports and ranges of ports (`8000-8999`, both ends included), separated by commas.
    ///
    /// # Errors
    ///
    /// [`PortsError`] names the first bad item; nothing at all is a bad item too.
    pub fn parse(text: &str) -> Result<Self, PortsError> {
        let ranges: Result<Vec<_>, _> = text.split(',').map(str::trim).map(parse_range).collect();
        Ok(Self { ranges: ranges? })
    }

    pub(crate) fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&port))
    }
}

fn parse_range(item: &str) -> Result<RangeInclusive<u16>, PortsError> {
    let bad = || PortsError {
        item: item.to_owned(),
    };
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let port = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let port: Option<u16> = text.parse().ok().filter(|_| digits);
        port.filter(|&port| port > 0)
    };
    let (first, last) = (port(first).ok_or_else(bad)?, port(last).ok_or_else(bad)?);
    if first > last {
        return Err(bad());
    }
    Ok(first..=last)
}

impl fmt::Display for PortList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_it_says() {
        assert_eq!(PortList::parse(PortList::DEFAULT), Ok(PortList::default()));
        let ports = PortList::default();
        assert_eq!(ports.to_string(), PortList::DEFAULT);
        for port in [80, 443, 1024, 8080, 8443, 65_535] {
            assert!(ports.contains(port), "{port}");
        }
        for port in [
            0, 1, 22, 25, 79, 81, 110, 143, 442, 444, 465, 587, 993, 1023,
        ] {
            assert!(!ports.contains(port), "{port}");
        }
    }

    #[test]
    fn ports_and_ranges_are_read() {
        let ports = PortList::parse("443, 8000-8002").unwrap();
        assert!(ports.contains(443) && ports.contains(8000) && ports.contains(8002));
        assert!(!ports.contains(80) && !ports.contains(8003));
        assert_eq!(ports.to_string(), "443,8000-8002");
        for bad in [
            "", ",", "443,", "0", "65536", "-1", "1-", "9-1", "+443", "a", "1-2-3",
        ] {
            assert!(PortList::parse(bad).is_err(), "{bad:?}");
        }
    }
}
