//! Failing on purpose, a number of times.

use std::sync::atomic::{AtomicU64, Ordering};

/// With which status, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailSpec {
    status: u16,
    count: u64,
}

impl FailSpec {
    /// Reads `503:5`, or `503` for always.
    ///
    /// # Errors
    /// With the rule.
    pub fn parse(text: &str) -> Result<FailSpec, String> {
        let rule = || "must be an HTTP status and how often, like 503:5".to_owned();
        let (status, count) = match text.split_once(':') {
            Some((status, count)) => (status, count.parse().map_err(|_| rule())?),
            None => (text, u64::MAX),
        };
        let status = status.parse().map_err(|_| rule())?;
        if !(200..=599).contains(&status) {
            return Err("the status must be from 200 to 599".to_owned());
        }
        Ok(FailSpec { status, count })
    }
}

/// The failures that are left.
#[derive(Debug)]
pub(crate) struct Failures {
    status: u16,
    left: AtomicU64,
}

impl Failures {
    /// All of them, or none.
    pub fn new(spec: Option<FailSpec>) -> Failures {
        let none = FailSpec {
            status: 500,
            count: 0,
        };
        let spec = spec.unwrap_or(none);
        Failures {
            status: spec.status,
            left: AtomicU64::new(spec.count),
        }
    }

    /// The status to fail with, where there is a failure left.
    pub fn take(&self) -> Option<u16> {
        let less = |left: u64| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok().then_some(self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_as_often_as_it_is_told() {
        let failures = Failures::new(Some(FailSpec::parse("503:2").unwrap()));
        let taken: Vec<Option<u16>> = (0..4).map(|_| failures.take()).collect();
        assert_eq!(taken, [Some(503), Some(503), None, None]);
        assert_eq!(Failures::new(None).take(), None);
    }

    #[test]
    fn without_a_count_it_always_fails() {
        let failures = Failures::new(Some(FailSpec::parse("410").unwrap()));
        assert!((0..1000).all(|_| failures.take() == Some(410)));
    }

    #[test]
    fn what_is_no_failure_is_refused() {
        for bad in ["", ":", "503:", "503:x", "99", "600", "x:1", "503:-1"] {
            assert!(FailSpec::parse(bad).is_err(), "{bad}");
        }
    }
}
