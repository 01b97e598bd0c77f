//! What a receiver may ask for by `Retry-After`, as it comes over a socket: in which forms, how
//! far, and what is no such thing.

use crate::raw::Raw;
use crate::support::{attempts_at, line, send};
use posthorn_delivery::retry::{Jitter, Preset, RetryPolicyParts, Schedule};
use posthorn_delivery::{Attempt, Disposition, Endpoint, RetryPolicy, UnixMillis};
use posthorn_tests::rig::{Rig, endpoint};
use posthorn_tests::{Receiver, Reply};
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use time::macros::format_description;
use tokio::io::AsyncWriteExt as _;

/// The most that is heeded: a day.
const CEILING: Duration = Duration::from_secs(86_400);
/// What a schedule of 50 ms, and the least spread of what was asked for, may take.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Receivers that answer 503 with these header lines.
struct Quiet {
    rig: Rig,
    servers: Vec<(Raw, Endpoint)>,
}

impl Quiet {
    async fn start(lines: &[Vec<u8>]) -> Quiet {
        let rig = line().await;
        let mut servers = Vec::new();
        for line in lines {
            let head = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n";
            let answer = [&head[..], line, b"\r\n\r\n"].concat();
            let server = Raw::start(move |mut stream| {
                let answer = answer.clone();
                async move {
                    stream.write_all(&answer).await.unwrap();
                    // A body that is not read would make the end of it a reset.
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                }
            });
            let server = server.await;
            let target = endpoint("acme", &server.url());
            rig.put(&target).await.unwrap();
            servers.push((server, target));
        }
        send(&rig, "acme", "{}").await;
        Quiet { rig, servers }
    }

    /// The first attempt at each.
    async fn first(&self) -> Vec<Attempt> {
        let mut all = Vec::new();
        for (_, target) in &self.servers {
            all.push(attempts_at(&self.rig, target, 1).await.remove(0));
        }
        all
    }
}

fn line_of(value: &str) -> Vec<u8> {
    format!("Retry-After: {value}").into_bytes()
}

/// The earliest time of the next attempt.
fn next(attempt: &Attempt) -> UnixMillis {
    match attempt.disposition {
        Disposition::Retry { not_before, .. } => not_before,
        other => panic!("{other:?}"),
    }
}

/// A time in each of the forms of RFC 9110, 5.6.7.
fn dates(at: OffsetDateTime) -> [String; 3] {
    let imf = at.format(&Rfc2822).unwrap().replace("+0000", "GMT");
    let rfc850 = format_description!(
        "[weekday], [day]-[month repr:short]-[year repr:last_two] [hour]:[minute]:[second] GMT"
    );
    let asctime = format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    [imf, at.format(rfc850).unwrap(), at.format(asctime).unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn ra_01_no_attempt_comes_before_the_date_in_any_of_its_forms() {
    let at = OffsetDateTime::now_utc() + Duration::from_secs(90);
    let asked = UnixMillis(at.unix_timestamp() * 1_000);
    let lines: Vec<_> = dates(at).iter().map(|date| line_of(date)).collect();
    for (attempt, line) in Quiet::start(&lines).await.first().await.iter().zip(&lines) {
        let shown = String::from_utf8_lossy(line);
        let hold = attempt.hold_until.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(hold, asked, "{shown}");
        assert!(next(attempt) >= asked, "{shown}");
        assert!(
            next(attempt) <= asked + Duration::from_secs(10),
            "{shown}: {:?}",
            next(attempt)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ra_03_ra_05_what_is_no_delay_leaves_the_schedule() {
    let mut lines: Vec<Vec<u8>> = [
        "-5",
        "1.5",
        "+3",
        "1e9",
        "inf",
        "NaN",
        "0x10",
        "",
        "0",
        "00",
        "5, 6",
        "5;",
        "5s",
        "\"5\"",
        "five",
        "1_000",
        "0,5",
        "१२",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "2030-01-01T00:00:00Z",
        "Thu, 99 Jan 2099 00:00:00 GMT",
    ]
    .map(line_of)
    .into();
    lines.push(line_of(&"9".repeat(65)));
    lines.push(b"Retry-After: 50\r\nRetry-After: 60".to_vec());
    lines.push(b"Retry-After: 50\r\nretry-after: 50".to_vec());
    lines.push(b"Retry-After: \xff\xfe".to_vec());
    lines.push(b"X-Retry-After: 50".to_vec());
    for (attempt, line) in Quiet::start(&lines).await.first().await.iter().zip(&lines) {
        let shown = String::from_utf8_lossy(line);
        let asked = attempt.hold_until.map(|until| until.since(attempt.at));
        assert!(
            asked.is_none_or(|asked| asked < AT_ONCE),
            "{shown}: {asked:?}"
        );
        let wait = next(attempt).since(attempt.at);
        assert!(wait <= AT_ONCE, "{shown}: {wait:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ra_04_what_is_huge_is_cut_to_a_day() {
    let lines = [
        "86401",
        "9223372037",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ]
    .map(line_of);
    let quiet = Quiet::start(&lines).await;
    for (attempt, line) in quiet.first().await.iter().zip(&lines) {
        let shown = String::from_utf8_lossy(line);
        let latest = attempt.at + CEILING + Duration::from_secs(5);
        let hold = attempt.hold_until.unwrap_or_else(|| panic!("{shown}"));
        assert!(hold >= attempt.at + CEILING && hold <= latest, "{shown}");
        assert!(next(attempt) >= attempt.at + CEILING, "{shown}");
        assert!(
            next(attempt) <= latest + Duration::from_secs(300),
            "{shown}"
        );
    }
}

/// With a clock that is behind, every answer of a receiver asks for a time that has passed.
#[tokio::test(flavor = "multi_thread")]
async fn ra_05_a_date_that_has_passed_leaves_the_schedule_attempt_after_attempt() {
    const RUNG: Duration = Duration::from_millis(300);
    let rig = line().await;
    let receiver = Receiver::start().await.unwrap();
    let hour_ago = OffsetDateTime::now_utc() - Duration::from_secs(3_600);
    let [date, ..] = dates(hour_ago);
    receiver.answer("/hook", Reply::status(503).header("retry-after", &date));
    let mut target = endpoint("acme", &receiver.url("/hook"));
    let mut parts = RetryPolicyParts::of(Preset::Exponential);
    parts.max_attempts = 4;
    parts.schedule = Schedule::Ladder(vec![RUNG]);
    parts.jitter = Jitter::None;
    target.retry = RetryPolicy::try_new(parts).unwrap();
    rig.put(&target).await.unwrap();
    send(&rig, "acme", "{}").await;
    let all = attempts_at(&rig, &target, 4).await;
    for pair in all.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        assert!(gap >= RUNG, "{gap:?}");
    }
    assert_eq!(receiver.count(), 4);
}
