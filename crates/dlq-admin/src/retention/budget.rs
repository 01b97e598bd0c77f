//! How much each tenant's dead letters weigh, and where they are to be cut.
//!
//! The sums are kept from what is stored; what goes without our doing is not taken off. So a sum
//! is an upper bound, good enough to see who is within his budget. Who seems to be over it is
//! weighed anew before anything of his is dropped, and then cut to nine tenths, so that he is
//! weighed again only after he has stored as much as that.

use std::collections::HashMap;

/// What is left of a budget after a cut, in tenths.
const LEFT: u64 = 9;

/// The weights of all tenants.
#[derive(Debug, Default)]
pub struct Weights {
    tenants: HashMap<String, u64>,
}

impl Weights {
    /// Takes a letter in.
    pub fn add(&mut self, tenant: &str, bytes: u64) {
        match self.tenants.get_mut(tenant) {
            Some(sum) => *sum += bytes,
            None => {
                self.tenants.insert(tenant.to_owned(), bytes);
            }
        }
    }

    /// Who may be over `budget`, in the order of their names.
    #[must_use]
    pub fn over(&self, budget: u64) -> Vec<String> {
        let over = self.tenants.iter().filter(|(_, sum)| **sum > budget);
        let mut over: Vec<String> = over.map(|(tenant, _)| tenant.clone()).collect();
        over.sort_unstable();
        over
    }

    /// A tenant has been weighed anew.
    pub fn set(&mut self, tenant: &str, bytes: u64) {
        self.tenants.insert(tenant.to_owned(), bytes);
    }
}

/// Where a tenant's letters are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The letters before this sequence go; 0 where none do.
    pub below: u64,
    /// What the others weigh.
    pub left: u64,
}

/// Where to cut `letters`, sequences and weights in ascending order, so that what is left is
/// within `budget`. The newest letter always stays.
#[must_use]
pub fn cut(letters: &[(u64, u64)], budget: u64) -> Cut {
    let total: u64 = letters.iter().map(|(_, bytes)| bytes).sum();
    if total <= budget {
        return Cut {
            below: 0,
            left: total,
        };
    }
    let target = budget / 10 * LEFT;
    let mut left = 0;
    let mut below = 0;
    for (sequence, bytes) in letters.iter().rev() {
        if below != 0 && left + bytes > target {
            break;
        }
        left += bytes;
        below = *sequence;
    }
    Cut { below, left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_until_nine_tenths_are_left() {
        let letters: Vec<(u64, u64)> = (1..=20).map(|n| (n * 3, 100)).collect();
        assert_eq!(
            cut(&letters, 2_000),
            Cut {
                below: 0,
                left: 2_000
            }
        );
        let found = cut(&letters, 1_000);
        assert_eq!(
            found,
            Cut {
                below: 12 * 3,
                left: 900
            }
        );
        assert_eq!(cut(&[], 1_000), Cut { below: 0, left: 0 });
    }

    #[test]
    fn the_newest_letter_stays_however_large_it_is() {
        let letters = [(1, 10), (2, 5_000)];
        assert_eq!(
            cut(&letters, 1_000),
            Cut {
                below: 2,
                left: 5_000
            }
        );
    }

    #[test]
    fn a_tenant_within_its_budget_is_not_looked_at() {
        let mut weights = Weights::default();
        for _ in 0..10 {
            weights.add("loud", 200);
            weights.add("quiet", 10);
        }
        assert_eq!(weights.over(1_000), ["loud"]);
        weights.set("loud", 900);
        assert!(weights.over(1_000).is_empty());
    }
}
