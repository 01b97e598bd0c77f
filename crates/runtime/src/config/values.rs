//! Parsers for flag values, and how the values are printed again.

use std::time::Duration;

use serde::Serializer;

use crate::secret::REDACTED;

/// No configured duration is longer than ten years: it still fits the broker's signed
/// nanoseconds, and whoever wants more has mistyped.
const MAX_DURATION: Duration = Duration::from_secs(3_650 * 24 * 3_600);

/// Parses a duration with its unit, such as `250ms`, `30s`, `10m`, `24h` or `7d`.
///
/// # Errors
/// When the unit is missing or unknown, or the duration is longer than ten years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text.trim())
        .map_err(|_| "must be a number with a unit, like 250ms, 30s, 10m, 24h or 7d".to_owned())?;
    if duration > MAX_DURATION {
        return Err("must be at most 3650d".to_owned());
    }
    Ok(duration)
}

/// A value parser for durations from `min` to `max`, both included.
pub fn duration_between(
    min: Duration,
    max: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse_duration(text)?;
        if duration < min || duration > max {
            let (min, max) = (duration_text(min), duration_text(max));
            return Err(format!("must be from {min} to {max}"));
        }
        Ok(duration)
    }
}

/// Parses a size in bytes: a number, alone or with `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of
/// 1024) or `kB`, `MB`, `GB`, `TB` (powers of 1000), in any case.
///
/// # Errors
/// When it is anything else, or more than 2^63-1 bytes, the broker's largest limit.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bytes_rule())?;
    let bytes = number
        .checked_mul(unit_of(unit.trim()).ok_or_else(bytes_rule)?)
        .filter(|bytes| i64::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| "must be less than 8 EiB".to_owned())
}

fn bytes_rule() -> String {
    "must be a whole number of bytes, like 1048576, 256KiB, 1MiB or 10GiB".to_owned()
}

fn unit_of(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// Parses the prefix of an installation's subjects, streams and buckets: `[a-z][a-z0-9_-]{0,31}`.
///
/// # Errors
/// With the rule, when the text does not follow it.
pub fn parse_prefix(text: &str) -> Result<String, String> {
    let tail = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    let valid = text.len() <= 32
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(tail);
    if !valid {
        return Err(
            "must be a lower-case letter and then up to 31 of a-z, 0-9, `_` and `-`".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Parses the number of JetStream replicas.
pub(super) fn parse_replicas(text: &str) -> Result<usize, String> {
    match text.trim() {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("must be 1, 3 or 5".to_owned()),
    }
}

/// `url` with its `user:password@` replaced, whether or not the rest is a valid URL.
#[must_use]
pub fn redact_userinfo(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // The last `@` of the whole text where it lies before the path: a password may hold an
    // unescaped `/`, and then too much is hidden rather than too little.
    let at = rest[..authority].rfind('@').or_else(|| rest.rfind('@'));
    match at {
        Some(at) => format!("{scheme}{REDACTED}{}", &rest[at..]),
        None => url.to_owned(),
    }
}

pub(super) fn duration_text(duration: Duration) -> String {
    humantime::format_duration(duration)
        .to_string()
        .replace(' ', "")
}

/// For `#[serde(serialize_with)]`: a duration as [`parse_duration`] reads it.
///
/// # Errors
/// Only the serializer's own.
pub fn as_duration_text<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&duration_text(*duration))
}

/// For `#[serde(serialize_with)]`: an optional URL without its credentials.
///
/// # Errors
/// Only the serializer's own.
#[allow(clippy::ref_option, reason = "serde's signature")]
pub fn as_redacted_url<S: Serializer>(url: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    match url {
        Some(url) => to.serialize_some(&redact_userinfo(url)),
        None => to.serialize_none(),
    }
}

/// For `#[serde(serialize_with)]`: URLs without their credentials.
///
/// # Errors
/// Only the serializer's own.
pub fn as_redacted_urls<S: Serializer>(urls: &[String], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(urls.iter().map(|url| redact_userinfo(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_an_upper_bound() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration(" 34d "), Ok(Duration::from_hours(34 * 24)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for bad in [
            "",
            "30",
            "s",
            "-1s",
            "1e3s",
            "NaNs",
            "3651d",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn a_bounded_duration_names_its_bounds() {
        let parse = duration_between(Duration::from_secs(1), Duration::from_hours(1));
        assert_eq!(parse("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("999ms"), Err("must be from 1s to 1h".to_owned()));
        assert!(parse("61m").is_err());
    }

    #[test]
    fn a_duration_is_printed_as_it_is_read() {
        for text in ["250ms", "25s", "10m", "7d", "1h30m", "0s"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(
                parse_duration(&duration_text(duration)),
                Ok(duration),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1B", 1),
            ("256KiB", 256 << 10),
            ("256 kib", 256 << 10),
            ("1MiB", 1 << 20),
            ("10GiB", 10 << 30),
            ("2TiB", 2 << 40),
            ("1kB", 1_000),
            ("5MB", 5_000_000),
            ("1GB", 1_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_that_are_ambiguous_or_too_large_are_refused() {
        for bad in [
            "",
            "MiB",
            "1M",
            "1.5MiB",
            "-1",
            "+1",
            "1 MiB x",
            "9223372036854775808",
            "18446744073709551616",
            "8388608TiB",
        ] {
            assert!(parse_bytes(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn a_prefix_is_one_token_that_names_streams_and_subjects() {
        let longest = "a".repeat(32);
        for good in ["posthorn", "a", "a-b_9", longest.as_str()] {
            assert_eq!(parse_prefix(good).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(33);
        for bad in [
            "",
            "9a",
            "-a",
            "A",
            "a.b",
            "a b",
            "a*",
            "a>",
            "\u{e4}",
            too_long.as_str(),
        ] {
            assert!(parse_prefix(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn replicas_are_an_odd_quorum() {
        assert_eq!(["1", "3", "5"].map(parse_replicas), [Ok(1), Ok(3), Ok(5)]);
        for bad in ["0", "2", "7", "", "three"] {
            assert!(parse_replicas(bad).is_err(), "{bad:?} passed");
        }
    }

    #[test]
    fn dlq_06_credentials_are_cut_from_urls() {
        for (url, shown) in [
            ("nats://host:4222", "nats://host:4222"),
            ("nats://user:pw@host:4222", "nats://[redacted]@host:4222"),
            ("nats://token@host", "nats://[redacted]@host"),
            ("user:p@ss@host", "[redacted]@host"),
            ("http://u:p/w@host/x", "http://[redacted]@host/x"),
            ("host", "host"),
        ] {
            assert_eq!(redact_userinfo(url), shown);
        }
    }
}
