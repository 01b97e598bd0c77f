//! `Retry-After` (RFC 9110, section 10.2.3): seconds, or an HTTP date.
//!
//! The value comes from outside and is read as such: digits only, an HTTP date only, anything
//! else is as if the header were absent. Signed, fractional, exponent and hex forms are read
//! by careless parsers as a year, as zero or as infinity.

use crate::time::{UnixMillis, millis};
use rand::{Rng, RngExt};
use std::time::{Duration, UNIX_EPOCH};

/// What is asked for beyond this is cut to it: 24 hours.
pub const RETRY_AFTER_CEILING: Duration = Duration::from_secs(86_400);

/// Longer values are not looked at.
const MAX_LENGTH: usize = 64;

/// A valid `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// So long from the time the response came.
    Delay(Duration),
    /// Not before this time.
    At(UnixMillis),
}

impl RetryAfter {
    /// Reads the header's values as they came; two headers, like none, give `None`.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<RetryAfter> {
        let mut values = values.into_iter();
        let value = values.next()?;
        if values.next().is_some() || value.is_empty() || value.len() > MAX_LENGTH {
            return None;
        }
        if value.iter().all(u8::is_ascii_digit) {
            return Some(RetryAfter::Delay(Duration::from_secs(saturating_digits(
                value,
            ))));
        }
        let text = std::str::from_utf8(value).ok()?;
        let at = httpdate::parse_http_date(text)
            .ok()?
            .duration_since(UNIX_EPOCH)
            .ok()?;
        Some(RetryAfter::At(UnixMillis(0) + at))
    }

    /// How long from `now` was asked for: 0 to [`RETRY_AFTER_CEILING`].
    #[must_use]
    pub fn wait_from(self, now: UnixMillis) -> Duration {
        let asked = match self {
            RetryAfter::Delay(delay) => delay,
            RetryAfter::At(at) => now.until(at),
        };
        asked.min(RETRY_AFTER_CEILING)
    }

    /// Until when to leave the receiver alone: never earlier than asked (up to the ceiling),
    /// nor than `floor`, and up to a tenth (at least 1 s, at most 5 min) later, so that those
    /// who were told the same time do not come at the same time.
    pub fn not_before(self, floor: UnixMillis, now: UnixMillis, rng: &mut impl Rng) -> UnixMillis {
        let asked = self.wait_from(now);
        let spread = (asked / 10).clamp(Duration::from_secs(1), Duration::from_secs(300));
        let later = Duration::from_millis(rng.random_range(0..=millis(spread)));
        (now + asked + later).max(floor)
    }
}

fn saturating_digits(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn one(value: &str) -> Option<RetryAfter> {
        RetryAfter::parse([value.as_bytes()])
    }

    #[test]
    fn ra_01_an_http_date_is_read() {
        let at = UNIX_EPOCH + Duration::from_secs(1_800_000_090);
        let parsed = one(&httpdate::fmt_http_date(at)).unwrap();
        assert_eq!(parsed.wait_from(NOW), Duration::from_secs(90));
    }

    #[test]
    fn ra_03_anything_but_digits_or_a_date_is_absent() {
        for bad in [
            "-5", "1.5", "+3", " 7 ", "1e9", "inf", "NaN", "0x10", "", "tomorrow", "१",
        ] {
            assert_eq!(one(bad), None, "{bad:?}");
        }
        assert_eq!(RetryAfter::parse([b"5".as_slice(), b"6".as_slice()]), None);
        assert_eq!(RetryAfter::parse([b"\xff\xfe".as_slice()]), None);
        assert_eq!(RetryAfter::parse(std::iter::empty()), None);
        assert_eq!(one(&"9".repeat(65)), None);
    }

    #[test]
    fn ra_04_huge_values_are_cut_to_the_ceiling() {
        let far = [
            "9223372037",
            "18446744073709551615",
            "99999999999999999999",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ];
        for value in far {
            assert_eq!(
                one(value).unwrap().wait_from(NOW),
                RETRY_AFTER_CEILING,
                "{value}"
            );
        }
    }

    #[test]
    fn ra_05_zero_or_a_past_date_leaves_the_backoff() {
        let mut rng = Pcg64::seed_from_u64(1);
        let floor = NOW + Duration::from_secs(30);
        for value in ["0", "Thu, 01 Jan 1970 00:00:00 GMT"] {
            assert_eq!(
                one(value).unwrap().not_before(floor, NOW, &mut rng),
                floor,
                "{value}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_early_and_never_far_beyond_the_ceiling(
            seconds in any::<u64>(), floor in 0_i64..1_000_000, seed in any::<u64>(),
        ) {
            let asked = RetryAfter::Delay(Duration::from_secs(seconds));
            let floor = NOW + Duration::from_millis(floor as u64);
            let at = asked.not_before(floor, NOW, &mut Pcg64::seed_from_u64(seed));
            prop_assert!(at >= NOW + Duration::from_secs(seconds).min(RETRY_AFTER_CEILING));
            prop_assert!(at >= floor);
            prop_assert!(at <= (NOW + RETRY_AFTER_CEILING + Duration::from_secs(300)).max(floor));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = RetryAfter::parse([bytes.as_slice()]);
        }
    }
}
