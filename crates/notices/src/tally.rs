//! How often dead letters are told one by one.
//!
//! A hundred thousand deliveries may die in the same minute, of one endpoint or of many. Each
//! told by itself would double the load just when there is most of it, and tell nobody more.
//! So the first few letters of an endpoint are told one by one, and what comes beyond them in
//! the same minute is counted and told once, at its end; and beyond some endpoints, all further
//! ones together.

use crate::notice::{Letters, Notice};
use posthorn_delivery::{EndpointId, MessageId, Reason, Tenant, UnixMillis};
use std::collections::HashMap;
use std::time::Duration;

/// Letters of one endpoint that are told one by one in a window.
pub const ONE_BY_ONE: u32 = 5;
/// Endpoints that are kept apart in a window.
pub const ENDPOINTS: usize = 100;
/// How long a window is: a minute.
pub const WINDOW: Duration = Duration::from_secs(60);

type Key = (Option<Tenant>, Option<EndpointId>);

/// The letters of the window that is open.
#[derive(Debug, Default)]
pub struct Tally {
    endpoints: HashMap<Key, Count>,
    rest: Count,
    ending: bool,
}

#[derive(Debug, Default)]
struct Count {
    told: u32,
    more: HashMap<Reason, u64>,
    first_at: UnixMillis,
    last_at: UnixMillis,
}

impl Count {
    fn add(&mut self, reason: Reason, at: UnixMillis) {
        if self.more.is_empty() {
            self.first_at = at;
        }
        self.first_at = self.first_at.min(at);
        self.last_at = self.last_at.max(at);
        *self.more.entry(reason).or_default() += 1;
    }
}

impl Tally {
    /// Takes a letter of `tenant` and `endpoint` in: true where it is to be told by itself, else
    /// it is counted.
    pub fn take_in(&mut self, of: Key, reason: Reason, at: UnixMillis) -> bool {
        if self.ending {
            return true;
        }
        let known = self.endpoints.contains_key(&of);
        if !known && self.endpoints.len() >= ENDPOINTS {
            self.rest.add(reason, at);
            return false;
        }
        let count = self.endpoints.entry(of).or_default();
        if count.told < ONE_BY_ONE {
            count.told += 1;
            return true;
        }
        count.add(reason, at);
        false
    }

    /// Ends the window: what was counted and not told yet. `key` is what the ids of these
    /// notices are made of; it must be no other window's and no other process'.
    pub fn sum_up(&mut self, key: u128) -> Vec<Notice> {
        let rest = std::mem::take(&mut self.rest);
        let endpoints = std::mem::take(&mut self.endpoints);
        let all = endpoints.into_iter().chain([((None, None), rest)]);
        all.filter(|(_, count)| !count.more.is_empty())
            .enumerate()
            .map(|(n, (of, count))| summary(of, &count, (key, n)))
            .collect()
    }

    /// There is no further window: every letter is told by itself from now on.
    pub fn end(&mut self) {
        self.ending = true;
    }
}

fn summary((tenant, endpoint): Key, count: &Count, (key, n): (u128, usize)) -> Notice {
    let reasons = Reason::ALL.iter().filter_map(|reason| {
        let of_it = *count.more.get(reason)?;
        Some((*reason, of_it))
    });
    let n = u64::try_from(n).unwrap_or(u64::MAX);
    Notice::DeadLetter(Letters {
        tenant,
        endpoint,
        count: count.more.values().sum(),
        reasons: reasons.collect(),
        first_at: count.first_at,
        last_at: count.last_at,
        letter: None,
        key: MessageId::of("notice-sum", &[&key.to_be_bytes(), &n.to_be_bytes()]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: UnixMillis = UnixMillis(1_000);

    fn of(endpoint: u128) -> Key {
        (
            Tenant::parse("acme").ok(),
            Some(EndpointId::from_bits(endpoint)),
        )
    }

    fn letters(notices: Vec<Notice>) -> Vec<Letters> {
        let of_letter = |notice| match notice {
            Notice::DeadLetter(letters) => letters,
            other => panic!("{other:?}"),
        };
        notices.into_iter().map(of_letter).collect()
    }

    #[test]
    fn a_storm_of_one_endpoint_is_told_in_six_events() {
        let mut tally = Tally::default();
        let told = (0..100_000).filter(|n| {
            let reason = if n % 2 == 0 {
                Reason::Exhausted
            } else {
                Reason::Expired
            };
            tally.take_in(of(1), reason, UnixMillis(*n))
        });
        assert_eq!(told.count(), 5);
        let summed = letters(tally.sum_up(1));
        assert_eq!(summed.len(), 1);
        assert_eq!(summed[0].count, 99_995);
        assert_eq!(
            summed[0].reasons.iter().map(|(_, n)| n).sum::<u64>(),
            99_995
        );
        assert_eq!(
            (summed[0].first_at, summed[0].last_at),
            (UnixMillis(5), UnixMillis(99_999))
        );
        assert!(tally.sum_up(2).is_empty(), "nothing is told twice");
        assert!(
            tally.take_in(of(1), Reason::Gone, AT),
            "a new window begins"
        );
    }

    #[test]
    fn a_storm_over_many_endpoints_is_bounded_and_nothing_is_left_uncounted() {
        let mut tally = Tally::default();
        let mut told = 0_u64;
        for endpoint in 0..10_000 {
            for _ in 0..10 {
                told += u64::from(tally.take_in(of(endpoint), Reason::EgressDenied, AT));
            }
        }
        let summed = letters(tally.sum_up(1));
        assert_eq!(told, 500);
        assert_eq!(summed.len(), ENDPOINTS + 1);
        let counted: u64 = summed.iter().map(|letters| letters.count).sum();
        assert_eq!(told + counted, 100_000);
        let ids: std::collections::HashSet<_> =
            summed.iter().map(|l| l.key.as_str().to_owned()).collect();
        assert_eq!(ids.len(), summed.len(), "each has an id of its own");
    }

    #[test]
    fn at_the_end_of_a_process_nothing_is_left_for_later() {
        let mut tally = Tally::default();
        tally.end();
        assert!((0..50).all(|_| tally.take_in(of(1), Reason::Gone, AT)));
        assert!(tally.sum_up(1).is_empty());
    }
}
