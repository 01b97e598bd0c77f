//! The judgement: what was accepted was delivered or dead-lettered, and nothing else happened.
//!
//! A delivery is one event owed to one endpoint, so everything is counted by that pair; the
//! endpoint is named by the path of its URL at the receiver. Delivered is what the receiver
//! *answered* with 2xx: a request that it read and then hung on was not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};

use crate::receiver::Received;

/// One event owed to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owed {
    /// The event's id, which is the `webhook-id`.
    pub event: String,
    /// The path of the endpoint's URL.
    pub path: String,
}

impl Owed {
    /// The delivery of `event` to the endpoint at `path`.
    pub fn new(event: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            event: event.into(),
            path: path.into(),
        }
    }
}

/// Notes what was accepted while a test publishes, from any number of tasks.
#[derive(Debug, Default)]
pub struct Oracle {
    accepted: Mutex<BTreeSet<Owed>>,
}

/// What became of everything that was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many deliveries were owed.
    pub accepted: usize,
    /// How many of them were answered with 2xx at least once.
    pub delivered: usize,
    /// How many of them were dead-lettered.
    pub dead: usize,
    /// Neither delivered nor dead-lettered.
    pub lost: Vec<Owed>,
    /// Delivered and dead-lettered. A dispatcher killed between the answer and its record may
    /// cause one; in a run without faults there is none.
    pub both: Vec<Owed>,
    /// Answered with 2xx more than once, and how often.
    pub duplicates: BTreeMap<Owed, usize>,
    /// Answered with 2xx or dead-lettered though never accepted here. A publish whose answer
    /// was lost causes one.
    pub unknown: Vec<Owed>,
}

impl Oracle {
    /// Nothing accepted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that `event` was accepted and is owed to the endpoints at `paths`.
    pub fn accept<P: Into<String>>(&self, event: &str, paths: impl IntoIterator<Item = P>) {
        let mut accepted = self.lock();
        accepted.extend(paths.into_iter().map(|path| Owed::new(event, path)));
    }

    /// How many deliveries are owed.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.lock().len()
    }

    /// Judges by what the receiver saw and what was dead-lettered.
    pub fn judge<'a>(
        &self,
        received: impl IntoIterator<Item = &'a Received>,
        dead: impl IntoIterator<Item = Owed>,
    ) -> Verdict {
        let accepted = self.lock();
        let dead: BTreeSet<Owed> = dead.into_iter().collect();
        let delivered = count_delivered(received);
        let mut verdict = Verdict {
            accepted: accepted.len(),
            ..Verdict::default()
        };
        for owed in accepted.iter() {
            match (delivered.contains_key(owed), dead.contains(owed)) {
                (true, true) => verdict.both.push(owed.clone()),
                (false, false) => verdict.lost.push(owed.clone()),
                _ => {}
            }
            verdict.delivered += usize::from(delivered.contains_key(owed));
            verdict.dead += usize::from(dead.contains(owed));
        }
        let met: BTreeSet<&Owed> = delivered.keys().chain(&dead).collect();
        verdict.unknown = met
            .into_iter()
            .filter(|owed| !accepted.contains(owed))
            .cloned()
            .collect();
        verdict.duplicates = delivered
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .collect();
        verdict
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<Owed>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verdict {
    /// Holds the one promise that no fault may break.
    ///
    /// # Errors
    /// When something accepted was neither delivered nor dead-lettered, or when nothing was
    /// accepted, which proves nothing.
    pub fn nothing_lost(&self) -> Result<()> {
        ensure!(self.accepted > 0, "nothing was accepted");
        ensure!(
            self.lost.is_empty(),
            "{} of {} lost, for instance {:?}",
            self.lost.len(),
            self.accepted,
            &self.lost[..self.lost.len().min(3)]
        );
        Ok(())
    }

    /// Holds what a run without faults promises: each exactly once, or dead-lettered.
    ///
    /// # Errors
    /// When something was lost, delivered twice, or both delivered and dead-lettered.
    pub fn exactly_once(&self) -> Result<()> {
        self.nothing_lost()?;
        ensure!(
            self.duplicates.is_empty(),
            "delivered more than once: {:?}",
            self.duplicates.first_key_value()
        );
        ensure!(
            self.both.is_empty(),
            "delivered and dead-lettered: {:?}",
            self.both.first()
        );
        Ok(())
    }
}

fn count_delivered<'a>(received: impl IntoIterator<Item = &'a Received>) -> BTreeMap<Owed, usize> {
    let mut delivered = BTreeMap::new();
    for request in received {
        let success = request
            .answered()
            .is_some_and(|status| (200..300).contains(&status));
        if let (true, Some(event)) = (success, request.header("webhook-id")) {
            *delivered
                .entry(Owed::new(event, request.path()))
                .or_default() += 1;
        }
    }
    delivered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(event: &str, path: &str, status: Option<u16>) -> Received {
        Received::for_test(path, &[("webhook-id", event)], status)
    }

    #[test]
    fn each_fate_is_told_apart() {
        let oracle = Oracle::new();
        oracle.accept("once", ["/a", "/b"]);
        oracle.accept("dead", ["/a"]);
        oracle.accept("lost", ["/a"]);
        oracle.accept("both", ["/a"]);
        oracle.accept("hung", ["/a"]);
        let received = [
            request("once", "/a", Some(200)),
            request("once", "/b", Some(503)),
            request("once", "/b", Some(204)),
            request("once", "/b", Some(200)),
            request("both", "/a", Some(200)),
            request("hung", "/a", None),
            request("stranger", "/a", Some(200)),
        ];
        let dead = [Owed::new("dead", "/a"), Owed::new("both", "/a")];
        let verdict = oracle.judge(&received, dead);
        assert_eq!(verdict.accepted, 6);
        assert_eq!(verdict.delivered, 3);
        assert_eq!(verdict.dead, 2);
        assert_eq!(
            verdict.lost,
            [Owed::new("hung", "/a"), Owed::new("lost", "/a")]
        );
        assert_eq!(verdict.both, [Owed::new("both", "/a")]);
        assert_eq!(verdict.unknown, [Owed::new("stranger", "/a")]);
        assert_eq!(
            verdict.duplicates,
            BTreeMap::from([(Owed::new("once", "/b"), 2)])
        );
        assert!(verdict.nothing_lost().is_err());
    }

    #[test]
    fn an_event_delivered_to_another_endpoint_is_lost_for_this_one() {
        let oracle = Oracle::new();
        oracle.accept("one", ["/a"]);
        let received = [request("one", "/b", Some(200))];
        let verdict = oracle.judge(&received, []);
        assert_eq!(verdict.lost, [Owed::new("one", "/a")]);
    }

    #[test]
    fn a_duplicate_is_not_a_loss_but_it_is_not_once_either() {
        let oracle = Oracle::new();
        oracle.accept("one", ["/a"]);
        let twice = [
            request("one", "/a", Some(200)),
            request("one", "/a", Some(200)),
        ];
        let verdict = oracle.judge(&twice, []);
        assert!(verdict.nothing_lost().is_ok());
        assert!(verdict.exactly_once().is_err());
    }

    #[test]
    fn nothing_accepted_proves_nothing() {
        let nothing: [Received; 0] = [];
        assert!(Oracle::new().judge(&nothing, []).nothing_lost().is_err());
    }
}
