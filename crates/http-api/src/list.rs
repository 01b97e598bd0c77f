//! Lists and their pages.
//!
//! A cursor is where the next page begins, in the list's own order, and not a number of items:
//! what is added or deleted meanwhile neither repeats nor hides an item. It is encoded so that
//! nobody builds one.

use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Items of a page where nothing is said.
pub const DEFAULT_LIMIT: usize = 50;
/// The most items of a page.
pub const MAX_LIMIT: usize = 500;
/// The longest cursor that is looked at, in bytes.
const MAX_CURSOR: usize = 1_024;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `null` when this is the last.
    pub next_cursor: Option<String>,
    /// How many items this page has.
    pub count: usize,
    /// How many there are in all, where that is known.
    pub total: Option<u64>,
}

impl<T> List<T> {
    /// A page; `next` is where the next one begins.
    #[must_use]
    pub fn new(items: Vec<T>, next: Option<&str>, total: Option<u64>) -> List<T> {
        List {
            count: items.len(),
            items,
            next_cursor: next.map(encode),
            total,
        }
    }
}

/// Which page is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    limit: usize,
    after: Option<String>,
}

impl Paging {
    /// From the query parameters `limit` and `cursor`.
    ///
    /// # Errors
    /// 400 where the limit is not from 1 to [`MAX_LIMIT`] or the cursor is none of ours.
    pub fn try_new(limit: Option<u32>, cursor: Option<&str>) -> Result<Paging, Problem> {
        let limit = match limit {
            None => DEFAULT_LIMIT,
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        if !(1..=MAX_LIMIT).contains(&limit) {
            let detail = format!("a page has from 1 to {MAX_LIMIT} items");
            return Err(Problem::bad_request("query", "limit", detail));
        }
        let after = cursor.filter(|text| !text.is_empty()).map(decode);
        Ok(Paging {
            limit,
            after: after.transpose()?,
        })
    }

    /// The most items, from 1 to [`MAX_LIMIT`].
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Where the page begins, as it was given to [`List::new`].
    #[must_use]
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// The same as a number, for logs.
    ///
    /// # Errors
    /// 400 where the cursor is of another list.
    pub fn after_number(&self) -> Result<Option<u64>, Problem> {
        self.after
            .as_deref()
            .map(|text| text.parse().map_err(|_| bad_cursor()))
            .transpose()
    }
}

fn encode(place: &str) -> String {
    URL_SAFE_NO_PAD.encode(place)
}

fn decode(cursor: &str) -> Result<String, Problem> {
    if cursor.len() > MAX_CURSOR {
        return Err(bad_cursor());
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad_cursor())?;
    String::from_utf8(bytes).map_err(|_| bad_cursor())
}

/// 400: the cursor is not one that this list gave out.
#[must_use]
pub fn bad_cursor() -> Problem {
    let detail = "the cursor is not one that this list has given out";
    Problem::bad_request("query", "cursor", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_went_out() {
        let page = List::new(vec![1, 2], Some("acme.ep_1"), Some(7));
        assert_eq!((page.count, page.total), (2, Some(7)));
        let cursor = page.next_cursor.unwrap();
        let paging = Paging::try_new(None, Some(&cursor)).unwrap();
        assert_eq!(paging.after(), Some("acme.ep_1"));
        assert_eq!(paging.limit(), DEFAULT_LIMIT);
        assert!(paging.after_number().is_err());
    }

    #[test]
    fn limits_and_cursors_out_of_bounds_are_refused() {
        for limit in [0, 501, u32::MAX] {
            let refused = Paging::try_new(Some(limit), None).unwrap_err();
            assert_eq!(refused.field(), Some("limit"));
        }
        let long = "A".repeat(2_000);
        for cursor in ["!", "a b", "_w", long.as_str()] {
            let refused = Paging::try_new(Some(500), Some(cursor)).unwrap_err();
            assert_eq!(refused.field(), Some("cursor"), "{cursor}");
        }
        assert_eq!(Paging::try_new(None, Some("")).unwrap().after(), None);
    }
}
