//! Which part of the repository a file belongs to: rules are laxer in some parts than in others.

/// Crates of pure decisions: no clock, no randomness, no input or output.
pub const PURE: [&str; 4] = ["delivery", "signing", "egress", "vault"];

/// The crate a file belongs to: the folder under `crates/`, or `tests`.
pub fn crate_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match parts.next()? {
        "crates" => parts.next(),
        "tests" => Some("tests"),
        _ => None,
    }
}

/// Whether the file is only ever compiled for tests, benches or the build itself.
pub fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    match parts.next() {
        Some("tests") => true,
        Some("crates") => {
            matches!(
                parts.nth(1),
                Some("tests" | "benches" | "examples" | "fuzz" | "build.rs")
            )
        }
        _ => false,
    }
}

/// Whether the file belongs to the load generator of the command line, which measures real time.
pub fn is_load_generator(path: &str) -> bool {
    path.strip_prefix("crates/posthorn/src/")
        .is_some_and(|rest| {
            rest.split('/')
                .any(|part| part == "bench" || part.starts_with("bench."))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_named_by_their_folder() {
        assert_eq!(crate_of("crates/delivery/src/lib.rs"), Some("delivery"));
        assert_eq!(crate_of("tests/src/lib.rs"), Some("tests"));
        assert_eq!(crate_of("docs/adr/0001.md"), None);
    }

    #[test]
    fn test_files_are_told_from_sources() {
        assert!(is_test_file("tests/src/harness.rs"));
        assert!(is_test_file("crates/broker/tests/publish.rs"));
        assert!(is_test_file("crates/proto/build.rs"));
        assert!(!is_test_file("crates/broker/src/tests_of_time.rs"));
    }

    #[test]
    fn only_the_load_generator_measures() {
        assert!(is_load_generator("crates/posthorn/src/bench.rs"));
        assert!(is_load_generator(
            "crates/posthorn/src/commands/bench/report.rs"
        ));
        assert!(!is_load_generator("crates/posthorn/src/benchmarkless.rs"));
        assert!(!is_load_generator("crates/dispatcher/src/bench.rs"));
    }
}
