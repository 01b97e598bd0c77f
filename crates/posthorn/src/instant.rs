//! A moment as it is given on the command line.

use posthorn_delivery::UnixMillis;
use posthorn_http_api::time::{parse_duration, parse_rfc3339, to_rfc3339};

/// A moment: RFC 3339, or a duration back from now, such as `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This one.
    At(UnixMillis),
    /// So many milliseconds ago.
    Ago(i64),
}

impl Moment {
    /// Reads a moment.
    ///
    /// # Errors
    /// With the rule.
    pub fn parse(text: &str) -> Result<Moment, String> {
        if let Ok(at) = parse_rfc3339(text) {
            return Ok(Moment::At(at));
        }
        let ago = parse_duration(text).map_err(|_| {
            "must be a time like 2030-01-31T08:00:00Z, or how long ago, like 2h".to_owned()
        })?;
        Ok(Moment::Ago(
            i64::try_from(ago.as_millis()).unwrap_or(i64::MAX),
        ))
    }

    /// As the services read it.
    pub fn to_rfc3339(self, now: UnixMillis) -> String {
        match self {
            Moment::At(at) => to_rfc3339(at),
            Moment::Ago(millis) => to_rfc3339(UnixMillis(now.0.saturating_sub(millis))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_a_while_ago() {
        let now = UnixMillis(1_700_000_000_000);
        let shown = |text: &str| Moment::parse(text).unwrap().to_rfc3339(now);
        assert_eq!(
            shown("2030-01-31T09:00:00+01:00"),
            "2030-01-31T08:00:00.000Z"
        );
        assert_eq!(shown("20s"), "2023-11-14T22:13:00.000Z");
        assert!(Moment::parse("yesterday").is_err());
    }
}
