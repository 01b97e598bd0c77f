//! `Retry-After`: several values, separated by line breaks.

use posthorn_delivery::UnixMillis;
use posthorn_delivery::retry::{RETRY_AFTER_CEILING, RetryAfter};
use rand::SeedableRng as _;
use rand_pcg::Pcg64;
use std::time::Duration;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const LONGEST_SPREAD: Duration = Duration::from_secs(300);

/// What is read is waited for, never longer than the ceiling and the spread.
pub(crate) fn run(data: &[u8]) {
    let Some(read) = RetryAfter::parse(data.split(|byte| *byte == b'\n')) else {
        return;
    };
    assert!(
        data.is_ascii() && !data.contains(&b'\n'),
        "one value of ASCII"
    );
    let asked = read.wait_from(NOW);
    assert!(asked <= RETRY_AFTER_CEILING);
    let mut rng = Pcg64::seed_from_u64(data.len() as u64);
    let at = read.not_before(NOW, NOW, &mut rng);
    assert!(at >= NOW + asked, "earlier than asked");
    assert!(at <= NOW + RETRY_AFTER_CEILING + LONGEST_SPREAD);
    if let Ok(seconds) = std::str::from_utf8(data).unwrap_or_default().parse::<u64>() {
        let said = Duration::from_secs(seconds).min(RETRY_AFTER_CEILING);
        assert_eq!(asked, said, "another number than the header's");
    }
}
