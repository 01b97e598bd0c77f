//! Time and randomness are arguments. One crate reads the real ones, so that every decision can be
//! repeated in a test; a policy that asks the clock by itself cannot.

use super::zones;
use crate::finding::{Finding, Rule};
use crate::source::Source;

const PURE: Rule = Rule {
    name: "pure",
    reason: "a pure crate takes the time and the random generator as arguments, so that its \
             decisions can be replayed",
};
const CLOCK: Rule = Rule {
    name: "clock",
    reason: "only posthorn-runtime reads the wall clock; a service is handed its clock",
};
const RANDOM: Rule = Rule {
    name: "randomness",
    reason: "only posthorn-runtime reads the system's randomness; a service is handed its generator",
};

/// Reads of the wall clock, by the end of the path.
const WALL: [&str; 7] = [
    "SystemTime::now",
    "OffsetDateTime::now_utc",
    "OffsetDateTime::now_local",
    "UtcDateTime::now",
    "Utc::now",
    "Local::now",
    "Uuid::now_v7",
];
/// Reads of the system's randomness, by the end of the path.
const ENTROPY: [&str; 13] = [
    "rand::rng",
    "rand::random",
    "rand::random_range",
    "rand::random_bool",
    "rand::fill",
    "rand::make_rng",
    "thread_rng",
    "ThreadRng",
    "OsRng",
    "SysRng",
    "getrandom::fill",
    "SystemRandom",
    "Uuid::new_v4",
];
const MONOTONIC: &str = "Instant::now";
/// Crates that may read the wall clock, and tokio's or the system's monotonic one.
const READS_CLOCK: [&str; 4] = ["runtime", "nats-server", "xtask", "tests"];
const READS_ENTROPY: [&str; 2] = ["runtime", "tests"];

/// Clocks and randomness read where they may not be, in one file that is no test.
pub fn check(source: &Source) -> Vec<Finding> {
    let Some(krate) = zones::crate_of(&source.path) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = Vec::new();
    for mention in &source.mentions {
        let Some(rule) = judge(krate, &source.path, &mention.path) else {
            continue;
        };
        let finding = Finding::new(
            rule,
            &source.path,
            mention.line,
            format!("`{}`", mention.path),
        );
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

fn judge(krate: &str, path: &str, name: &str) -> Option<Rule> {
    let wall = WALL.iter().any(|end| ends_with(name, end));
    let entropy = ENTROPY.iter().any(|end| ends_with(name, end));
    let monotonic = ends_with(name, MONOTONIC);
    if zones::PURE.contains(&krate) {
        let reads = wall || entropy || monotonic || name == ".elapsed";
        return reads.then_some(PURE);
    }
    if entropy && !READS_ENTROPY.contains(&krate) {
        return Some(RANDOM);
    }
    // Tokio's monotonic clock stands still under a paused test clock: services pace with it.
    let reads_clock = wall || (monotonic && !name.starts_with("tokio::time::"));
    let may_read = READS_CLOCK.contains(&krate) || zones::is_load_generator(path);
    (reads_clock && !may_read).then_some(CLOCK)
}

fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end)
        .is_some_and(|head| head.is_empty() || head.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<&'static str> {
        let source = Source::parse(path, text).unwrap();
        check(&source)
            .iter()
            .map(|finding| finding.rule.name)
            .collect()
    }

    #[test]
    fn a_pure_crate_may_read_nothing() {
        let path = "crates/delivery/src/a.rs";
        for body in [
            "std::time::SystemTime::now();",
            "tokio::time::Instant::now();",
            "rand::rng();",
            "rand::random::<u8>();",
            "started.elapsed();",
            "uuid::Uuid::now_v7();",
        ] {
            assert_eq!(
                names(path, &format!("fn a() {{ {body} }}")),
                ["pure"],
                "{body}"
            );
        }
    }

    #[test]
    fn a_service_may_pace_by_tokio_only() {
        let path = "crates/scheduler/src/a.rs";
        assert!(names(path, "use tokio::time::Instant; fn a() { Instant::now(); }").is_empty());
        assert_eq!(
            names(path, "use std::time::Instant; fn a() { Instant::now(); }"),
            ["clock"]
        );
        assert_eq!(
            names(path, "fn a() { std::time::SystemTime::now(); }"),
            ["clock"]
        );
    }

    #[test]
    fn a_renamed_import_does_not_hide_a_clock() {
        let text = "use std::time::SystemTime as Wall; fn a() { let t = Wall::now; }";
        assert_eq!(names("crates/broker/src/a.rs", text), ["clock"]);
    }

    #[test]
    fn randomness_is_handed_in() {
        let path = "crates/dispatcher/src/a.rs";
        assert_eq!(names(path, "fn a() { rand::rng(); }"), ["randomness"]);
        assert_eq!(names(path, "fn a() { vec![rand::rng()]; }"), ["randomness"]);
        assert!(names(path, "fn a(rng: &mut impl rand::Rng) { rng.random(); }").is_empty());
    }

    #[test]
    fn the_runtime_and_the_load_generator_may_read() {
        let text = "fn a() { std::time::SystemTime::now(); }";
        assert!(names("crates/runtime/src/clock.rs", text).is_empty());
        assert!(names("crates/posthorn/src/bench.rs", text).is_empty());
        assert_eq!(names("crates/posthorn/src/main.rs", text), ["clock"]);
        assert!(names("crates/runtime/src/clock.rs", "fn a() { rand::rng(); }").is_empty());
    }
}
