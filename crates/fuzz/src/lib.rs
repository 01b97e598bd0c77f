//! What reads foreign bytes, each as a function that a fuzzer can feed.
//!
//! A target does more than not to panic: it says what must be true of whatever was accepted, by
//! means that are independent of the code that accepted it. An address that is allowed is asked
//! of a second table, a signature that is believed must be one that we made, what was read must
//! be the same when it is written and read again.
//!
//! The engine (libFuzzer) is behind the feature `engine`, and `cargo xtask fuzz` builds it with
//! coverage. Without it this crate is a plain library, and its one test runs every file of
//! `corpus/` through its target, as part of `cargo test`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod reachable;
mod targets;

use targets::wire;
use targets::{address, batch, document, envelope, filter, pattern, retry_after, signature, url};

/// Something that reads foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder under `corpus/`.
    pub name: &'static str,
    /// Feeds it.
    ///
    /// # Panics
    /// Where a promise is broken: that is what the engine looks for.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 10] = [
    Target {
        name: "retry_after",
        run: retry_after::run,
    },
    Target {
        name: "target_url",
        run: url::run,
    },
    Target {
        name: "address",
        run: address::run,
    },
    Target {
        name: "event_envelope",
        run: envelope::run,
    },
    Target {
        name: "batch",
        run: batch::run,
    },
    Target {
        name: "endpoint_document",
        run: document::run,
    },
    Target {
        name: "signature",
        run: signature::run,
    },
    Target {
        name: "letter_filter",
        run: filter::run,
    },
    Target {
        name: "pattern",
        run: pattern::run,
    },
    Target {
        name: "wire",
        run: wire::run,
    },
];

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
