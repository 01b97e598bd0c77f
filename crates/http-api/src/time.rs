//! How times and durations are written.
//!
//! Times are RFC 3339 in UTC with milliseconds, so that their text sorts as they do. Durations
//! are text with units: a bare number is read as milliseconds by one and seconds by the next.

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;
use posthorn_delivery::UnixMillis;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// A text that is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time is RFC 3339, for example 2030-01-31T08:00:00Z")]
pub struct NotATime;

/// A text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a duration is a number with a unit, for example 250ms, 30s, 10m, 24h or 7d")]
pub struct NotADuration;

/// `2030-01-31T08:00:00.000Z`. What no calendar of four digits holds is its nearest end.
#[must_use]
pub fn to_rfc3339(at: UnixMillis) -> String {
    let seconds = at.0.div_euclid(1_000).clamp(EARLIEST, LATEST);
    let millis = at.0.rem_euclid(1_000);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, time) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// Seconds of the years 0 and 9999.
const EARLIEST: i64 = -62_167_219_200;
const LATEST: i64 = 253_402_300_799;

/// Reads RFC 3339, with any offset.
///
/// # Errors
/// [`NotATime`].
pub fn parse_rfc3339(text: &str) -> Result<UnixMillis, NotATime> {
    let at = OffsetDateTime::parse(text.trim(), &Rfc3339).map_err(|_| NotATime)?;
    let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000);
    millis.map(UnixMillis).map_err(|_| NotATime)
}

/// Reads a duration with its unit, up to ten years.
///
/// # Errors
/// [`NotADuration`].
pub fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    posthorn_runtime::config::parse_duration(text).map_err(|_| NotADuration)
}

/// A duration as [`parse_duration`] reads it: whole days beyond one as `3d`, else hours,
/// minutes, seconds and milliseconds, as in `24h` and `1m 30s`.
#[must_use]
pub fn duration_text(duration: Duration) -> String {
    const DAY: u64 = 86_400_000;
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis > DAY && millis.is_multiple_of(DAY) {
        return format!("{}d", millis / DAY);
    }
    let parts = [
        (millis / 3_600_000, "h"),
        (millis / 60_000 % 60, "m"),
        (millis / 1_000 % 60, "s"),
        (millis % 1_000, "ms"),
    ];
    let shown = parts.iter().filter(|(number, _)| *number > 0);
    let texts: Vec<String> = shown
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    texts.join(" ")
}

/// For `#[serde(serialize_with)]`: a time as text.
///
/// # Errors
/// Only the serializer's own.
pub fn as_rfc3339<S: Serializer>(at: &UnixMillis, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&to_rfc3339(*at))
}

/// For `#[serde(serialize_with)]`: an optional time as text.
///
/// # Errors
/// Only the serializer's own.
#[allow(clippy::ref_option, reason = "serde's signature")]
pub fn as_rfc3339_option<S: Serializer>(at: &Option<UnixMillis>, to: S) -> Result<S::Ok, S::Error> {
    at.map(to_rfc3339).serialize(to)
}

/// For `#[serde(serialize_with)]`: a duration as text.
///
/// # Errors
/// Only the serializer's own.
pub fn as_duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration_text(*duration))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        assert_eq!(to_rfc3339(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(to_rfc3339(UnixMillis(-1)), "1969-12-31T23:59:59.999Z");
        let at = parse_rfc3339("2030-01-31T08:00:00.5+02:00").unwrap();
        assert_eq!(to_rfc3339(at), "2030-01-31T06:00:00.500Z");
        for bad in [
            "",
            "2030-01-31",
            "1893456000",
            "2030-01-31T08:00:00",
            "tomorrow",
        ] {
            assert_eq!(parse_rfc3339(bad), Err(NotATime), "{bad}");
        }
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for text in [
            "250ms", "2s", "30s", "1m 30s", "15m", "1h", "24h", "3d", "1h 30m", "0s",
        ] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        assert_eq!(duration_text(Duration::from_secs(25 * 3_600)), "25h");
        for bad in ["", "30", "-1s", "1e3s", "∞"] {
            assert_eq!(parse_duration(bad), Err(NotADuration), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_reads_back(millis in 0_u64..315_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
        }

        #[test]
        fn bo_04_any_time_has_a_text(millis in any::<i64>()) {
            prop_assert!(to_rfc3339(UnixMillis(millis)).ends_with('Z'));
        }

        #[test]
        fn a_time_reads_back(millis in 0_i64..253_402_300_799_999) {
            let at = UnixMillis(millis);
            prop_assert_eq!(parse_rfc3339(&to_rfc3339(at)), Ok(at));
        }
    }
}
