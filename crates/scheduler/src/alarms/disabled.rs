//! Endpoints that Posthorn has switched off, for a dispatcher that died before it told.

use super::NEWS;
use posthorn_delivery::{Endpoint, EndpointId, UnixMillis};
use posthorn_notices::Notice;
use std::collections::HashMap;

/// Which have been told of, with since when they are disabled.
#[derive(Default)]
pub(super) struct Disabled {
    told: HashMap<EndpointId, UnixMillis>,
    revision: Option<u64>,
}

impl Disabled {
    /// Whether anything has changed since the last look.
    pub fn looks_again(&mut self, revision: u64) -> bool {
        self.revision.replace(revision) != Some(revision)
    }

    /// Those that are new.
    pub fn news<'a>(
        &mut self,
        endpoints: impl Iterator<Item = &'a Endpoint>,
        now: UnixMillis,
    ) -> Vec<Notice> {
        let before = std::mem::take(&mut self.told);
        let mut news = Vec::new();
        for endpoint in endpoints {
            let (Some((_, since)), Some(notice)) =
                (endpoint.disabled, Notice::of_disabled(endpoint))
            else {
                continue;
            };
            self.told.insert(endpoint.id.clone(), since);
            let known = before.get(&endpoint.id) == Some(&since);
            if !known && now.since(since) < NEWS {
                news.push(notice);
            }
        }
        news
    }
}
